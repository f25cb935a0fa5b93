"""Each trap of ORC's statistics."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from lm_datafusion.formats.orc.bounds import BoundedColumn, bounds, nan_counts, null_counts
from lm_datafusion.formats.orc.column_statistics import ColumnStatistics
from lm_datafusion.formats.orc.spec import TypeKind, Writer
from lm_datafusion.formats.orc.statistics import RowGroupStatistics, StripeStatistics
from lm_datafusion.protobuf import encode_field
from tests.orc_files import opened, write

NAN = float("nan")


def column(kind, data_type, **fields):
    given = {"writer": Writer.JAVA, "writer_version": 9, "zone": "UTC", "is_nested": False}
    return BoundedColumn(kind=kind, data_type=data_type, **given | fields)


def pair(bounded, **fields):
    """The bounds of one container."""
    found = bounds(bounded, [ColumnStatistics(**{"value_count": 5} | fields)])
    return None if found is None else tuple(side[0].as_py() for side in found)


def test_integers():
    byte = column(TypeKind.BYTE, pa.int8())
    assert pair(byte, integers=(-3, 100)) == (-3, 100)
    assert pair(byte, integers=(-3, 1000)) == (None, None)  # no byte
    assert pair(byte, integers=(5, 4)) == (None, None)
    assert pair(byte, integers=(5, None)) == (None, None)
    assert pair(byte, integers=(5, 6), value_count=0) == (None, None)
    assert pair(column(TypeKind.LONG, pa.int64()), integers=(-(2**63), 2**63 - 1)) == (
        -(2**63),
        2**63 - 1,
    )


def test_doubles_without_nan():
    double = column(TypeKind.DOUBLE, pa.float64())
    assert pair(double, doubles=(1.0, 2.0, 3.0)) == (1.0, 2.0)
    assert nan_counts(double, [ColumnStatistics(doubles=(1.0, 2.0, 3.0)), None]).tolist() == [0, -1]


@pytest.mark.parametrize(
    "doubles", [(NAN, NAN, NAN), (1.0, 2.0, NAN), (1.0, NAN, 3.0), (1.0, 2.0, None)]
)
def test_doubles_that_may_have_missed_values_behind_a_nan(doubles):
    double = column(TypeKind.DOUBLE, pa.float64())
    assert pair(double, doubles=doubles) == (None, None)
    assert nan_counts(double, [ColumnStatistics(doubles=doubles)]).tolist() == [-1]


def test_doubles_of_writers_that_are_not_known():
    double = column(TypeKind.DOUBLE, pa.float64(), writer=4)
    assert pair(double, doubles=(1.0, 2.0, 3.0)) == (None, None)


def test_a_nan_that_hides_a_row_group_from_the_bounds_of_its_stripe(tmp_path):
    values = [1.0, 2.0, 1.5, 1.0, NAN, 100.0, 100.0, 100.0]
    path = write(tmp_path / "f.orc", {"d": values}, row_index_stride=4)
    schema = pa.schema([("d", pa.float64())])
    with opened(path) as (file, facts):
        stripes = StripeStatistics(facts, schema, [0], {})
        assert stripes.max_values(("d",)).to_pylist() == [None]
        groups = RowGroupStatistics(facts, schema, facts.load_stripe(file, 0), file, {})
        assert groups.max_values(("d",)).to_pylist() == [2.0, None]
        assert groups.nan_counts(("d",)).tolist() == [0, -1]


def test_zeros_are_both():
    double = column(TypeKind.DOUBLE, pa.float64())
    low, high = pair(double, doubles=(0.0, -0.0, 0.0))
    assert (str(low), str(high)) == ("-0.0", "0.0")


def test_floats_are_floats():
    single = column(TypeKind.FLOAT, pa.float32())
    assert pair(single, doubles=(0.5, 2.0, 3.0)) == (0.5, 2.0)
    assert pair(single, doubles=(0.1, 2.0, 3.0)) == (None, None)
    assert pair(single, doubles=(-1e300, 1e300, 0.0)) == (None, None)


def test_text():
    text = column(TypeKind.STRING, pa.string())
    assert pair(text, texts=(b"a", "ä".encode())) == (b"a", "ä".encode())
    assert pair(text, texts=(b"a", None)) == (None, None)
    assert pair(column(TypeKind.STRING, pa.string(), writer_version=0), texts=(b"a", b"b")) is None


def test_long_text_has_bounds_that_are_no_values():
    message = encode_field(4, encode_field(4, b"aaa") + encode_field(5, b"aab"))
    found = ColumnStatistics.parse(encode_field(1, 5) + message)
    assert found.texts == (b"aaa", b"aab")
    both = message + encode_field(4, encode_field(1, b"x") + encode_field(2, b"y"))
    assert ColumnStatistics.parse(both).texts == (b"x", b"y")


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ((b"-1.5", b"20"), (Decimal("-1.50"), Decimal("20.00"))),
        ((b"1.234", b"2"), (None, None)),
        ((b"1", b"123456789012345678901"), (None, None)),
        ((b"1", b"NaN"), (None, None)),
        ((b"1", None), (None, None)),
        ((b"\xff", b"1"), (None, None)),
        ((b"1E+3", b"1E+3"), (Decimal("1000.00"), Decimal("1000.00"))),
    ],
)
def test_decimals(texts, expected):
    assert pair(column(TypeKind.DECIMAL, pa.decimal128(20, 2)), decimals=texts) == expected


def test_short_decimals_of_writers_before_orc_517():
    short = column(TypeKind.DECIMAL, pa.decimal128(18, 2), writer_version=6)
    assert pair(short, decimals=(b"1", b"2")) is None
    long = column(TypeKind.DECIMAL, pa.decimal128(19, 2), writer_version=6)
    assert pair(long, decimals=(b"1", b"2")) == (Decimal("1.00"), Decimal("2.00"))


def test_dates():
    date = column(TypeKind.DATE, pa.date32())
    expected = (dt.date(1970, 1, 2), dt.date(1970, 1, 3))
    assert pair(date, dates=(1, 2)) == expected
    assert pair(date, dates=(1, 1 << 40)) == (None, None)


def test_booleans():
    boolean = column(TypeKind.BOOLEAN, pa.bool_())
    assert pair(boolean, true_count=5) == (True, True)
    assert pair(boolean, true_count=0) == (False, False)
    assert pair(boolean, true_count=2) == (False, True)
    assert pair(boolean, true_count=6) == (None, None)


def nanoseconds(bounded, **fields):
    found = bounds(bounded, [ColumnStatistics(**{"value_count": 5} | fields)])
    return None if found is None else tuple(side.cast(pa.int64())[0].as_py() for side in found)


def test_timestamps_are_widened():
    local, instant = pa.timestamp("ns"), pa.timestamp("ns", "UTC")
    second, day = 10**9, 86_400 * 10**9
    values = (5000, 7000)
    expected = {
        column(TypeKind.TIMESTAMP, local): second,
        column(TypeKind.TIMESTAMP, local, zone="America/Mexico_City"): day,
        column(TypeKind.TIMESTAMP, local, zone=""): day,
        column(TypeKind.TIMESTAMP_INSTANT, instant, zone="America/Mexico_City"): second,
    }
    for bounded, slack in expected.items():
        found = nanoseconds(bounded, utc_milliseconds=values)
        assert found == (5 * second - slack, 7 * second + slack)


def test_timestamps_that_cannot_be_used():
    local = column(TypeKind.TIMESTAMP, pa.timestamp("ns"))
    assert nanoseconds(local, utc_milliseconds=(5, None)) == (None, None)
    assert nanoseconds(local, utc_milliseconds=(0, 10**15)) == (None, None)
    old = column(TypeKind.TIMESTAMP, pa.timestamp("ns"), writer_version=5)
    assert nanoseconds(old, utc_milliseconds=(5, 6)) is None


def test_fractions_before_1970_are_within_their_bounds(tmp_path):
    values = pa.array([-1, -999_999_999, -1_000_000_001], pa.timestamp("ns"))
    path = write(tmp_path / "f.orc", {"t": values})
    with opened(path) as (_, facts):
        stripes = StripeStatistics(facts, pa.schema([("t", pa.timestamp("ns"))]), [0], {})
        low = stripes.min_values(("t",)).cast(pa.int64())[0].as_py()
        high = stripes.max_values(("t",)).cast(pa.int64())[0].as_py()
        assert low <= -1_000_000_001
        assert high >= -1


def test_types_without_bounds():
    assert pair(column(TypeKind.BINARY, pa.binary())) is None
    assert pair(column(TypeKind.LIST, pa.list_(pa.int64()))) is None


@pytest.mark.parametrize(
    ("values", "has_null", "is_nested", "expected"),
    [
        (10, None, False, 0),
        (10, False, False, 0),
        (10, True, False, -1),
        (7, True, False, 3),
        (7, None, False, 3),
        (7, False, False, -1),
        (7, False, True, 3),
        (0, True, False, 10),
        (11, None, False, -1),
        (None, False, False, -1),
    ],
)
def test_counts_that_contradict_each_other_are_not_used(values, has_null, is_nested, expected):
    bounded = column(TypeKind.LONG, pa.int64(), is_nested=is_nested)
    statistics = [ColumnStatistics(value_count=values, has_null=has_null), None]
    counts = null_counts(bounded, statistics, np.array([10, 10]))
    assert counts.tolist() == [expected, -1]
