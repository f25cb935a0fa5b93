from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest

from lm_datafusion.cli.values import json_text, plain_values

MOMENT = dt.datetime(2024, 5, 1, 10, 30, 0, 123456)  # noqa: DTZ001 a wall clock


@pytest.mark.parametrize(
    ("array", "values"),
    [
        (pa.array([1, None], pa.uint64()), [1, None]),
        (pa.array([2**63], pa.uint64()), [2**63]),
        (pa.array([True, None]), [True, None]),
        (pa.array([0.1, None], pa.float32()), [0.1, None]),
        (pa.array([1.5, None], pa.float16()), [1.5, None]),
        (pa.array([0.1, None]), [0.1, None]),
        (pa.array([Decimal("1.20"), None]), [Decimal("1.20"), None]),
        (pa.array(["ä", None], pa.string_view()), ["ä", None]),
        (pa.array([b"\xff\x00", None]), ["ff00", None]),
        (pa.array([b"ab"], pa.binary(2)), ["6162"]),
        (pa.array([b"a"], pa.binary_view()), ["61"]),
        (pa.array([None, None]), [None, None]),
        (pa.array([dt.date(2024, 5, 1), None]), ["2024-05-01", None]),
        (pa.array([dt.time(1, 2, 3)]), ["01:02:03.000000"]),
        (pa.array([MOMENT, None]), ["2024-05-01T10:30:00.123456", None]),
        (pa.array([MOMENT], pa.timestamp("ns")), ["2024-05-01T10:30:00.123456000"]),
        (pa.array([1_714_559_400], pa.timestamp("s")), ["2024-05-01T10:30:00"]),
        (pa.array([1], pa.timestamp("ns")), ["1970-01-01T00:00:00.000000001"]),
        (pa.array([0], pa.timestamp("ms", "UTC")), ["1970-01-01T00:00:00.000Z"]),
        (pa.array([0], pa.timestamp("s", "+02:00")), ["1970-01-01T02:00:00+02:00"]),
        (pa.array([1500, -1, 0, None], pa.duration("ms")), ["PT1.5S", "PT-0.001S", "PT0S", None]),
        (pa.array([pa.MonthDayNano([1, 2, 3])]), ["P1M2DT0.000000003S"]),
        (pa.array([pa.MonthDayNano([1, 0, 0]), None]), ["P1M", None]),
        (pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        (pa.array([[1, 2], None, [], [None]]), [[1, 2], None, [], [None]]),
        (pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), [[1, 2], None]),
        (pa.array([{"x": 1, "y": None}, None]), [{"x": 1, "y": None}, None]),
        (pa.array([{}, None], pa.struct([])), [{}, None]),
        (
            pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int8())),
            [{"a": 1}, None, {}],
        ),
        (pa.array([[(1, "a")]], pa.map_(pa.int8(), pa.string())), [[[1, "a"]]]),
        (
            pa.array([[{"t": 1}]], pa.list_(pa.struct([("t", pa.timestamp("ns"))]))),
            [[{"t": "1970-01-01T00:00:00.000000001"}]],
        ),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_plain_values(array, values):
    assert plain_values(array) == values
    assert plain_values(array.slice(1)) == values[1:]


def test_text_that_is_no_utf8_is_shown_all_the_same():
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.array([0, 2], pa.int32()).buffers()[1], pa.py_buffer(b"a\xff")]
    )
    assert plain_values(broken) == ["a\ufffd"]


def test_floats_that_are_no_json_numbers_are_texts():
    assert json_text(float("nan")) == '"NaN"'
    assert json_text(float("inf")) == '"Infinity"'
    assert json_text(float("-inf")) == '"-Infinity"'


def test_numbers_keep_their_digits():
    assert json_text(2**63) == "9223372036854775808"
    assert json_text(Decimal("12345678901234567890.10")) == "12345678901234567890.10"
    assert json_text(Decimal("1E+5")) == "100000"
    assert json_text(-0.0) == "-0.0"


def test_json_round_trip():
    value = {'a"b': [1, None, True, "ä\n\u2028", 1.5e300, {}], "": []}
    assert json.loads(json_text(value)) == value
