"""A selection as a kernel gives it: the numbers of the selected rows.

In: ascending row numbers. Out: counts and pages touched at once; `Runs` or a `Mask` when an
operation needs one.

Invariant: `rows` ascends strictly, lies in `[0, total_rows)` and is read-only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lm_datafusion.selection.algebra import settle
from lm_datafusion.selection.mask import Mask

if TYPE_CHECKING:
    import numpy.typing as npt

    from lm_datafusion.selection.algebra import Backing
    from lm_datafusion.selection.runs import BoolArray, Int64Array


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

    def settled(self) -> Backing:
        """The same rows as runs or a mask, made once."""
        if self._settled is None:
            bits = np.zeros(self.total_rows, np.bool_)
            bits[self.rows] = True
            self._settled = settle(Mask(bits))
        return self._settled

    def touches(self, starts: Int64Array, stops: Int64Array) -> BoolArray:
        """For each of the sorted ranges that follow on one another, whether it has a row."""
        # In the type of the rows: else numpy would convert all of them.
        edges = np.append(starts, stops[-1:]).astype(np.int32)
        return np.diff(np.searchsorted(self.rows, edges)) > 0

    def to_indices(self) -> Int64Array:
        """The selected rows, one by one."""
        return self.rows.astype(np.int64)
