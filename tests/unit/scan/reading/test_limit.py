from __future__ import annotations

from lm_datafusion.scan.reading.limit import GROWTH, RowBudget


def test_the_first_window_has_the_rows_that_are_missing():
    budget = RowBudget(10, [100, 100], has_filter=True)
    assert budget.window_rows(0, 0) == 10


def test_the_next_window_goes_by_what_passed():
    budget = RowBudget(10, [1000], has_filter=True)
    budget.note(0, visited=20, found=2)
    assert budget.missing(0) == 8
    assert budget.window_rows(0, 20) == 80


def test_windows_grow_step_by_step():
    budget = RowBudget(10, [10**6], has_filter=True)
    budget.note(0, visited=20, found=0)
    assert budget.window_rows(0, 20) == 40
    budget.note(0, visited=100_000, found=1)
    assert budget.window_rows(0, 20) == GROWTH * 20


def test_rows_of_earlier_row_groups_count_and_those_of_later_ones_do_not():
    budget = RowBudget(10, [100, 100], has_filter=True)
    budget.note(1, visited=50, found=7)
    assert (budget.missing(0), budget.missing(1)) == (10, 3)
    budget.note(0, visited=50, found=9)
    assert (budget.missing(0), budget.missing(1)) == (1, 0)


def test_a_row_group_is_begun_early_only_if_it_is_likely_to_be_needed():
    budget = RowBudget(10, [100, 100], has_filter=True)
    assert not budget.should_begin(1)
    budget.note(0, visited=10, found=1)
    # Two in ten at best: the 90 left are expected to be enough.
    assert not budget.should_begin(1)
    budget.note(0, visited=50, found=0)
    assert budget.should_begin(1)


def test_without_a_filter_every_row_counts():
    budget = RowBudget(150, [100, 100, 100], has_filter=False)
    assert budget.should_begin(1)
    assert not budget.should_begin(2)


def test_rows_on_their_way_count_for_first_rows():
    budget = RowBudget(100, [0], has_filter=True)
    assert budget.window_rows_after(0, 0) == 100
    assert budget.window_rows_after(50, 0) == 0
    budget.note(0, visited=1000, found=9)
    # One in a hundred: 1,000 rows on their way give 10.
    assert budget.window_rows_after(1000, 1000) == GROWTH * 1000
    assert budget.window_rows_after(9000, 5000) == 100
    assert budget.window_rows_after(9200, 5000) == 0


def test_changes_are_reported():
    calls = []
    budget = RowBudget(10, [100], has_filter=True)
    budget.on_change = lambda: calls.append(1)
    budget.begin(0, 50)
    budget.note(0, visited=10, found=1)
    assert len(calls) == 2


def test_what_was_never_begun_counts_once_the_limit_is_met():
    budget = RowBudget(10, [100, 100, 100], has_filter=True)
    budget.begin(0, 100)
    assert budget.never_begun() == 0
    budget.note(0, visited=10, found=10)
    assert budget.never_begun() == 2
