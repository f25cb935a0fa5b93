"""The same answer is the same rows, whichever types it came in."""

from __future__ import annotations

import datetime as dt
import decimal

import pyarrow as pa
import pytest

from clickbench.answers import digest, is_same_value, to_rows

MOMENT = dt.datetime(2013, 7, 14, 20, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("array", "value"),
    [
        (pa.array([5], pa.int16()), 5),
        (pa.array([decimal.Decimal(5)], pa.decimal128(38, 0)), 5),
        (pa.array([decimal.Decimal("0.5")], pa.decimal128(10, 2)), 0.5),
        (pa.array(["é"], pa.string_view()), "é"),
        (pa.array(["é"], pa.large_string()), "é"),
        (pa.array(["é".encode()], pa.binary()), "é"),
        (pa.array(["é"]).dictionary_encode(), "é"),
        (pa.array([b"\xff"], pa.binary()), "\\xff"),
        (pa.array([dt.date(2013, 7, 14)]), "2013-07-14"),
        (pa.array([MOMENT], pa.timestamp("s")), "2013-07-14 20:01:00"),
        (pa.array([MOMENT], pa.timestamp("ns")), "2013-07-14 20:01:00"),
        (pa.array([MOMENT], pa.timestamp("us", "Asia/Tokyo")), "2013-07-14 20:01:00"),
        (pa.array([None], pa.float64()), None),
    ],
)
def test_plain_values(array, value):
    assert to_rows(pa.table({"anything": array})) == [[value]]


def test_equal_values():
    nan = float("nan")
    assert is_same_value(1, 1.0)
    assert is_same_value(1e18, 1e18 * (1 + 1e-12))
    assert is_same_value(nan, nan)
    for left, right in [(1.0, 1.001), (nan, 1.0), (None, 0.0), ("1", 1), ("1", 1.0), (None, 0)]:
        assert not is_same_value(left, right)


def test_digest_disregards_last_digits_only():
    assert digest([[1.0, "a"]]) == digest([[1.0 + 1e-13, "a"]])
    assert digest([[1.0, "a"]]) != digest([[1.001, "a"]])
    assert digest([[1], [2]]) != digest([[2], [1]])
