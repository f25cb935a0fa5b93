"""What PyArrow answers is what DataFusion answers."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from lm_datafusion.predicate.conjunct import Conjunct, bind_conjuncts
from lm_datafusion.selection.filters import filter_to_mask

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
UNSIGNED = [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
OPERATORS = ["=", "<>", "<", "<=", ">", ">="]
WORDS = ["", "a", "A", "ab", "é", "z", "ﬀ", "😀", "w" * 30, None, "b\0c"]


def bound(text, data_type, column="x"):
    schema = pa.schema([(column, data_type)])
    return bind_conjuncts([Conjunct(text=text, columns=(column,))], schema)[0]


def check(text, values):
    """Whether PyArrow was asked; and its answer, if so, is DataFusion's."""
    conjunct = bound(text, values.type)
    answer = conjunct.answer(values)
    if answer is None:
        return False
    asked = conjunct.evaluate(pa.record_batch([values], names=["x"]))
    assert filter_to_mask(answer).tolist() == filter_to_mask(asked).tolist(), text
    return True


def numbers(data_type):
    info = np.iinfo(data_type.to_pandas_dtype())
    return pa.array([info.min, info.max, 0, 1, 5, None, 7], data_type)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("data_type", [*INTEGERS, *UNSIGNED], ids=str)
def test_whole_numbers(data_type, operator):
    values = numbers(data_type)
    for literal in ("0", "5", str(values[1].as_py())):
        assert check(f"x {operator} {literal}", values)
        assert check(f"{literal} {operator} x", values)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("data_type", TEXTS, ids=str)
def test_text(data_type, operator):
    values = pa.array(WORDS, data_type)
    for word in ("", "a", "é", "😀", "ab", "it''s"):
        assert check(f"x {operator} '{word}'", values)


@pytest.mark.parametrize("operator", OPERATORS)
def test_dates_and_times(operator):
    days = pa.array([dt.date(1969, 12, 31), dt.date(2013, 7, 1), None, dt.date(2200, 1, 1)])
    assert check(f"x {operator} DATE '2013-07-01'", days)
    for unit in ("s", "ms", "us", "ns"):
        text = f"x {operator} arrow_cast('2013-07-01', 'Timestamp({_word(unit)}, None)')"
        assert check(text, days.cast(pa.timestamp(unit)))


def _word(unit):
    return {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}[unit]


@pytest.mark.parametrize("data_type", [pa.int32(), pa.uint64()], ids=str)
def test_lists_of_numbers(data_type):
    values = numbers(data_type)
    assert check("x IN (0, 1, 2, 3, 4, 5, 6, 8)", values)
    # A list with NULL, or negated, says NULL where a plain one says false.
    assert not check("x NOT IN (0, 1, 2, 3, 4, 5, 6, 8)", values)
    assert not check("x IN (0, 1, 2, 3, 4, 5, 6, NULL)", values)


def test_lists_of_words():
    words = "('', 'a', 'é', 'w1', 'w2', 'w3', 'zz')"
    assert check(f"x IN {words}", pa.array(WORDS))
    assert not check(f"x IN {words}", pa.array(WORDS, pa.string_view()))


def test_values_in_chunks():
    values = pa.chunked_array([pa.array([1, None, 3]), pa.array([3, 4])])
    assert filter_to_mask(bound("x = 3", pa.int64()).answer(values)).tolist() == [
        False,
        False,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("x > 1.5", pa.array([1.0, float("nan"), None])),
        ("x = 1", pa.array([1.0, -0.0])),
        ("x = 1.5", pa.array(["1.50"]).cast(pa.decimal128(5, 2))),
        ("x", pa.array([True, None])),
        ("x = 'a'", pa.array(["a"]).dictionary_encode()),
        ("CAST(x AS BIGINT) = 1", pa.array(["1"])),
        ("x LIKE 'a%'", pa.array(["a"])),
        ("x IS NULL", pa.array([1, None])),
        ("x = 1 OR x = 3", pa.array([1, None])),
    ],
)
def test_the_rest_is_datafusions(text, values):
    assert bound(text, values.type).answer(values) is None


def test_values_of_another_type_than_the_tables():
    """A file may store less than its table says, or bytes that are no text."""
    assert bound("x = 1", pa.int64()).answer(pa.array([1], pa.int32())) is None
    assert bound("x = 'a'", pa.string()).answer(pa.array([b"a"])) is None
    assert bound("x = 'a'", pa.string_view()).answer(pa.array(["a"])).to_pylist() == [True]


def test_pyarrows_own_expressions_keep_their_meaning():
    import pyarrow.compute as pc

    conjunct = Conjunct(text="(x = 1)", columns=("x",), expression=pc.field("x") == 1)
    (found,) = bind_conjuncts([conjunct], pa.schema([("x", pa.int64())]))
    assert found.answer(pa.array([1])) is None
