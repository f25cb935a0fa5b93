from __future__ import annotations

import itertools
import random

import pytest

from lm_datafusion.storage import ByteRange, coalesce


def ranges(*pairs):
    return [ByteRange(offset, length) for offset, length in pairs]


def test_stop():
    assert ByteRange(10, 5).stop == 15
    assert ByteRange(10, 0).stop == 10


@pytest.mark.parametrize(
    ("wanted", "gap", "expected"),
    [
        ([], 0, []),
        ([(0, 5)], 0, [(0, 5)]),
        ([(0, 5), (5, 5)], 0, [(0, 10)]),
        ([(5, 5), (0, 5)], 0, [(0, 10)]),
        ([(0, 5), (6, 5)], 0, [(0, 5), (6, 5)]),
        ([(0, 5), (6, 5)], 1, [(0, 11)]),
        ([(0, 5), (7, 5)], 1, [(0, 5), (7, 5)]),
        ([(0, 10), (2, 3)], 0, [(0, 10)]),
        ([(0, 10), (5, 10)], 0, [(0, 15)]),
        ([(0, 10), (0, 10)], 0, [(0, 10)]),
        ([(3, 0)], 0, [(3, 0)]),
        ([(0, 1), (100, 1), (50, 1)], 1000, [(0, 101)]),
    ],
)
def test_coalesce(wanted, gap, expected):
    assert coalesce(ranges(*wanted), gap_bytes=gap) == ranges(*expected)


@pytest.mark.parametrize("seed", range(50))
def test_coalesced_ranges_cover_what_was_wanted_and_no_more_than_the_gaps(seed):
    source = random.Random(seed)
    wanted = ranges(
        *((source.randrange(200), source.randrange(1, 20)) for _ in range(source.randrange(12)))
    )
    gap = source.choice([0, 1, 5])
    merged = coalesce(wanted, gap_bytes=gap)
    covered = {byte for part in merged for byte in range(part.offset, part.stop)}
    needed = {byte for part in wanted for byte in range(part.offset, part.stop)}
    assert needed <= covered
    if not gap:
        assert needed == covered
    assert merged == sorted(merged)
    assert all(left.stop + gap < right.offset for left, right in itertools.pairwise(merged))
