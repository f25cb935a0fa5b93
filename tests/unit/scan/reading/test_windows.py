from __future__ import annotations

import random

import numpy as np
import pytest

from lm_datafusion.scan.reading.windows import WindowWalk
from lm_datafusion.selection import RowSelection


def walked(selection, edges, sizes, *, is_reverse):
    walk = WindowWalk(selection, np.array(edges), is_reverse=is_reverse)
    windows, sizes = [], iter(sizes)
    while (window := walk.next_window(next(sizes, 1))) is not None:
        windows.append(window.to_indices().tolist())
    assert not walk.ahead.selects_any()
    return windows


def test_windows_end_at_the_first_edge_behind_the_rows_asked_for():
    every = RowSelection.all(10)
    assert walked(every, [0, 3, 6, 10], [1, 4], is_reverse=False) == [
        [0, 1, 2],
        [3, 4, 5, 6, 7, 8, 9],
    ]
    assert walked(every, [0, 3, 6, 10], [1, 1, 1], is_reverse=True) == [
        [6, 7, 8, 9],
        [3, 4, 5],
        [0, 1, 2],
    ]
    assert walked(every, [0, 3, 6, 10], [5], is_reverse=True)[0] == [3, 4, 5, 6, 7, 8, 9]


def test_rows_that_are_gone_do_not_count():
    some = RowSelection.from_indices([0, 1, 9], 10)
    assert walked(some, [0, 3, 6, 10], [2], is_reverse=True) == [[0, 1, 9]]
    assert walked(some, [0, 3, 6, 10], [1, 1], is_reverse=True) == [[9], [0, 1]]


def test_no_rows_no_window():
    assert walked(RowSelection.none(5), [0, 5], [], is_reverse=True) == []
    assert walked(RowSelection.all(0), [0, 0], [], is_reverse=False) == []


@pytest.mark.parametrize("seed", range(50))
def test_windows_hold_every_row_once_in_either_direction(seed):
    rng = random.Random(seed)
    total = rng.randint(1, 60)
    selection = RowSelection.from_mask(np.array([rng.random() < 0.5 for _ in range(total)]))
    edges = sorted({0, total, *(rng.randint(0, total) for _ in range(6))})
    sizes = [rng.choice([0, 1, 3, 20]) for _ in range(100)]
    rows = selection.to_indices().tolist()
    forward = walked(selection, edges, sizes, is_reverse=False)
    assert [row for window in forward for row in window] == rows
    backward = walked(selection, edges, sizes, is_reverse=True)
    assert [row for window in backward[::-1] for row in window] == rows
