from __future__ import annotations

import pytest

from lm_datafusion.predicate.volatility import may_change


@pytest.mark.parametrize(
    "text",
    [
        "t < now()",
        "random () < 0.5",
        "d = CURRENT_DATE",
        "id = uuid()",
        "ts > Now( )",
        "today() = d",
    ],
)
def test_functions_whose_answer_changes(text):
    assert may_change(text)


@pytest.mark.parametrize("text", ["uuid = 'a'", '"now" = 3', "known(3)", "today > 1", "a = 1"])
def test_names_that_only_look_alike(text):
    assert not may_change(text)
