"""Row selections packed for caches, as small as their rows allow.

In: a `RowSelection`. Out: a `PackedSelection`, and the same selection again.

A scan uses runs of 16 bytes or masks of a byte per row, for speed. A cached selection must be
small: nothing and everything are two numbers; else runs of 8 bytes, or a bit per row, whichever is
smaller.

Invariant: `pack(rows).unpack() == rows`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lm_datafusion.selection.selection import RowSelection

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROW_BYTES = 4
_RUN_BYTES = 8
_NUMPY_BYTES = 112  # an array object around its data


@dataclass(frozen=True, slots=True, eq=False)
class PackedSelection:
    """A packed selection.

    Attributes:
        total_rows: Rows the selection covers.
        row_count: Selected rows.
        rows: Row numbers; None if another form is smaller, or none is needed. The same holds for
            `runs` and `bits`.
        runs: Alternating starts and stops.
        bits: A bit per row.
    """

    total_rows: int
    row_count: int
    rows: NDArray[np.int32] | None = None
    runs: NDArray[np.uint32] | None = None
    bits: NDArray[np.uint8] | None = None

    @property
    def memory_bytes(self) -> int:
        """The size of its arrays."""
        held = (self.rows, self.runs, self.bits)
        return sum(array.nbytes + _NUMPY_BYTES for array in held if array is not None)

    def unpack(self) -> RowSelection:
        """The unpacked selection."""
        if self.rows is not None:
            return RowSelection.from_rows(self.rows, self.total_rows)
        if self.runs is not None:
            runs = self.runs.astype(np.int64)
            return RowSelection.from_ranges(runs[0::2], runs[1::2], self.total_rows)
        if self.bits is not None:
            mask = np.unpackbits(self.bits, count=self.total_rows).view(np.bool_)
            return RowSelection.from_mask(mask)
        return RowSelection.all(self.total_rows) if self.row_count else self._nothing()

    def _nothing(self) -> RowSelection:
        return RowSelection.none(self.total_rows)


def pack(rows: RowSelection) -> PackedSelection:
    """Packs a selection; its rows are those of a row group, fewer than 2**31."""
    total, count = rows.total_rows, rows.row_count
    if count in (0, total):
        return PackedSelection(total, count)
    run_count = rows.run_count
    if count * _ROW_BYTES < min(run_count * _RUN_BYTES, total / 8):
        return PackedSelection(total, count, rows=rows.to_indices().astype(np.int32))
    if run_count * _RUN_BYTES < total / 8:
        starts, stops = rows.to_ranges()
        runs = np.empty(2 * len(starts), dtype=np.uint32)
        runs[0::2], runs[1::2] = starts, stops
        return PackedSelection(total, count, runs=runs)
    return PackedSelection(total, count, bits=np.packbits(rows.to_mask()))
