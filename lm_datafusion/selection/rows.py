"""A selection in the form that kernels return: the numbers of the selected rows.

In: ascending row numbers. Out: directly, counts, pages touched and the rows within a few runs;
`Runs` or a `Mask` when another operation needs one.

Invariant: `rows` ascends strictly, lies in `[0, total_rows)` and is read-only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeGuard

import numpy as np

from lm_datafusion.selection.algebra import settle
from lm_datafusion.selection.mask import Mask
from lm_datafusion.selection.runs import Runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from lm_datafusion.selection.algebra import Backing
    from lm_datafusion.selection.runs import BoolArray, Int64Array

# The fewest rows per run for which looking up each run in the rows pays off.
_ROWS_PER_RUN: Final = 16
_NO_ROWS: Final = np.empty(0, dtype=np.int32)


class Rows:
    """Selected rows by number."""

    __match_args__ = ("rows",)
    __slots__ = ("_settled", "rows", "total_rows")

    def __init__(self, rows: npt.NDArray[np.int32], total_rows: int) -> None:
        rows.flags.writeable = False
        self.rows = rows
        self.total_rows = total_rows
        self._settled: Backing | None = None

    @property
    def row_count(self) -> int:
        """Number of selected rows."""
        return len(self.rows)

    @property
    def run_count(self) -> int:
        """Number of runs that the rows form."""
        rows = self.rows
        return int(np.count_nonzero(rows[1:] - rows[:-1] != 1)) + 1 if len(rows) else 0

    def settled(self) -> Backing:
        """The same rows as runs or a mask, cached."""
        if self._settled is None:
            bits = np.zeros(self.total_rows, np.bool_)
            bits[self.rows] = True
            self._settled = settle(Mask(bits))
        return self._settled

    def touches(self, starts: Int64Array, stops: Int64Array) -> BoolArray:
        """For each of the sorted, adjacent ranges, whether it has a row."""
        # In the type of the rows, or numpy would convert all of them.
        edges = np.append(starts, stops[-1:]).astype(np.int32)
        return np.diff(np.searchsorted(self.rows, edges)) > 0

    def should_meet(self, other: Backing | Rows) -> TypeGuard[Runs]:
        """Whether an operation with `other` is done on row numbers: if it has few runs."""
        return isinstance(other, Runs) and len(other.starts) * _ROWS_PER_RUN <= len(self.rows) + 64

    def within(self, runs: Runs) -> npt.NDArray[np.int32]:
        """The rows that lie in runs."""
        cuts = self._cuts(runs)
        parts = [self.rows[start:stop] for start, stop in zip(cuts[::2], cuts[1::2], strict=True)]
        return parts[0] if len(parts) == 1 else np.concatenate([self.rows[:0], *parts])

    def without(self, runs: Runs) -> npt.NDArray[np.int32]:
        """The rows that do not lie in runs."""
        cuts = [0, *self._cuts(runs), len(self.rows)]
        parts = [self.rows[start:stop] for start, stop in zip(cuts[::2], cuts[1::2], strict=True)]
        return np.concatenate(parts)

    def slice(self, start: int, stop: int) -> Rows:
        """The rows `[start, stop)`, counted from `start`."""
        first, last = np.searchsorted(self.rows, np.array([start, stop], dtype=np.int32))
        return Rows(self.rows[first:last] - np.int32(start), stop - start)

    @staticmethod
    def concat(parts: Sequence[Rows]) -> Rows:
        """The concatenated parts; each covers the next rows."""
        total_rows, shifted = 0, [_NO_ROWS]
        for part in parts:
            shifted.append(part.rows + np.int32(total_rows))
            total_rows += part.total_rows
        return Rows(np.concatenate(shifted), total_rows)

    def _cuts(self, runs: Runs) -> list[int]:
        """Where each run begins and ends among the rows."""
        edges = np.stack((runs.starts, runs.stops), axis=1).ravel().astype(np.int32)
        return np.searchsorted(self.rows, edges).tolist()

    def to_indices(self) -> Int64Array:
        """The selected rows, one by one."""
        return self.rows.astype(np.int64)
