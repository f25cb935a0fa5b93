from __future__ import annotations

import numpy as np
import pytest

from lm_datafusion.plan import BestKey, FirstRows
from lm_datafusion.scan.keys.best_keys import visit_key
from lm_datafusion.scan.top_k.best_first import BestFirst
from lm_datafusion.selection import RowSelection

NEWEST = FirstRows(column="k", descending=True, row_count=1)


def known(value, *, nulls=False):
    return BestKey(is_known=True, value=value, may_hold_null=nulls)


def in_order(best, first):
    indexes = range(len(best))
    return sorted(indexes, key=lambda index: visit_key(best[index], first, index))


UNKNOWN, NULLS = BestKey(is_known=False), known(None, nulls=True)


@pytest.mark.parametrize(
    ("descending", "nulls_first", "order"),
    [
        (False, False, [0, 1, 2, 3, 4]),
        (True, False, [0, 2, 3, 1, 4]),
        (False, True, [0, 4, 2, 1, 3]),
        (True, True, [0, 4, 2, 3, 1]),
    ],
)
def test_the_container_that_can_hold_the_best_row_comes_first(descending, nulls_first, order):
    best = [UNKNOWN, known(1), known(5, nulls=True), known(7), NULLS]
    if descending:
        best[2] = known(9, nulls=True)
    first = FirstRows(column="k", descending=descending, nulls_first=nulls_first, row_count=1)
    assert in_order(best, first) == order


def test_bytes_sort_both_ways():
    best = [known(b"b"), known(b""), known(b"ba")]
    assert in_order(best, FirstRows(column="k", row_count=1)) == [1, 0, 2]
    assert in_order(best, NEWEST) == [2, 0, 1]


def test_of_equals_the_one_nearer_the_better_end_comes_first():
    best = [known(1), known(1), known(1)]
    assert in_order(best, FirstRows(column="k", row_count=1)) == [0, 1, 2]
    assert in_order(best, NEWEST) == [2, 1, 0]


class Walk:
    """Two row groups of 30 rows; the second is better in all of its three pages."""

    def __init__(self, *, is_shared, bar=0):
        self.bar = bar
        self.order = BestFirst(
            [known(30), known(60)], [30, 30], NEWEST, lambda best: best.value >= self.bar
        )
        self.is_shared = is_shared

    def next(self, rows=10):
        return self.order.next_visit(lambda _: rows)

    def open(self, index, best):
        visit = self.next()
        assert (visit.index, visit.window) == (index, None)
        pages = (np.array([0, 10, 20]), [known(value) for value in best])
        self.order.open(index, RowSelection.all(30), pages, most_rows=20, is_shared=self.is_shared)
        self.order.done(visit)


def rows_of(visit):
    return visit.window.to_indices().tolist()


def test_pages_come_best_first_and_a_row_group_is_opened_when_it_is_its_turn():
    walk = Walk(is_shared=False)
    walk.open(1, [25, 60, 40])
    for start in (10, 20):
        visit = walk.next()
        assert rows_of(visit) == list(range(start, start + 10))
        walk.order.done(visit)
    # 30 beats the 25 that is left.
    walk.open(0, [1, 2, 30])
    visits = []
    while (visit := walk.next()) is not None:
        visits.append((visit.index, rows_of(visit)[0]))
        walk.order.done(visit)
    assert visits == [(0, 20), (1, 0), (0, 10), (0, 0)]
    assert walk.order.is_idle


def test_a_window_takes_pages_up_to_the_rows_asked_for_and_the_most_it_may_have():
    walk = Walk(is_shared=False)
    walk.open(1, [60, 40, 50])
    visit = walk.next(rows=1000)
    assert rows_of(visit) == [*range(10), *range(20, 30)]


def test_one_worker_at_a_time_where_pages_reach_across():
    walk = Walk(is_shared=False)
    walk.open(1, [60, 50, 40])
    assert walk.next().index == 1
    asked = []
    assert walk.order.next_visit(lambda rows: asked.append(rows) or 0) is None
    # The window on its way, and the better pages that have to wait for it.
    assert asked == [30]
    assert walk.next().index == 0


def test_many_workers_where_they_do_not():
    walk = Walk(is_shared=True)
    walk.open(1, [60, 50, 40])
    visits = [walk.next() for _ in range(3)]
    assert [rows_of(visit)[0] for visit in visits] == [0, 10, 20]


def test_what_cannot_hold_a_good_row_is_never_visited():
    walk = Walk(is_shared=False)
    walk.open(1, [60, 50, 40])
    walk.order.done(walk.next())
    walk.bar = 55
    assert walk.next() is None
    assert walk.order.never_opened == 1
    assert walk.order.never_visited(1).to_indices().tolist() == list(range(10, 30))
