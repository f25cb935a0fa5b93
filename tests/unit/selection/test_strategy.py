from __future__ import annotations

import numpy as np
import pytest

from lm_datafusion.selection import (
    APPLY_THRESHOLD,
    MASK_THRESHOLD,
    RowSelection,
    RowSelectionStrategy,
)
from lm_datafusion.selection.mask import Mask
from lm_datafusion.selection.runs import Runs
from lm_datafusion.selection.strategy import choose_strategy


def alternating(run_length: int, num_runs: int = 64) -> RowSelection:
    return RowSelection.from_mask(np.repeat(np.arange(num_runs) % 2 == 0, run_length))


@pytest.mark.parametrize(
    ("run_length", "backing"),
    [(1, Mask), (MASK_THRESHOLD - 1, Mask), (MASK_THRESHOLD, Runs), (1000, Runs)],
)
def test_held_as_a_mask_where_runs_are_short(run_length, backing):
    assert isinstance(alternating(run_length)._backing, backing)


@pytest.mark.parametrize(
    ("run_length", "strategy"),
    [
        (1, RowSelectionStrategy.MASK),
        (APPLY_THRESHOLD - 1, RowSelectionStrategy.MASK),
        (APPLY_THRESHOLD, RowSelectionStrategy.RUNS),
    ],
)
def test_applied_as_a_mask_where_runs_are_cheap_to_filter(run_length, strategy):
    assert alternating(run_length).strategy() is strategy


def test_one_row_in_ten_thousand_is_runs():
    rows = RowSelection.from_indices(np.arange(0, 1_000_000, 10_000), 1_000_000)
    assert rows.strategy() is RowSelectionStrategy.RUNS


def test_skipped_pages_force_runs():
    chosen = choose_strategy(10, 10, threshold=32, skips_pages=True)
    assert chosen is RowSelectionStrategy.RUNS


def test_threshold_can_be_given():
    rows = alternating(8)
    assert rows.strategy(threshold=8) is RowSelectionStrategy.RUNS
    assert rows.strategy(threshold=9) is RowSelectionStrategy.MASK


def test_the_backing_follows_the_result():
    dense = alternating(1, num_runs=1000)
    sparse = dense.intersection(RowSelection.from_consecutive_ranges([(0, 10)], 1000))
    assert isinstance(dense._backing, Mask)
    assert isinstance(sparse._backing, Runs)
    assert isinstance(sparse.slice(0, 10)._backing, Mask)
