from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from lm_datafusion.pruning.overlap import is_ascending, overlap_share


def share(pairs, counts=None, data_type=None):
    low, high = zip(*pairs, strict=True)
    counts = [10] * len(pairs) if counts is None else counts
    return overlap_share(pa.array(low, data_type), pa.array(high, data_type), counts)


def test_row_groups_side_by_side_are_told_apart():
    assert share([(0, 9), (10, 19), (20, 29), (30, 39)]) == pytest.approx(0.25)


def test_row_groups_over_the_same_range_are_not():
    assert share([(0, 99)] * 4) == 1


def test_bounds_of_shuffled_rows_tell_little():
    random = np.random.default_rng(1)
    values = random.integers(0, 10**6, (50, 1000))
    assert share(list(zip(values.min(1).tolist(), values.max(1).tolist(), strict=True))) > 0.95


def test_half_overlapping():
    assert share([(0, 20), (10, 30)]) == pytest.approx(0.75)


def test_a_single_value_is_in_the_ranges_that_hold_it():
    assert share([(5, 5), (0, 10), (6, 10)]) == pytest.approx(
        np.mean([2 / 3, (1 + 0.4) / 3, 2 / 3])
    )


def test_row_groups_count_by_their_values():
    assert share([(0, 0), (0, 1)], counts=[1, 0]) == 1
    assert share([(0, 1), (5, 6)], counts=[1, 0]) == 1


def test_row_groups_without_bounds_hold_every_value():
    assert share([(0, 1), (None, None)]) == 1
    assert share([(0, 1), (2, 3), (None, None)]) == pytest.approx(2 / 3)
    assert share([(None, None)], data_type=pa.int64()) is None
    assert overlap_share(pa.array([], pa.int64()), pa.array([], pa.int64()), []) is None


@pytest.mark.parametrize(
    "pairs",
    [
        [(b"http://a", b"http://b"), (b"http://c", b"http://d")],
        [(b"", b"a"), (b"b", b"b")],
        [(Decimal("1.00"), Decimal("2.00")), (Decimal("3.00"), Decimal("4.00"))],
        [(dt.date(2024, 1, 1), dt.date(2024, 1, 2)), (dt.date(2024, 1, 3), dt.date(2024, 1, 4))],
        [(2**62, 2**62 + 1), (2**62 + 2, 2**62 + 3)],
        [(-(2**63), -1), (0, 2**63 - 1)],
        [(float("-inf"), 0.0), (1.0, float("inf"))],
        [(-1.7e308, -1e308), (1e308, 1.7e308)],
        [(False, False), (True, True)],
    ],
    ids=str,
)
def test_values_of_every_kind(pairs):
    assert share(pairs) == pytest.approx(0.5)


def test_times_of_every_width():
    for data_type in (pa.time32("s"), pa.time64("us"), pa.timestamp("ns"), pa.date32()):
        low, high = pa.array([0, 10], pa.int64()), pa.array([9, 19], pa.int64())
        if data_type.bit_width == 32:
            low, high = low.cast(pa.int32()), high.cast(pa.int32())
        assert overlap_share(low.view(data_type), high.view(data_type), [1, 1]) == 0.5


def test_many_row_groups_take_little_time():
    low = np.arange(50_000)
    assert overlap_share(pa.array(low), pa.array(low + 1), np.ones(50_000, np.int64)) < 0.001


def test_order():
    assert is_ascending(pa.array([0, 2, 4]), pa.array([1, 3, 5]))
    assert is_ascending(pa.array([0, 1]), pa.array([1, 2]))
    assert not is_ascending(pa.array([0, 1]), pa.array([2, 3]))
    assert not is_ascending(pa.array([0]), pa.array([1]))
    assert not is_ascending(pa.array([0, None]), pa.array([1, None]))
    assert not is_ascending(pa.array([3, 3]), pa.array([3, 3]))
