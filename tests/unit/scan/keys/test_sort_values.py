"""Sort values sort as DataFusion sorts."""

from __future__ import annotations

import datetime as dt
import decimal
import math

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from datafusion import SessionContext

from lm_datafusion.scan.keys.sort_values import (
    bounds_to_sort_values,
    has_sort_values,
    to_sort_values,
)

FLOATS = [1.0, -0.0, 0.0, math.nan, -math.nan, math.inf, -math.inf, None, -5.5, 5.5]
ARRAYS = {
    "int8": pa.array([3, -3, None, 127, -128], pa.int8()),
    "uint64": pa.array([2**64 - 1, 0, None, 2**63], pa.uint64()),
    "double": pa.array(FLOATS, pa.float64()),
    "float": pa.array(FLOATS, pa.float32()),
    "half": pa.array(FLOATS, pa.float16()),
    "string": pa.array(["b", "", None, "é", "a", "z", "ab"]),
    "large string": pa.array(["b", "", None, "é"], pa.large_string()),
    "view": pa.array(["b", "", None, "é", "x" * 30], pa.string_view()),
    "binary": pa.array([b"\xff", b"", None, b"\x00", b"a"]),
    "binary view": pa.array([b"\xff", b"", None, b"\x00"], pa.binary_view()),
    "bool": pa.array([True, None, False]),
    "date": pa.array([dt.date(2024, 1, 2), None, dt.date(1960, 1, 1)]),
    "time": pa.array([5, None, 3], pa.time64("us")),
    "timestamp": pa.array([5, None, -3], pa.timestamp("ms", "UTC")),
    "duration": pa.array([5, None, -3], pa.duration("s")),
    "decimal": pa.array([decimal.Decimal("1.5"), None, decimal.Decimal(-2)], pa.decimal128(30, 2)),
    "dictionary": pa.array(["b", None, "a"]).dictionary_encode(),
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("chunked", [False, True])
def test_the_order_is_that_of_datafusion(name, chunked):
    values = ARRAYS[name]
    session = SessionContext()
    session.from_arrow(pa.table({"k": values, "id": range(len(values))}), "t")
    rows = session.sql("SELECT id FROM t ORDER BY k ASC NULLS LAST, id").to_pydict()["id"]
    given = pa.chunked_array([values.slice(0, 2), values.slice(2)]) if chunked else values
    keys = to_sort_values(given)
    assert pc.array_sort_indices(keys, null_placement="at_end").to_pylist() == rows
    assert keys.null_count == values.null_count


def test_empty_chunks():
    assert to_sort_values(pa.chunked_array([], pa.float64())).type == pa.int64()


@pytest.mark.parametrize(
    "data_type", [pa.list_(pa.int8()), pa.struct([("a", pa.int8())]), pa.null()]
)
def test_types_without_an_order(data_type):
    assert not has_sort_values(data_type)
    with pytest.raises(TypeError):
        to_sort_values(pa.nulls(1, data_type))


def test_bounds_of_floats_are_no_bounds():
    assert bounds_to_sort_values(pa.array([1.5]), pa.float64()) is None
    assert bounds_to_sort_values(pa.array([1]), pa.float64()) is None


def test_bounds_come_in_the_type_of_the_table():
    assert bounds_to_sort_values(pa.array([1], pa.int32()), pa.int64()).type == pa.int64()
    assert bounds_to_sort_values(pa.array([b"a"]), pa.string_view()).type == pa.large_binary()
    # A cast that can fail or change the order.
    assert bounds_to_sort_values(pa.array([1], pa.int64()), pa.int32()) is None
    assert bounds_to_sort_values(pa.array([1], pa.int64()), pa.string()) is None
    assert bounds_to_sort_values(pa.array([b"1"]), pa.int64()) is None
    assert bounds_to_sort_values(None, pa.int64()) is None
