"""Worked examples; the laws are in tests/property/test_selection_algebra.py."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest

from lm_datafusion.errors import OptionError
from lm_datafusion.selection import RowSelection, RowSelector

select, skip = RowSelector.select, RowSelector.skip


def selection(*selectors: RowSelector) -> RowSelection:
    return RowSelection.from_selectors(selectors)


class TestAndThen:
    def test_predicate_within_the_rows_already_selected(self):
        allowed = selection(skip(100), select(50), skip(50))
        predicate = selection(select(10), skip(40))
        assert allowed.and_then(predicate).selectors == (skip(100), select(10), skip(90))

    def test_without_a_trailing_skip(self):
        allowed = selection(skip(100), select(50))
        predicate = selection(select(10), skip(40))
        assert allowed.and_then(predicate).selectors == (skip(100), select(10), skip(40))

    def test_chain_of_predicates_keeps_absolute_rows(self):
        page_index = RowSelection.from_consecutive_ranges([(200, 245)], 300)
        passed = np.isin(np.arange(200, 245), [205, 206, 238, 239, 240])
        refined = page_index.and_then(RowSelection.from_filters([passed]))
        assert [r.tolist() for r in refined.to_ranges()] == [[205, 238], [207, 241]]
        assert refined.row_count == 5

    def test_refuses_a_selection_over_other_rows(self):
        with pytest.raises(OptionError, match="over the 50 selected rows, got one over 49"):
            selection(skip(100), select(50)).and_then(RowSelection.all(49))


class TestPageIndexExample:
    """Two columns, five pages: A has rows 0-199 and 200-, B has 0-99, 100-249 and 250-."""

    A = RowSelection.from_consecutive_ranges([(200, 300)], 300)

    def test_predicate_on_one_column(self):
        assert self.A.page_mask(np.array([0, 200])).tolist() == [False, True]
        assert self.A.page_mask(np.array([0, 100, 250])).tolist() == [False, True, True]

    def test_predicates_on_two_columns_by_rows(self):
        b = RowSelection.from_consecutive_ranges([(100, 245)], 300)
        both = self.A.intersection(b)
        assert both == RowSelection.from_consecutive_ranges([(200, 245)], 300)
        assert both.page_mask(np.array([0, 200])).tolist() == [False, True]
        assert both.page_mask(np.array([0, 100, 250])).tolist() == [False, True, False]

    def test_predicates_on_two_columns_by_whole_pages(self):
        b = RowSelection.from_consecutive_ranges([(100, 250)], 300)
        assert self.A.intersection(b).selectors == (skip(200), select(50), skip(50))


class TestConstructors:
    def test_selectors_are_brought_into_the_one_form(self):
        messy = selection(skip(0), select(2), select(0), select(3), skip(1), skip(0), skip(4))
        assert messy.selectors == (select(5), skip(5))

    def test_no_selectors(self):
        empty = selection()
        assert empty.selectors == ()
        assert empty.total_rows == 0
        assert not empty.selects_any()
        assert empty.selects_all()

    def test_filters_follow_one_another(self):
        filters = [
            np.array([True, False, True, False, True]),
            np.array([False, True, True, False, True]),
        ]
        both = RowSelection.from_filters(filters)
        assert both.to_indices().tolist() == [0, 2, 4, 6, 7, 9]
        assert both.total_rows == 10

    def test_no_filters(self):
        assert RowSelection.from_filters([]) == RowSelection.none(0)

    def test_all_and_none(self):
        assert RowSelection.all(100).selectors == (select(100),)
        assert RowSelection.none(100).selectors == (skip(100),)
        assert RowSelection.all(0) == RowSelection.none(0)

    def test_touching_and_empty_ranges_merge(self):
        ranges = RowSelection.from_consecutive_ranges([(2, 4), (4, 4), (4, 6), (9, 9)], 10)
        assert ranges.selectors == (skip(2), select(4), skip(4))

    @pytest.mark.parametrize(
        ("ranges", "message"),
        [
            ([(4, 2)], r"\[4, 2\) stops before it starts"),
            ([(-1, 2)], "before row 0"),
            ([(3, 11)], "past the last of 10 rows"),
            ([(5, 6), (2, 3)], r"\[2, 3\) overlaps or precedes"),
            ([(1, 4), (3, 6)], r"\[3, 6\) overlaps or precedes"),
            ([(1.5, 4.0)], "integers"),
        ],
    )
    def test_bad_ranges(self, ranges, message):
        with pytest.raises(OptionError, match=message):
            RowSelection.from_consecutive_ranges(ranges, 10)

    def test_unequal_starts_and_stops(self):
        with pytest.raises(OptionError, match="2 range starts but 1 range stops"):
            RowSelection.from_ranges([1, 3], [2], 10)

    @pytest.mark.parametrize(
        ("indices", "message"),
        [
            ([3, 3], "3 before 3"),
            ([5, 2], "5 before 2"),
            ([-1, 2], "-1 is out of bounds"),
            ([2, 10], "10 is out of bounds"),
            ([True, False], "integers"),
            ([[1, 2]], "integers"),
        ],
    )
    def test_bad_indices(self, indices, message):
        with pytest.raises(OptionError, match=message):
            RowSelection.from_indices(indices, 10)

    def test_negative_total_rows(self):
        for make in (
            RowSelection.all,
            RowSelection.none,
            lambda n: RowSelection.from_indices([], n),
        ):
            with pytest.raises(OptionError, match="total_rows must be 0 or more"):
                make(-1)

    def test_concat_of_nothing(self):
        assert RowSelection.concat([]) == RowSelection.none(0)


class TestParts:
    ROWS = selection(skip(10), select(5), skip(5), select(80))

    def test_split_off_inside_a_run(self):
        head, tail = self.ROWS.split_off(12)
        assert head.selectors == (skip(10), select(2))
        assert tail.selectors == (select(3), skip(5), select(80))

    def test_split_off_past_the_end(self):
        assert self.ROWS.split_off(1000) == (self.ROWS, RowSelection.none(0))

    def test_offset_and_limit_count_selected_rows(self):
        assert self.ROWS.offset(7).selectors == (skip(22), select(78))
        assert self.ROWS.limit(7).selectors == (skip(10), select(5), skip(5), select(2), skip(78))
        assert self.ROWS.offset(85).selectors == (skip(100),)
        assert self.ROWS.limit(0).selectors == (skip(100),)
        assert self.ROWS.limit(85) == self.ROWS

    def test_trim_drops_only_the_trailing_skip(self):
        assert selection(skip(3), select(2), skip(9)).trim().selectors == (skip(3), select(2))
        assert RowSelection.none(50).trim() == RowSelection.none(0)

    @pytest.mark.parametrize(("start", "stop"), [(-1, 5), (5, 3), (0, 101)])
    def test_slice_out_of_bounds(self, start, stop):
        with pytest.raises(OptionError, match="no rows"):
            self.ROWS.slice(start, stop)

    @pytest.mark.parametrize("method", ["split_off", "offset", "limit"])
    def test_negative_counts(self, method):
        with pytest.raises(OptionError, match="row_count must be 0 or more"):
            getattr(self.ROWS, method)(-1)


@pytest.mark.parametrize("method", ["intersection", "union", "difference"])
def test_selections_over_different_rows_do_not_combine(method):
    with pytest.raises(OptionError, match=f"{method} of selections over 10 and 11 rows"):
        getattr(RowSelection.all(10), method)(RowSelection.all(11))


class TestValue:
    def test_repr_shows_selectors(self):
        rows = selection(skip(100), select(10), skip(90))
        assert repr(rows) == "RowSelection[skip 100, select 10, skip 90]"
        assert repr(selection()) == "RowSelection[]"

    def test_repr_of_seven_hides_nothing(self):
        rows = selection(*[select(1), skip(1)] * 3, select(1))
        assert "more" not in repr(rows)

    def test_repr_of_eight_hides_two(self):
        rows = selection(*[select(1), skip(1)] * 4)
        assert repr(rows) == (
            "RowSelection[select 1, skip 1, select 1, ... 2 more ..., skip 1, select 1, skip 1]"
        )

    def test_long_repr_is_elided(self):
        rows = RowSelection.from_indices(np.arange(0, 1000, 2), 1000)
        assert repr(rows) == (
            "RowSelection[select 1, skip 1, select 1, ... 994 more ..., skip 1, select 1, skip 1]"
        )

    def test_equality_with_other_types(self):
        assert RowSelection.all(3) != [select(3)]
        assert RowSelection.all(3) != RowSelection.all(4)

    def test_frozen(self):
        with pytest.raises(AttributeError):
            RowSelection.all(3)._form = None  # type: ignore[misc,assignment]

    @pytest.mark.parametrize("step", [2, 100])
    def test_arrays_are_read_only_also_after_pickling(self, step):
        rows = RowSelection.from_indices(np.arange(0, 1000, step), 1000)
        for value in (rows, pickle.loads(pickle.dumps(rows))):
            assert value == rows
            for array in (value.to_mask(), value.to_indices(), *value.to_ranges()):
                with pytest.raises(ValueError, match="read-only"):
                    array[0] = 0

    def test_does_not_share_memory_with_what_it_was_made_of(self):
        mask = np.zeros(100, np.bool_)
        starts, stops = np.array([10]), np.array([20])
        from_mask = RowSelection.from_mask(mask)
        from_ranges = RowSelection.from_ranges(starts, stops, 100)
        mask[:], starts[0] = True, 0
        assert from_mask == RowSelection.none(100)
        assert from_ranges.row_count == 10


def test_few_runs_over_many_rows_cost_no_memory_in_rows():
    total = 10**12
    tracemalloc.start()
    a = RowSelection.from_consecutive_ranges([(10, 20), (10**11, 2 * 10**11)], total)
    b = RowSelection.from_consecutive_ranges([(15, 10**11 + 5)], total)
    both = a.intersection(b)
    assert both.row_count == 10
    assert a.union(b).row_count == 2 * 10**11 - 10
    assert a.difference(b).row_count == 10**11
    assert a.complement().reverse().offset(3).limit(5).row_count == 5
    # The refining mask is as long as the selected rows, not as all rows.
    thin = both.and_then(RowSelection.from_mask(np.arange(10) % 2 == 0))
    assert thin.to_indices().tolist() == [15, 17, 19, 10**11 + 1, 10**11 + 3]
    assert RowSelection.concat([a, b]).slice(5, total).trim().row_count > 0
    assert a.expand_to_pages(np.arange(0, total, 10**11)).row_count == 2 * 10**11
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 1_000_000
