"""The first backing of a row selection: the selected rows as sorted half-open runs.

In: int64 arrays `starts` and `stops`. Out: other `Runs`, a mask, row indices, pages touched.

The cost of an operation grows with the number of runs (times a logarithm if two lists are matched
by binary search), never with the number of rows, except for `to_mask` and `to_indices`, whose
results are that long.

Intersection and `and_then` are one algorithm in two coordinate systems:

1. find for each run of one side the runs of the other side that it overlaps (`_overlaps`);
2. each pair gives one piece, from the later start to the earlier stop;
3. the pieces come out in order and do not touch, since neither side's runs do.

Invariant: `0 <= starts[i] < stops[i] < starts[i + 1]` and `stops[-1] <= total_rows`. No run is
empty and no two touch, so a set of rows has exactly one form.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64Array: TypeAlias = NDArray[np.int64]
    BoolArray: TypeAlias = NDArray[np.bool_]

_NO_ROWS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Selected rows as runs `[starts[i], stops[i])` out of `total_rows` rows."""

    starts: Int64Array
    stops: Int64Array
    total_rows: int
    _row_count: int = field(default=-1, init=False)

    def __post_init__(self) -> None:
        self.starts.flags.writeable = False
        self.stops.flags.writeable = False

    def __reduce__(self) -> tuple[object, ...]:
        # Through the constructor: numpy does not keep the read-only flag in a pickle.
        return Runs, (self.starts, self.stops, self.total_rows)

    @classmethod
    def one(cls, start: int, stop: int, total_rows: int) -> Runs:
        """The rows `[start, stop)`; none if the range is empty."""
        if start >= stop:
            return cls(_NO_ROWS, _NO_ROWS, total_rows)
        return cls(np.array([start], np.int64), np.array([stop], np.int64), total_rows)

    @classmethod
    def merged(cls, starts: Int64Array, stops: Int64Array, total_rows: int) -> Runs:
        """Runs from sorted ranges that may be empty or touch."""
        filled = stops > starts
        if not filled.all():
            starts, stops = starts[filled], stops[filled]
        if not len(starts):
            return cls(_NO_ROWS, _NO_ROWS, total_rows)
        apart = starts[1:] > stops[:-1]
        if apart.all():
            return cls(starts, stops, total_rows)
        return cls(
            np.concatenate((starts[:1], starts[1:][apart])),
            np.concatenate((stops[:-1][apart], stops[-1:])),
            total_rows,
        )

    @property
    def row_count(self) -> int:
        """Number of selected rows, counted once."""
        if self._row_count < 0:
            count = int(self.stops.sum() - self.starts.sum())
            object.__setattr__(self, "_row_count", count)
        return self._row_count

    @property
    def selector_count(self) -> int:
        """Number of runs of either kind, selected and skipped."""
        if not len(self.starts):
            return int(self.total_rows > 0)
        leading, trailing = self.starts[0] > 0, self.stops[-1] < self.total_rows
        return 2 * len(self.starts) - 1 + int(leading) + int(trailing)

    def intersection(self, other: Runs) -> Runs:
        """Rows of both."""
        # The shorter list is looked up in the longer one.
        few, many = (self, other) if len(self.starts) <= len(other.starts) else (other, self)
        left, right = _overlaps(few.starts, few.stops, many.starts, many.stops)
        starts = np.maximum(few.starts[left], many.starts[right])
        stops = np.minimum(few.stops[left], many.stops[right])
        return Runs(starts, stops, self.total_rows)

    def union(self, other: Runs) -> Runs:
        """Rows of either."""
        return self.complement().intersection(other.complement()).complement()

    def difference(self, other: Runs) -> Runs:
        """Rows of `self` that are not rows of `other`."""
        return self.intersection(other.complement())

    def complement(self) -> Runs:
        """The gaps."""
        starts = np.concatenate((np.zeros(1, np.int64), self.stops))
        stops = np.concatenate((self.starts, np.array([self.total_rows], np.int64)))
        # Only the outer gaps can be empty.
        first = int(starts[0] == stops[0])
        last = len(starts) - int(starts[-1] == stops[-1])
        return Runs(starts[first:last], stops[first:last], self.total_rows)

    def and_then(self, other: Runs) -> Runs:
        """Rows of `self` whose rank among the rows of `self` is a row of `other`."""
        rank_stops = np.cumsum(self.stops - self.starts)
        shift = self.stops - rank_stops  # from a rank in a run to the row that has it
        rank_starts = self.starts - shift
        right, left = _overlaps(other.starts, other.stops, rank_starts, rank_stops)
        starts = np.maximum(other.starts[right], rank_starts[left]) + shift[left]
        stops = np.minimum(other.stops[right], rank_stops[left]) + shift[left]
        return Runs(starts, stops, self.total_rows)

    def relative_to(self, outer: Runs) -> Runs:
        """The ranks of the rows of `self` among the rows of `outer`, a superset."""
        lengths = outer.stops - outer.starts
        shift = np.cumsum(lengths) - outer.stops  # from a row in a run to its rank
        # A run of `self` lies within one run of `outer`: those do not touch each other.
        run = np.searchsorted(outer.starts, self.starts, side="right") - 1
        return Runs.merged(self.starts + shift[run], self.stops + shift[run], outer.row_count)

    def slice(self, start: int, stop: int) -> Runs:
        """The rows `[start, stop)`, counted from `start`."""
        first = np.searchsorted(self.stops, start, side="right")
        last = np.searchsorted(self.starts, stop, side="left")
        starts = np.maximum(self.starts[first:last], start) - start
        stops = np.minimum(self.stops[first:last], stop) - start
        return Runs(starts, stops, stop - start) if stop > start else Runs.one(0, 0, 0)

    def row_at(self, rank: int) -> int:
        """The row that has `rank` among the selected rows; `rank < row_count`."""
        rank_stops = np.cumsum(self.stops - self.starts)
        run = np.searchsorted(rank_stops, rank, side="right")
        return int(self.stops[run] - rank_stops[run] + rank)

    def clip(self, start: int, stop: int) -> Runs:
        """Rows outside `[start, stop)` become skipped; `total_rows` stays."""
        return self.intersection(Runs.one(start, stop, self.total_rows))

    def reverse(self) -> Runs:
        """Row i becomes row `total_rows - 1 - i`."""
        total = self.total_rows
        return Runs(total - self.stops[::-1], total - self.starts[::-1], total)

    def trim(self) -> Runs:
        """Without the skipped rows at the end."""
        return Runs(self.starts, self.stops, int(self.stops[-1]) if len(self.stops) else 0)

    def touches(self, starts: Int64Array, stops: Int64Array) -> BoolArray:
        """For each range, whether it has a selected row."""
        first = np.searchsorted(self.stops, starts, side="right")
        last = np.searchsorted(self.starts, stops, side="left")
        touched: BoolArray = (last > first) & (stops > starts)
        return touched

    def selector_lengths(self) -> tuple[Int64Array, bool]:
        """Lengths of the alternating runs, and whether the first of them is skipped."""
        edges = np.empty(2 * len(self.starts) + 2, np.int64)
        edges[0], edges[-1] = 0, self.total_rows
        edges[1:-1:2], edges[2:-1:2] = self.starts, self.stops
        first = int(edges[0] == edges[1])
        last = len(edges) - int(edges[-1] == edges[-2])
        return np.diff(edges[first:last]), first == 0

    def to_runs(self) -> Runs:
        """Itself."""
        return self

    def to_mask(self) -> BoolArray:
        """One boolean per row."""
        lengths, starts_with_skip = self.selector_lengths()
        kinds = np.zeros(len(lengths), np.bool_)
        kinds[int(starts_with_skip) :: 2] = True
        return np.repeat(kinds, lengths)

    def to_indices(self) -> Int64Array:
        """The selected rows, one by one."""
        lengths = self.stops - self.starts
        rank_stops = np.cumsum(lengths)
        row_count = int(rank_stops[-1]) if len(lengths) else 0
        indices: Int64Array = np.arange(row_count, dtype=np.int64)
        indices += np.repeat(self.stops - rank_stops, lengths)
        return indices


def _overlaps(
    starts: Int64Array, stops: Int64Array, other_starts: Int64Array, other_stops: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """All pairs of overlapping runs of two sorted lists, as indices into both.

    The runs of a list do not overlap each other, so there are fewer pairs than runs.
    """
    first = np.searchsorted(other_stops, starts, side="right")
    last = np.searchsorted(other_starts, stops, side="left")
    counts = last - first
    pair_stops = np.cumsum(counts)
    num_pairs = int(pair_stops[-1]) if len(counts) else 0
    mine = np.repeat(np.arange(len(starts), dtype=np.int64), counts)
    theirs = np.arange(num_pairs, dtype=np.int64) + np.repeat(last - pair_stops, counts)
    return mine, theirs
