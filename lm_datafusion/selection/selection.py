"""`RowSelection`: which of some consecutive rows are selected. Every stage of a scan refines one.

In: filters, ranges, indices, selectors or pages. Out: a `RowSelection`, its algebra, and what a
reader needs of it (rows, runs, pages, byte ranges).

The rows are stored in one of two backings, `Runs` or `Mask`, chosen after each operation by average
run length (`algebra.settle`). A selection made from row numbers (`from_rows`) keeps those, and gets
a backing when an operation first needs one.

Invariant: a selection is a set of rows out of `total_rows`. The backing affects the cost of an
operation, never its result. Trailing skips are kept: `total_rows` changes only in `slice`,
`split_off`, `concat` and `trim`.
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from lm_datafusion.errors import OptionError
from lm_datafusion.selection import algebra
from lm_datafusion.selection.algebra import settle
from lm_datafusion.selection.filters import filter_to_mask
from lm_datafusion.selection.mask import Mask
from lm_datafusion.selection.pages import as_page_locations, check_first_rows, page_stops
from lm_datafusion.selection.ranges import indices_to_runs, ranges_to_runs, selectors_to_runs
from lm_datafusion.selection.rows import Rows
from lm_datafusion.selection.runs import Runs
from lm_datafusion.selection.selector import RowSelector
from lm_datafusion.selection.strategy import (
    APPLY_THRESHOLD,
    RowSelectionStrategy,
    choose_strategy,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, SupportsIndex

    import numpy.typing as npt
    from numpy.typing import ArrayLike

    from lm_datafusion.selection.algebra import Backing
    from lm_datafusion.selection.pages import AnyPageLocations
    from lm_datafusion.selection.runs import BoolArray, Int64Array

AnyArray = TypeVar("AnyArray", bound=np.ndarray)

# A repr shows this many selectors at each end: with counts, about one line.
_SHOWN_SELECTORS = 3
# With at least this many rows per selected row, row numbers are cheaper than a mask.
_SPARSE = 8
# Row numbers are signed 32-bit integers.
_MOST_ROWS = 1 << 31


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RowSelection:
    """An immutable selection of rows out of `total_rows` consecutive ones.

    * its selectors are not empty, and alternate between selected and skipped;
    * two selections are equal if they select the same rows out of equally many;
    * it is picklable and hashable, and all its arrays are read-only.

    Build one with a `from_*` constructor, `all` or `none`.

    Example:
        >>> page_index = RowSelection.from_consecutive_ranges([(100, 150)], 200)
        >>> page_index
        RowSelection[skip 100, select 50, skip 50]
        >>> predicate = RowSelection.from_selectors([RowSelector.select(10), RowSelector.skip(40)])
        >>> page_index.and_then(predicate)
        RowSelection[skip 100, select 10, skip 90]
    """

    _form: Backing | Rows

    @property
    def _backing(self) -> Backing:
        form = self._form
        return form.settled() if isinstance(form, Rows) else form

    # ---- constructors ------------------------------------------------------------------

    @classmethod
    def all(cls, total_rows: SupportsIndex) -> RowSelection:
        """Every one of `total_rows` rows."""
        return _all_or_none(_count(total_rows, "total_rows"), is_all=True)

    @classmethod
    def none(cls, total_rows: SupportsIndex) -> RowSelection:
        """None of `total_rows` rows."""
        return _all_or_none(_count(total_rows, "total_rows"), is_all=False)

    @classmethod
    def from_selectors(cls, selectors: Iterable[RowSelector]) -> RowSelection:
        """Consecutive selectors; drops empty ones and merges equal neighbours."""
        return cls(settle(selectors_to_runs(selectors)))

    @classmethod
    def from_filters(cls, filters: Iterable[Any]) -> RowSelection:
        """Consecutive boolean arrays, each covering the next rows.

        Args:
            filters: Boolean arrays of numpy or pyarrow (chunked or not): the results of a
                predicate, batch by batch. A null is not selected.

        Raises:
            OptionError: One of them is not a one-dimensional boolean array.
        """
        masks = [filter_to_mask(values) for values in filters]
        return cls(settle(Mask(np.concatenate([np.empty(0, np.bool_), *masks]))))

    @classmethod
    def from_mask(cls, mask: BoolArray) -> RowSelection:
        """The true values of one numpy boolean array, which is copied."""
        return cls.from_filters([mask])

    @classmethod
    def from_ranges(
        cls, starts: ArrayLike, stops: ArrayLike, total_rows: SupportsIndex
    ) -> RowSelection:
        """Sorted half-open row ranges, given as two arrays.

        Args:
            starts: First row of each range.
            stops: Row after the last of each range. Empty ranges are dropped, touching ones merged.
            total_rows: Rows the selection covers.

        Raises:
            OptionError: A range is reversed, out of order, overlapping or out of bounds.
        """
        return cls(settle(ranges_to_runs(starts, stops, _count(total_rows, "total_rows"))))

    @classmethod
    def from_consecutive_ranges(
        cls, ranges: Iterable[tuple[int, int]], total_rows: SupportsIndex
    ) -> RowSelection:
        """Sorted half-open row ranges, given as pairs; otherwise as `from_ranges`."""
        pairs = np.array([(start, stop) for start, stop in ranges]).reshape(-1, 2)
        return cls.from_ranges(pairs[:, 0], pairs[:, 1], total_rows)

    @classmethod
    def from_indices(cls, indices: ArrayLike, total_rows: SupportsIndex) -> RowSelection:
        """Row indices in strictly increasing order.

        Raises:
            OptionError: They do not increase, or one is out of bounds.
        """
        return cls(settle(indices_to_runs(indices, _count(total_rows, "total_rows"))))

    @classmethod
    def from_rows(cls, rows: npt.NDArray[np.int32], total_rows: int) -> RowSelection:
        """Row numbers in strictly increasing order, as returned by kernels; not checked."""
        return cls(Rows(rows, total_rows))

    @classmethod
    def concat(cls, selections: Iterable[RowSelection]) -> RowSelection:
        """The concatenated selections; each covers the next rows."""
        parts = list(selections)
        rows = [p._form for p in parts if isinstance(p._form, Rows)]  # noqa: SLF001 of this class
        if len(rows) == len(parts) and sum(part.total_rows for part in parts) < _MOST_ROWS:
            return cls(Rows.concat(rows))
        return cls(algebra.concat([part._backing for part in parts]))  # noqa: SLF001

    # ---- questions ---------------------------------------------------------------------

    @property
    def total_rows(self) -> int:
        """Number of rows, selected and skipped."""
        return self._form.total_rows

    @property
    def row_count(self) -> int:
        """Number of selected rows."""
        return self._form.row_count

    @property
    def skipped_row_count(self) -> int:
        """Number of skipped rows."""
        return self.total_rows - self.row_count

    @property
    def selector_count(self) -> int:
        """Number of selectors, without building them."""
        return self._backing.selector_count

    @property
    def run_count(self) -> int:
        """Number of runs of selected rows, or one more."""
        if isinstance(self._form, Rows):
            return self._form.run_count
        return (self.selector_count + 1) // 2

    @property
    def selectors(self) -> tuple[RowSelector, ...]:
        """The selection as alternating selectors, one object per run; for display and tests."""
        return tuple(self)

    def __iter__(self) -> Iterator[RowSelector]:
        lengths, is_skip = self._backing.to_runs().selector_lengths()
        for length in lengths.tolist():
            yield RowSelector(row_count=length, is_skip=is_skip)
            is_skip = not is_skip

    def selects_any(self) -> bool:
        """Whether some row is selected."""
        form = self._form
        return len(form.starts) > 0 if isinstance(form, Runs) else form.row_count > 0

    def selects_all(self) -> bool:
        """Whether no row is skipped; true if there are no rows."""
        form = self._form
        if isinstance(form, Runs) and len(form.starts) > 1:
            return False  # runs do not touch: something is skipped between them
        return self.row_count == self.total_rows

    # ---- algebra -----------------------------------------------------------------------

    def and_then(self, other: RowSelection) -> RowSelection:
        """Refine by a selection among the rows selected so far.

        Args:
            other: A selection over the selected rows of `self`, in order: the result of a
                predicate on those rows.

        Raises:
            OptionError: `other` does not cover exactly the selected rows.
        """
        if other.total_rows != self.row_count:
            raise OptionError(
                f"and_then needs a selection over the {self.row_count} selected rows, "
                f"got one over {other.total_rows}"
            )
        if isinstance(self._form, Rows) and isinstance(other._form, Mask):
            return self._with_rows(self._form.rows[other._form.bits])
        return RowSelection(algebra.and_then(self._backing, other._backing))

    def relative_to(self, outer: RowSelection) -> RowSelection:
        """These rows as a selection among the selected rows of another; inverts `and_then`.

        `outer.and_then(wanted.relative_to(outer)) == wanted`, if `outer` has all rows of `wanted`.

        Args:
            outer: A selection that has every row of this one; not checked.

        Raises:
            OptionError: The two cover different numbers of rows.
        """
        self._check_same_rows(outer, "relative_to")
        if self == outer:
            return RowSelection.all(outer.row_count)
        return self._with(algebra.relative_to(self._backing, outer._backing), outer)

    def intersection(self, other: RowSelection) -> RowSelection:
        """Rows of both.

        Raises:
            OptionError: The two cover different numbers of rows. A missing tail is not guessed;
                use `slice` or `concat`.
        """
        self._check_same_rows(other, "intersection")
        mine, theirs = self._form, other._form
        if isinstance(mine, Rows) and other.selects_all():
            return self
        if isinstance(theirs, Rows) and self.selects_all():
            return other
        if isinstance(mine, Rows) and mine.should_meet(theirs):
            return self._with_rows(mine.within(theirs))
        if isinstance(theirs, Rows) and theirs.should_meet(mine):
            return other._with_rows(theirs.within(mine))
        return self._with(algebra.intersection(self._backing, other._backing), other)

    def union(self, other: RowSelection) -> RowSelection:
        """Rows of either.

        Raises:
            OptionError: The two cover different numbers of rows.
        """
        self._check_same_rows(other, "union")
        if not other.selects_any() or not self.selects_any():
            return self if self.selects_any() else other
        has_rows = isinstance(self._form, Rows) or isinstance(other._form, Rows)
        if has_rows and self._is_sparse() and other._is_sparse():
            return RowSelection.from_rows(
                _merged(self._sparse_rows(), other._sparse_rows()), self.total_rows
            )
        return self._with(algebra.union(self._backing, other._backing), other)

    def difference(self, other: RowSelection) -> RowSelection:
        """Rows of `self` that are not rows of `other`.

        Raises:
            OptionError: The two cover different numbers of rows.
        """
        self._check_same_rows(other, "difference")
        mine, theirs = self._form, other._form
        if isinstance(mine, Rows) and mine.should_meet(theirs):
            return self._with_rows(mine.without(theirs))
        return self._with(algebra.difference(self._backing, other._backing), other)

    def complement(self) -> RowSelection:
        """Selected and skipped rows swapped."""
        return RowSelection(settle(self._backing.complement()))

    def reverse(self) -> RowSelection:
        """Row i becomes row `total_rows - 1 - i`, for a scan from the end."""
        return RowSelection(settle(self._backing.reverse()))

    # ---- parts -------------------------------------------------------------------------

    def slice(self, start: SupportsIndex, stop: SupportsIndex) -> RowSelection:
        """The rows `[start, stop)` as a separate selection, counted from `start`.

        Raises:
            OptionError: Not `0 <= start <= stop <= total_rows`.
        """
        first, last = operator.index(start), operator.index(stop)
        if not 0 <= first <= last <= self.total_rows:
            raise OptionError(f"no rows [{first}, {last}) among {self.total_rows}")
        if isinstance(self._form, Rows):
            return RowSelection(self._form.slice(first, last))
        return RowSelection(settle(self._backing.slice(first, last)))

    def split_off(self, row_count: SupportsIndex) -> tuple[RowSelection, RowSelection]:
        """The first `row_count` rows (all of them if there are fewer), and the rest."""
        cut = min(_count(row_count, "row_count"), self.total_rows)
        return self.slice(0, cut), self.slice(cut, self.total_rows)

    def trim(self) -> RowSelection:
        """Without the skipped rows at the end; `total_rows` shrinks by them."""
        return RowSelection(settle(self._backing.trim()))

    def offset(self, row_count: SupportsIndex) -> RowSelection:
        """Also skip the first `row_count` selected rows."""
        count = _count(row_count, "row_count")
        if count >= self.row_count:
            return RowSelection.none(self.total_rows)
        first = self._backing.row_at(count)
        return RowSelection(settle(self._backing.clip(first, self.total_rows)))

    def limit(self, row_count: SupportsIndex) -> RowSelection:
        """Keep only the first `row_count` selected rows; `total_rows` stays."""
        count = _count(row_count, "row_count")
        if count >= self.row_count:
            return self
        return RowSelection(settle(self._backing.clip(0, self._backing.row_at(count))))

    # ---- pages -------------------------------------------------------------------------

    def page_mask(self, first_row_indices: ArrayLike) -> BoolArray:
        """For each page, whether it has a selected row.

        Args:
            first_row_indices: First row of each page, sorted, beginning with 0. Pages past
                `total_rows` have no selected row.

        Raises:
            OptionError: The pages do not begin with row 0 or are not sorted.
        """
        first_rows = check_first_rows(first_row_indices)
        return self._form.touches(first_rows, page_stops(first_rows, self.total_rows))

    def expand_to_pages(self, first_row_indices: ArrayLike) -> RowSelection:
        """All rows of every page that has a selected row.

        Args:
            first_row_indices: First row of each page, sorted, beginning with 0. The last page
                ends at `total_rows`.

        Raises:
            OptionError: The pages do not begin with row 0, are not sorted, or one begins past
                `total_rows`: the selection was trimmed, and the end of its last page is lost.
        """
        first_rows = check_first_rows(first_row_indices)
        if self.selects_any() and not len(first_rows):
            raise OptionError(f"no pages to hold {self.total_rows} rows")
        if len(first_rows) and first_rows[-1] > self.total_rows:
            raise OptionError(f"page at row {first_rows[-1]} begins past {self.total_rows} rows")
        stops = page_stops(first_rows, self.total_rows)
        touched = self._backing.touches(first_rows, stops)
        pages = Runs.merged(first_rows[touched], stops[touched], self.total_rows)
        return RowSelection(settle(pages))

    def scan_ranges(self, page_locations: AnyPageLocations) -> list[tuple[int, int]]:
        """The byte ranges of the pages to fetch for this selection.

        Args:
            page_locations: The pages of one column chunk, as `PageLocations` or as objects
                with `offset`, `compressed_page_size` and `first_row_index`.

        Returns:
            `(offset, length)` for each page with a selected row, in page order. Neighbours are not
            coalesced: the fetch decides how large a gap is worth reading.
        """
        locations = as_page_locations(page_locations)
        return locations.byte_ranges(self.page_mask(locations.first_rows))

    def strategy(
        self, page_locations: AnyPageLocations | None = None, *, threshold: int = APPLY_THRESHOLD
    ) -> RowSelectionStrategy:
        """How to apply this selection to a decoded column, regardless of its backing.

        Args:
            page_locations: The pages of the column, if pages without a selected row are not
                fetched. With such a page the result is `RUNS`: a mask needs every page.
            threshold: Average run length, in rows, from which runs are better.
        """
        skips_pages = False
        if page_locations is not None:
            first_rows = as_page_locations(page_locations).first_rows
            skips_pages = not bool(self.page_mask(first_rows).all())
        return choose_strategy(
            self.total_rows, self.selector_count, threshold=threshold, skips_pages=skips_pages
        )

    def prefers_mask(self, page_locations: AnyPageLocations | None = None) -> bool:
        """Whether `strategy` is `MASK`."""
        return self.strategy(page_locations) is RowSelectionStrategy.MASK

    # ---- the rows themselves -----------------------------------------------------------

    def to_mask(self) -> BoolArray:
        """One boolean per row, read-only."""
        return _read_only(self._backing.to_mask())

    def to_ranges(self) -> tuple[Int64Array, Int64Array]:
        """Starts and stops of the selected runs: sorted, half-open, not touching, read-only."""
        runs = self._backing.to_runs()
        return runs.starts, runs.stops

    def to_indices(self) -> Int64Array:
        """The selected rows in order, read-only."""
        return _read_only(self._form.to_indices())

    def to_rows(self) -> npt.NDArray[np.int32] | None:
        """The row numbers that the selection was made from; None if made from something else."""
        return self._form.rows if isinstance(self._form, Rows) else None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RowSelection):
            return NotImplemented
        if self._form is other._form:
            return True
        if self.total_rows != other.total_rows or self.row_count != other.row_count:
            return False
        match self._backing, other._backing:
            case Mask(bits=mine), Mask(bits=theirs):
                return np.array_equal(mine, theirs)
            case mine, theirs:
                left, right = mine.to_runs(), theirs.to_runs()
                same_starts = np.array_equal(left.starts, right.starts)
                return same_starts and np.array_equal(left.stops, right.stops)

    def __hash__(self) -> int:
        runs = self._backing.to_runs()
        return hash((self.total_rows, runs.starts.tobytes(), runs.stops.tobytes()))

    def __reduce__(self) -> tuple[object, ...]:
        return RowSelection, (self._backing,)

    def __repr__(self) -> str:
        lengths, is_skip = self._backing.to_runs().selector_lengths()
        words = ("skip", "select") if is_skip else ("select", "skip")
        hidden = len(lengths) - 2 * _SHOWN_SELECTORS
        indexes = list(range(len(lengths)))
        if hidden > 1:
            indexes[_SHOWN_SELECTORS:-_SHOWN_SELECTORS] = []
        shown = [f"{words[index % 2]} {lengths[index]}" for index in indexes]
        if hidden > 1:
            shown.insert(_SHOWN_SELECTORS, f"... {hidden} more ...")
        return f"RowSelection[{', '.join(shown)}]"

    def _is_sparse(self) -> bool:
        """Whether row numbers are the best form for a union."""
        return self.row_count * _SPARSE <= self.total_rows

    def _sparse_rows(self) -> npt.NDArray[np.int32]:
        form = self._form
        return form.rows if isinstance(form, Rows) else form.to_indices().astype(np.int32)

    def _with_rows(self, rows: npt.NDArray[np.int32]) -> RowSelection:
        """The given subset of the rows; `self` if it is all of them."""
        if len(rows) == self.row_count:
            return self
        return RowSelection.from_rows(rows, self.total_rows)

    def _with(self, backing: Backing, other: RowSelection) -> RowSelection:
        """The result of an operation; `self` or `other` if the backing is theirs."""
        if backing is self._backing:
            return self
        return other if backing is other._backing else RowSelection(backing)

    def _check_same_rows(self, other: RowSelection, what: str) -> None:
        if self.total_rows != other.total_rows:
            raise OptionError(
                f"{what} of selections over {self.total_rows} and {other.total_rows} rows"
            )


def _merged(left: npt.NDArray[np.int32], right: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """The distinct numbers of two ascending arrays; `np.union1d` would hash them."""
    rows = np.sort(np.concatenate((left, right)))
    is_new = np.append(True, rows[1:] != rows[:-1])
    return rows if is_new.all() else rows[is_new]


# Every stage of a scan starts from these for each row group, and row groups have few sizes.
@functools.lru_cache(maxsize=1024)
def _all_or_none(total_rows: int, *, is_all: bool) -> RowSelection:
    return RowSelection(settle(Runs.one(0, total_rows if is_all else 0, total_rows)))


def _count(value: SupportsIndex, what: str) -> int:
    count = operator.index(value)
    if count < 0:
        raise OptionError(f"{what} must be 0 or more, not {count}")
    return count


def _read_only(array: AnyArray) -> AnyArray:
    array.flags.writeable = False
    return array
