from __future__ import annotations

import pickle

import numpy as np
import pytest

from lm_datafusion.errors import OptionError
from lm_datafusion.selection import PageLocation, PageLocations, RowSelection, RowSelector

select, skip = RowSelector.select, RowSelector.skip

TWO_PAGES = [
    PageLocation(offset=0, compressed_page_size=10, first_row_index=0),
    PageLocation(offset=10, compressed_page_size=10, first_row_index=100),
]


def pages(*first_rows: int, size: int = 10) -> PageLocations:
    offsets = 1000 + size * np.arange(len(first_rows))
    return PageLocations(
        offsets=offsets, sizes=np.full(len(first_rows), size), first_rows=np.array(first_rows)
    )


class TestScanRanges:
    def test_page_without_a_selected_row_is_not_fetched(self):
        rows = RowSelection.from_selectors([skip(150), select(10), skip(40)])
        assert rows.scan_ranges(TWO_PAGES) == [(10, 10)]

    def test_columnar_form_says_the_same(self):
        rows = RowSelection.from_selectors([skip(150), select(10), skip(40)])
        columnar = PageLocations.from_locations(TWO_PAGES)
        assert rows.scan_ranges(columnar) == rows.scan_ranges(TWO_PAGES)

    def test_run_over_a_page_border_needs_both_pages_uncoalesced(self):
        rows = RowSelection.from_consecutive_ranges([(99, 101)], 200)
        assert rows.scan_ranges(TWO_PAGES) == [(0, 10), (10, 10)]

    def test_run_up_to_a_page_border_needs_one_page(self):
        assert RowSelection.from_consecutive_ranges([(50, 100)], 200).scan_ranges(TWO_PAGES) == [
            (0, 10)
        ]
        assert RowSelection.from_consecutive_ranges([(100, 150)], 200).scan_ranges(TWO_PAGES) == [
            (10, 10)
        ]

    def test_pages_past_a_trimmed_selection_are_not_fetched(self):
        rows = RowSelection.from_selectors([skip(20), select(10), skip(170)]).trim()
        assert rows.scan_ranges(TWO_PAGES) == [(0, 10)]
        assert rows.page_mask([0, 30, 100]).tolist() == [True, False, False]

    def test_ranges_are_plain_integers(self):
        ((offset, length),) = RowSelection.all(5).scan_ranges(pages(0))
        assert type(offset) is int
        assert type(length) is int

    def test_no_pages(self):
        assert RowSelection.none(0).scan_ranges([]) == []


class TestStrategyWithPages:
    FIRST_AND_LAST = RowSelection.from_indices([0, 5], 6)

    def test_no_mask_where_the_middle_page_is_skipped(self):
        assert self.FIRST_AND_LAST.prefers_mask()
        assert not self.FIRST_AND_LAST.prefers_mask(pages(0, 2, 4))

    def test_mask_where_every_page_is_read(self):
        assert self.FIRST_AND_LAST.prefers_mask(pages(0, 3))

    def test_objects_and_columns_give_one_answer(self):
        objects = [
            PageLocation(offset=i, compressed_page_size=1, first_row_index=first)
            for i, first in enumerate((0, 2, 4))
        ]
        assert not self.FIRST_AND_LAST.prefers_mask(objects)

    def test_no_mask_where_pages_past_a_trimmed_selection_are_skipped(self):
        assert not RowSelection.from_indices([0, 2], 100).trim().prefers_mask(pages(0, 50))


class TestExpandToPages:
    def test_touched_pages_become_whole(self):
        rows = RowSelection.from_indices([5, 250, 251], 300)
        assert rows.expand_to_pages([0, 100, 200]).selectors == (
            select(100), skip(100), select(100),
        )  # fmt: skip

    def test_neighbouring_pages_merge(self):
        rows = RowSelection.from_indices([99, 100], 300)
        assert rows.expand_to_pages([0, 100, 200]).selectors == (select(200), skip(100))

    def test_pages_without_rows_are_never_touched(self):
        for rows in (RowSelection.all(10), RowSelection.all(1000)):
            mask = rows.page_mask([0, 0, 5, 5, rows.total_rows])
            assert mask.tolist() == [False, True, False, True, False]

    def test_trimmed_selection_is_refused(self):
        with pytest.raises(OptionError, match="page at row 200 begins past 30 rows"):
            RowSelection.all(30).expand_to_pages([0, 100, 200])

    def test_rows_without_pages_are_refused(self):
        with pytest.raises(OptionError, match="no pages"):
            RowSelection.all(30).expand_to_pages([])


class TestPageLocations:
    def test_unequal_lengths(self):
        with pytest.raises(OptionError, match="2 offsets, 1 sizes, 2 first rows"):
            PageLocations(offsets=[0, 1], sizes=[1], first_rows=[0, 1])  # type: ignore[arg-type]

    def test_must_begin_with_row_0(self):
        with pytest.raises(OptionError, match="row 0, not 3"):
            pages(3, 5)

    def test_must_be_sorted(self):
        with pytest.raises(OptionError, match="sorted"):
            RowSelection.all(10).page_mask([0, 5, 2])

    def test_must_be_integers(self):
        with pytest.raises(OptionError, match="float64"):
            RowSelection.all(10).page_mask([0.0, 5.0])

    def test_read_only_and_not_shared_also_after_pickling(self):
        first_rows = np.array([0, 5])
        locations = PageLocations(offsets=first_rows, sizes=first_rows, first_rows=first_rows)
        first_rows[1] = 9
        restored = pickle.loads(pickle.dumps(locations))
        for value in (locations, restored):
            assert value.first_rows.tolist() == [0, 5]
            assert len(value) == 2
            with pytest.raises(ValueError, match="read-only"):
                value.first_rows[1] = 7
