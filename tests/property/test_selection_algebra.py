"""Every operation of `RowSelection`, on every form it has, against a boolean array."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lm_datafusion.selection import MASK_THRESHOLD, RowSelection, RowSelector
from lm_datafusion.selection.mask import Mask
from lm_datafusion.selection.rows import Rows
from lm_datafusion.selection.runs import Runs

# Runs of a few rows settle as masks, runs of hundreds as runs: the lengths mix both.
RUN_LENGTHS = st.one_of(st.integers(0, 3), st.integers(1, 40), st.integers(100, 300))


@st.composite
def masks(draw):
    lengths = draw(st.lists(RUN_LENGTHS, max_size=12))
    first = draw(st.booleans())
    return np.repeat((np.arange(len(lengths)) % 2 == 0) == first, lengths)


def masks_of(total_rows):
    by_runs = masks().map(lambda mask: np.resize(mask, total_rows))
    if total_rows > 100:  # long lists of single booleans are slow to draw
        return by_runs
    bits = st.lists(st.booleans(), min_size=total_rows, max_size=total_rows)
    return by_runs | bits.map(lambda values: np.array(values, np.bool_))


@st.composite
def pairs(draw):
    left = draw(masks())
    return left, draw(masks_of(len(left)))


@st.composite
def refinements(draw):
    left = draw(masks())
    return left, draw(masks_of(int(left.sum())))


@st.composite
def windows(draw):
    mask = draw(masks())
    start, stop = sorted(draw(st.tuples(*[st.integers(0, len(mask))] * 2)))
    return mask, start, stop


@st.composite
def paged(draw):
    mask = draw(masks())
    borders = draw(st.lists(st.integers(0, len(mask)), max_size=10))
    return mask, np.array([0, *sorted(borders)], np.int64)


def forced(mask):
    """The rows of `mask` under each backing, whatever the rule would say."""
    yield RowSelection(Mask(mask.copy()))
    yield RowSelection(Mask(mask.copy()).to_runs())
    yield RowSelection.from_rows(np.flatnonzero(mask).astype(np.int32), len(mask))


def forced_pairs(left, right):
    return [(a, b) for a in forced(left) for b in forced(right)]


def is_settled(selection):
    short_runs = selection.total_rows < selection.selector_count * MASK_THRESHOLD
    return isinstance(selection._backing, Mask) == short_runs


def check(selection, expected, made_of=()):
    """`selection` selects just the rows of `expected`, and holds every invariant."""
    expected = np.asarray(expected, np.bool_)
    np.testing.assert_array_equal(selection.to_mask(), expected)
    np.testing.assert_array_equal(selection.to_indices(), np.flatnonzero(expected))
    assert selection.total_rows == len(expected)
    assert selection.row_count == expected.sum()
    assert selection.skipped_row_count == (~expected).sum()
    assert selection.selects_any() == expected.any()
    assert selection.selects_all() == expected.all()
    check_runs(selection, expected)
    check_selectors(selection, expected)
    assert is_settled(selection) or not all(map(is_settled, made_of))
    for same in forced(expected):
        assert selection == same
        assert hash(selection) == hash(same)


def check_runs(selection, expected):
    starts, stops = selection.to_ranges()
    assert starts.dtype == stops.dtype == np.int64
    assert (starts < stops).all()
    assert (stops[:-1] < starts[1:]).all()
    rebuilt = np.zeros(len(expected), np.bool_)
    for start, stop in zip(starts, stops, strict=True):
        rebuilt[start:stop] = True
    np.testing.assert_array_equal(rebuilt, expected)


def check_selectors(selection, expected):
    selectors = selection.selectors
    assert len(selectors) == selection.selector_count
    assert all(selector.row_count > 0 for selector in selectors)
    assert all(a.is_skip != b.is_skip for a, b in pairwise(selectors))
    rebuilt = [not selector.is_skip for selector in selectors for _ in range(selector.row_count)]
    assert rebuilt == expected.tolist()


@given(masks())
def test_constructors_agree(mask):
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.view(np.int8), [0]))))
    starts, stops = edges[::2], edges[1::2]
    total = len(mask)
    check(RowSelection.from_mask(mask), mask)
    check(RowSelection.from_ranges(starts, stops, total), mask)
    check(RowSelection.from_consecutive_ranges(zip(starts, stops, strict=True), total), mask)
    check(RowSelection.from_indices(np.flatnonzero(mask), total), mask)
    check(RowSelection.from_selectors(RowSelection.from_mask(mask)), mask)
    check(RowSelection.all(total), np.ones(total))
    check(RowSelection.none(total), np.zeros(total))


@given(st.lists(st.tuples(RUN_LENGTHS, st.booleans()), max_size=12))
def test_from_selectors_in_any_form(steps):
    selectors = [RowSelector(row_count=count, is_skip=is_skip) for count, is_skip in steps]
    expected = [not is_skip for count, is_skip in steps for _ in range(count)]
    check(RowSelection.from_selectors(selectors), expected)


@given(st.lists(masks(), max_size=5))
def test_from_filters_and_concat_follow_on(parts):
    expected = np.concatenate([np.empty(0, np.bool_), *parts])
    check(RowSelection.from_filters(parts), expected)
    for pick in (0, 1):
        check(RowSelection.concat([list(forced(part))[pick] for part in parts]), expected)
    mixed = [list(forced(part))[index % 2] for index, part in enumerate(parts)]
    check(RowSelection.concat(mixed), expected)


@given(refinements())
def test_and_then(refinement):
    left, right = refinement
    expected = left.copy()
    expected[left] = right
    for a, b in forced_pairs(left, right):
        check(a.and_then(b), expected, (a, b))


@given(refinements())
def test_relative_to_undoes_and_then(refinement):
    outer, inner = refinement
    wanted = outer.copy()
    wanted[outer] = inner
    for a, b in forced_pairs(wanted, outer):
        check(a.relative_to(b), inner, (a, b))


@given(pairs())
def test_set_operations(pair):
    left, right = pair
    for a, b in forced_pairs(left, right):
        check(a.intersection(b), left & right, (a, b))
        check(a.union(b), left | right, (a, b))
        check(a.difference(b), left & ~right, (a, b))
        assert (a == b) == np.array_equal(left, right)


@given(masks())
def test_unary_operations(mask):
    last = int(np.flatnonzero(mask)[-1]) + 1 if mask.any() else 0
    for selection in forced(mask):
        check(selection.complement(), ~mask)
        check(selection.reverse(), mask[::-1])
        check(selection.trim(), mask[:last])
        assert pickle.loads(pickle.dumps(selection)) == selection
        assert repr(selection).startswith("RowSelection[")


@given(windows())
def test_slice_and_split_off(window):
    mask, start, stop = window
    for selection in forced(mask):
        check(selection.slice(start, stop), mask[start:stop])
        head, tail = selection.split_off(start)
        check(head, mask[:start])
        check(tail, mask[start:])


@given(masks(), st.integers(0, 400))
def test_offset_and_limit(mask, count):
    rank = np.cumsum(mask)
    for selection in forced(mask):
        check(selection.offset(count), mask & (rank > count))
        # Nothing to cut gives the selection itself, under whatever backing was forced on it.
        limited = selection.limit(count)
        assert limited is selection or limited.row_count == count
        check(RowSelection.from_mask(limited.to_mask()), mask & (rank <= count))


@given(paged())
def test_pages(rows_and_pages):
    mask, first_rows = rows_and_pages
    borders = [*first_rows.tolist(), len(mask)]
    touched = [bool(mask[start:stop].any()) for start, stop in pairwise(borders)]
    expanded = np.zeros(len(mask), np.bool_)
    for hit, (start, stop) in zip(touched, pairwise(borders), strict=True):
        expanded[start:stop] |= hit
    for selection in forced(mask):
        assert selection.page_mask(first_rows).tolist() == touched
        check(selection.expand_to_pages(first_rows), expanded)
        # Trimming changes no verdict about a page.
        assert selection.trim().page_mask(first_rows).tolist() == touched


@given(masks(), st.integers(0, 7), st.data())
def test_arrow_filters(mask, offset, data):
    valid = data.draw(masks_of(len(mask)))
    # From buffers, so that values under a null may be true.
    before = np.ones(offset, np.bool_)
    values, validity = (
        pa.py_buffer(np.packbits(np.concatenate((before, bits)), bitorder="little"))
        for bits in (mask, valid)
    )
    array = pa.Array.from_buffers(pa.bool_(), len(mask), [validity, values], offset=offset)
    check(RowSelection.from_filters([array]), mask & valid)


@given(masks())
def test_row_at_finds_each_rank(mask):
    for selection in forced(mask):
        found = [selection._backing.row_at(rank) for rank in range(min(selection.row_count, 50))]
        assert found == np.flatnonzero(mask)[:50].tolist()


@given(masks())
def test_forced_backings_really_differ(mask):
    kinds = [type(selection._form) for selection in forced(mask)]
    assert kinds == [Mask, Runs, Rows]
