"""Row selections packed for keeping: as small as their rows allow.

In: a `RowSelection`. Out: a `PackedSelection`, and the same selection again.

A scan works on runs of 16 bytes or masks of a byte per row, for speed. What is kept for later has
to be small: nothing and everything are two numbers; else runs of 8 bytes, or a bit per row,
whichever is smaller.

Invariant: `pack(rows).unpack() == rows`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lm_datafusion.selection.selection import RowSelection

if TYPE_CHECKING:
    from numpy.typing import NDArray

_RUN_BYTES = 8
_NUMPY_BYTES = 112  # an array object around its data


@dataclass(frozen=True, slots=True, eq=False)
class PackedSelection:
    """A selection at rest.

    Attributes:
        total_rows: Rows the selection speaks of.
        row_count: Selected rows.
        runs: Starts and stops in turns; None if the other form is smaller, or none is needed.
        bits: A bit per row.
    """

    total_rows: int
    row_count: int
    runs: NDArray[np.uint32] | None = None
    bits: NDArray[np.uint8] | None = None

    @property
    def memory_bytes(self) -> int:
        """What it holds beside the object itself."""
        held = self.runs if self.runs is not None else self.bits
        return 0 if held is None else held.nbytes + _NUMPY_BYTES

    def unpack(self) -> RowSelection:
        """The selection, ready to be worked with."""
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
    """Packs a selection; its rows are those of a row group, fewer than 2**32."""
    total, count = rows.total_rows, rows.row_count
    if count in (0, total):
        return PackedSelection(total, count)
    run_count = (rows.selector_count + 1) // 2  # at most
    if run_count * _RUN_BYTES < total / 8:
        starts, stops = rows.to_ranges()
        runs = np.empty(2 * len(starts), dtype=np.uint32)
        runs[0::2], runs[1::2] = starts, stops
        return PackedSelection(total, count, runs=runs)
    return PackedSelection(total, count, bits=np.packbits(rows.to_mask()))
