from __future__ import annotations

import pyarrow as pa
import pytest

from lm_datafusion.errors import SqlError
from lm_datafusion.predicate.conjunct import Conjunct, bind_conjuncts

NUMBER = pa.schema([("x", pa.int64())])
TEXT = pa.schema([("x", pa.string())])


def bind(text, schema, **options):
    (bound,) = bind_conjuncts([Conjunct(text=text, columns=("x",), **options)], schema)
    return bound


def test_bound_again_is_the_same_for_the_same_schema_only():
    assert bind("x = 5", NUMBER) is bind("x = 5", NUMBER)
    assert bind("x = 5", NUMBER).tree.literal.type == pa.int64()
    assert bind("x = 5", TEXT).tree != bind("x = 5", NUMBER).tree
    assert bind("x = 6", NUMBER).tree != bind("x = 5", NUMBER).tree


@pytest.mark.parametrize("text", ["x < random()", "x < date_part('year', now())"])
def test_what_may_change_is_bound_each_time(text):
    assert bind(text, NUMBER) is not bind(text, NUMBER)


def test_what_is_refused_is_refused_again():
    for _ in range(2):
        with pytest.raises(SqlError):
            bind("x + 1", NUMBER)
