"""EXPLAIN is distinguished from other statements."""

from __future__ import annotations

import pytest

from lm_datafusion.sql.statement import split_explain


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("EXPLAIN SELECT 1", ("EXPLAIN ", "SELECT 1")),
        (" explain analyze verbose select 1", (" explain analyze verbose ", "select 1")),
        ("-- why\nEXPLAIN FORMAT tree SELECT 1", ("-- why\nEXPLAIN FORMAT tree ", "SELECT 1")),
        ("SELECT 'EXPLAIN '", None),
        ("EXPLAINED", None),
    ],
)
def test_what_an_explain_explains(text, expected):
    assert split_explain(text) == expected
