from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from lm_datafusion.errors import UnsupportedFeatureError
from lm_datafusion.predicate.evaluator import constant
from lm_datafusion.predicate.literals import literal_sql, quote_identifier, quote_string

SCALARS = [
    pa.scalar(-128, pa.int8()),
    pa.scalar(-(2**63)),
    pa.scalar(2**63 - 1),
    pa.scalar(2**64 - 1, pa.uint64()),
    pa.scalar(1.1, pa.float32()),
    pa.scalar(1.5, pa.float16()),
    pa.scalar(float("nan")),
    pa.scalar(float("-inf")),
    pa.scalar(-0.0),
    pa.scalar(5e-324),
    pa.scalar("it's -- /* odd */ \n"),
    pa.scalar("x", pa.large_string()),
    pa.scalar("x", pa.string_view()),
    pa.scalar(b"\x00'a"),
    pa.scalar(b"", pa.large_binary()),
    pa.scalar(True),
    pa.scalar(dt.date(1582, 10, 1)),
    pa.scalar(-1, pa.date32()),
    pa.scalar(5, pa.timestamp("ns", "UTC")),
    pa.scalar(-(10**17), pa.timestamp("ns")),
    pa.scalar(-5, pa.timestamp("s")),
    pa.scalar(5, pa.timestamp("us", "+02:00")),
    pa.scalar(86_399_999, pa.time32("ms")),
    pa.scalar(5, pa.time64("ns")),
    pa.scalar(5, pa.duration("ms")),
    pa.scalar(Decimal("-1.50"), pa.decimal128(10, 2)),
    pa.scalar(Decimal("1e-5"), pa.decimal128(30, 5)),
    pa.scalar(Decimal("1.50"), pa.decimal32(9, 2)),
    pa.scalar(Decimal("1.50"), pa.decimal256(50, 2)),
    pa.scalar(None, pa.int32()),
    pa.scalar(None, pa.string()),
    pa.scalar(b"\x00'a", pa.binary(3)),
    pa.scalar(None, pa.binary(3)),
    pa.array(["it's"]).dictionary_encode()[0],
    pa.array([5], pa.dictionary(pa.uint8(), pa.int16()))[0],
    pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.array(["x"], pa.string_view()))[0],
    pa.array([b"abc"], pa.dictionary(pa.int8(), pa.binary(3)))[0],
    pa.array([None], pa.dictionary(pa.int32(), pa.string()))[0],
    pa.scalar([1, None], pa.list_(pa.int8())),
    pa.scalar([], pa.list_(pa.field("element", pa.string_view()))),
    pa.scalar([1], pa.list_(pa.field("item", pa.int32(), nullable=False))),
    pa.scalar(["a"], pa.large_list(pa.string())),
    pa.scalar([1.5, -0.0], pa.list_(pa.float32(), 2)),
    pa.scalar([[1], [], None], pa.list_(pa.list_(pa.int64()))),
    pa.scalar(None, pa.list_(pa.int8())),
    pa.scalar({"x y": 1, "it's": None}, pa.struct([("x y", pa.int8()), ("it's", pa.string())])),
    pa.scalar([{"x": ["a"]}], pa.list_(pa.struct([("x", pa.list_(pa.string()))]))),
    pa.scalar(None, pa.struct([("x", pa.int8())])),
    pa.scalar([("a", 1), ("b", None)], pa.map_(pa.string(), pa.int8())),
    pa.scalar([], pa.map_(pa.string(), pa.list_(pa.int8()))),
    pa.scalar(None, pa.map_(pa.string(), pa.int8())),
]


@pytest.mark.parametrize("scalar", SCALARS, ids=repr)
def test_datafusion_folds_the_text_back_into_the_value(scalar):
    value = constant(literal_sql(scalar))
    assert value.type == scalar.type
    assert str(value) == str(scalar)


@pytest.mark.parametrize("data_type", [pa.float16(), pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_nan_keeps_its_sign(data_type, sign):
    value = constant(literal_sql(pa.scalar(np.copysign(np.nan, sign), data_type)))
    assert math.isnan(value.as_py())
    assert math.copysign(1.0, value.as_py()) == sign


@pytest.mark.parametrize(
    "scalar",
    [
        pa.scalar({'a"b': 1}),
        pa.scalar([1], pa.list_(pa.field("it's", pa.int8()))),
    ],
    ids=repr,
)
def test_a_type_without_spelling_is_refused(scalar):
    with pytest.raises(UnsupportedFeatureError, match="no SQL spelling"):
        literal_sql(scalar)


def test_quotes_are_doubled():
    assert quote_identifier('a"b') == '"a""b"'
    assert quote_string("a'b") == "'a''b'"
