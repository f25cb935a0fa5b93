"""The second backing of a row selection: one boolean per row.

In: a boolean numpy array. Out: other `Mask`s, `Runs`, row indices, pages touched.

It has the same operations as `Runs`. Each is a pass over the rows, a byte per row: cheaper than
runs if runs are short, wasteful if they are long.

Invariant: `bits` is one-dimensional, boolean and read-only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from lm_datafusion.selection.runs import Runs

if TYPE_CHECKING:
    from lm_datafusion.selection.runs import BoolArray, Int64Array


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """Selected rows as the true values of `bits`."""

    bits: BoolArray
    _row_count: int = field(default=-1, init=False)
    _selector_count: int = field(default=-1, init=False)

    def __post_init__(self) -> None:
        self.bits.flags.writeable = False

    def __reduce__(self) -> tuple[object, ...]:
        # Through the constructor: numpy does not keep the read-only flag in a pickle.
        return Mask, (self.bits,)

    @property
    def total_rows(self) -> int:
        """Number of rows, selected or not."""
        return len(self.bits)

    @property
    def row_count(self) -> int:
        """Number of selected rows, counted once."""
        if self._row_count < 0:
            object.__setattr__(self, "_row_count", int(np.count_nonzero(self.bits)))
        return self._row_count

    @property
    def selector_count(self) -> int:
        """Number of runs of either kind, selected and skipped, counted once."""
        if self._selector_count < 0:
            edge_count = int(np.count_nonzero(self.bits[1:] != self.bits[:-1]))
            object.__setattr__(self, "_selector_count", edge_count + int(len(self.bits) > 0))
        return self._selector_count

    def intersection(self, other: Mask) -> Mask:
        """Rows of both."""
        return Mask(self.bits & other.bits)

    def union(self, other: Mask) -> Mask:
        """Rows of either."""
        return Mask(self.bits | other.bits)

    def difference(self, other: Mask) -> Mask:
        """Rows of `self` that are not rows of `other`."""
        return Mask(self.bits > other.bits)

    def complement(self) -> Mask:
        """The other rows."""
        return Mask(~self.bits)

    def and_then(self, other: Mask) -> Mask:
        """Rows of `self` whose rank among the rows of `self` is a row of `other`."""
        # Same as `bits[self.bits] = other.bits`, but over the fewer of the kept or the dropped
        # rows: measured two to seven times as fast.
        is_few = 2 * other.row_count <= other.total_rows
        ranks = np.flatnonzero(other.bits if is_few else ~other.bits)
        bits = np.zeros(len(self.bits), np.bool_) if is_few else self.bits.copy()
        bits[np.flatnonzero(self.bits)[ranks]] = is_few
        return Mask(bits)

    def relative_to(self, outer: Mask) -> Mask:
        """The ranks of the rows of `self` among the rows of `outer`, a superset."""
        return Mask(self.bits[np.flatnonzero(outer.bits)])

    def slice(self, start: int, stop: int) -> Mask:
        """The rows `[start, stop)`, counted from `start`."""
        return Mask(self.bits[start:stop])

    def row_at(self, rank: int) -> int:
        """The row that has `rank` among the selected rows; `rank < row_count`."""
        return int(np.flatnonzero(self.bits)[rank])

    def clip(self, start: int, stop: int) -> Mask:
        """Rows outside `[start, stop)` become skipped; `total_rows` stays."""
        bits = np.zeros(len(self.bits), np.bool_)
        bits[start:stop] = self.bits[start:stop]
        return Mask(bits)

    def reverse(self) -> Mask:
        """Row i becomes row `total_rows - 1 - i`."""
        return Mask(self.bits[::-1].copy())

    def trim(self) -> Mask:
        """Without the skipped rows at the end."""
        if not self.bits.any():
            return Mask(self.bits[:0])
        trailing = int(np.argmax(self.bits[::-1]))  # argmax stops at the first true value
        return Mask(self.bits[: len(self.bits) - trailing])

    def touches(self, starts: Int64Array, stops: Int64Array) -> BoolArray:
        """For each of the sorted, adjacent ranges, whether it has a row."""
        touched = np.zeros(len(starts), np.bool_)
        # reduceat would read one value of an empty range, and rejects a start at the end.
        filled = stops > starts
        if filled.any():
            end = int(stops[filled][-1])
            touched[filled] = np.logical_or.reduceat(self.bits[:end], starts[filled])
        return touched

    def to_runs(self) -> Runs:
        """The same rows as runs."""
        edges = np.flatnonzero(self.bits[1:] != self.bits[:-1]).astype(np.int64, copy=False)
        edges += 1
        if len(self.bits) and self.bits[0]:
            edges = np.concatenate((np.zeros(1, np.int64), edges))
        if len(edges) % 2:
            edges = np.append(edges, np.int64(len(self.bits)))
        return Runs(edges[::2].copy(), edges[1::2].copy(), len(self.bits))

    def to_mask(self) -> BoolArray:
        """The array itself, read-only."""
        return self.bits

    def to_indices(self) -> Int64Array:
        """The selected rows, one by one."""
        return np.flatnonzero(self.bits).astype(np.int64, copy=False)
