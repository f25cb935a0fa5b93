from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lm_datafusion.scan.apply import Applier, merge_in_order
from lm_datafusion.selection import RowSelection

MASKS = hnp.arrays(np.bool_, st.integers(1, 300))


@given(MASKS)
def test_applied_like_a_mask(mask):
    rows = pa.array([f"row {n}" for n in range(len(mask))])
    expected = [f"row {n}" for n in np.flatnonzero(mask)]
    applier = Applier()
    for selection in (RowSelection.from_mask(mask), RowSelection.from_mask(mask)):
        assert applier.apply(rows, selection).to_pylist() == expected
        assert applier.apply(pa.chunked_array([rows]), selection).to_pylist() == expected


def test_every_way_of_applying():
    rows = pa.array(np.arange(100_000))
    for ranges in ([(5, 6)], [(0, 60_000)], [(10, 5_000)], [(0, 20_000), (50_000, 90_000)]):
        selection = RowSelection.from_consecutive_ranges(ranges, 100_000)
        expected = [n for start, stop in ranges for n in range(start, stop)]
        assert Applier().apply(rows, selection).to_pylist() == expected


def test_a_small_result_has_memory_of_its_own():
    rows = pa.array(np.arange(1_000_000))
    few = RowSelection.from_consecutive_ranges([(10, 30_000)], 1_000_000)
    assert Applier().apply(rows, few).get_total_buffer_size() < 300_000


@given(MASKS, st.randoms())
def test_disjoint_parts_come_together_in_row_order(mask, rng):
    owner = np.array([rng.randrange(3) for _ in mask])
    parts = []
    for part in range(3):
        chosen = mask & (owner == part)
        if chosen.any():
            parts.append((RowSelection.from_mask(chosen), pa.array(np.flatnonzero(chosen))))
    if parts:
        assert merge_in_order(parts).to_pylist() == np.flatnonzero(mask).tolist()
