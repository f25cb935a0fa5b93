"""Windows: rows of row groups that are scanned together.

In: row groups and the scanned columns. Out: a sequence of `RowSelection`s that cover the rows left
after pruning.

Windows bound the memory, not row groups: a window ends at a page of the widest column once the
pages before it decode to `window_bytes`. Most row groups are one window.

Dictionary-encoded text decodes to far more than its stored size, which the footer does not show;
so a window also has at most `WINDOW_ROWS` rows. (Results are decoded batch by batch; the input of a
condition is not.)

A scan that may end early cuts finer, at every page of the columns its filter reads, and decides
before each window how many rows are worth reading.

Invariant: windows do not overlap, and together hold every remaining row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lm_datafusion.selection import RowSelection

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from lm_datafusion.formats.protocol import Chunk
    from lm_datafusion.storage import OpenFile

WINDOW_ROWS = 1 << 20
# For a chunk whose pages are unknown; PyArrow reads all of it for each window.
MOST_WINDOWS = 1024


def count_windows(row_count: int, chunk_bytes: int, *, window_bytes: int) -> int:
    """How many windows a row group needs, if each is as large as allowed.

    Args:
        row_count: Rows of the row group.
        chunk_bytes: Uncompressed bytes of its largest column chunk.
        window_bytes: The most bytes of a column to decode at a time.
    """
    return max(1, -(-chunk_bytes // window_bytes), -(-row_count // WINDOW_ROWS))


def plan_edges(
    row_count: int, count: int, chunks: Sequence[Chunk], file: OpenFile
) -> npt.NDArray[np.int64]:
    """The edges of `count` windows: ascending, from 0 to `row_count`."""
    whole = np.array([0, row_count], dtype=np.int64)
    if count <= 1 or not chunks:
        return whole
    widest = max(chunks, key=lambda chunk: chunk.uncompressed_bytes)
    first_rows = widest.load_first_rows(file)
    # Sizes and row counts may be wrong; a window has at least one page and one row.
    most = MOST_WINDOWS if first_rows is None else len(first_rows)
    count = max(1, min(count, row_count, most))
    borders = np.linspace(0, row_count, count + 1)[1:-1].astype(np.int64)
    if first_rows is not None:
        # The page that begins at or before each evenly spaced border.
        borders = first_rows[np.searchsorted(first_rows, borders, side="right") - 1]
    return np.unique(np.concatenate([whole, borders]))


def page_edges(row_count: int, chunks: Sequence[Chunk], file: OpenFile) -> npt.NDArray[np.int64]:
    """Every row where a page of one of the chunks begins, and `row_count`."""
    firsts = [rows for chunk in chunks if (rows := chunk.load_first_rows(file)) is not None]
    edges = np.unique(np.concatenate([np.array([0, row_count], dtype=np.int64), *firsts]))
    return edges[edges <= row_count]


def shared_edges(row_count: int, chunks: Sequence[Chunk], file: OpenFile) -> npt.NDArray[np.int64]:
    """Every row where a page of each of the chunks begins, and `row_count`."""
    edges: npt.NDArray[np.int64] | None = None
    for chunk in chunks:
        found = chunk.load_first_rows(file)
        firsts = np.zeros(1, dtype=np.int64) if found is None else found
        edges = firsts if edges is None else np.intersect1d(edges, firsts)
    inner = np.zeros(0, dtype=np.int64) if edges is None else edges
    return np.union1d(inner[inner < row_count], [0, row_count])


class WindowWalk:
    """Walks the remaining rows of a row group from end to end."""

    def __init__(
        self, selection: RowSelection, edges: npt.NDArray[np.int64], *, is_reverse: bool = False
    ) -> None:
        self._selection = selection
        self._edges = edges
        self._is_reverse = is_reverse
        # How many selected rows lie before each edge.
        self._before = _selected_before(selection, edges) if len(edges) > 2 else edges  # noqa: PLR2004
        self._ahead = selection
        self._edge = len(edges) - 1 if is_reverse else 0

    @property
    def ahead(self) -> RowSelection:
        """The rows that no window has covered yet."""
        return self._ahead

    def next_window(self, row_count: int = 1) -> RowSelection | None:
        """The rows up to the first edge after `row_count` of them; None if none are left."""
        left = self._ahead
        if not left.selects_any():
            return None
        if len(self._edges) == 2:  # noqa: PLR2004 both ends: most row groups are one window
            self._ahead = RowSelection.none(left.total_rows)
            return left
        edge, before = self._edge, self._before
        if self._is_reverse:
            wanted = before[edge] - max(1, row_count)
            stop = max(0, int(np.searchsorted(before[:edge], wanted, side="right")) - 1)
        else:
            wanted = before[edge] + max(1, row_count)
            stop = min(len(before) - 1, int(np.searchsorted(before, wanted, side="left")))
        self._edge = stop
        total = left.total_rows
        border = int(self._edges[stop])
        rest = (0, border) if self._is_reverse else (border, total)
        if rest[0] >= rest[1]:
            self._ahead = RowSelection.none(total)
            return left
        self._ahead = left.intersection(RowSelection.from_consecutive_ranges([rest], total))
        return left.difference(self._ahead)


def _selected_before(
    selection: RowSelection, edges: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """How many selected rows lie before each edge."""
    starts, stops = selection.to_ranges()
    lengths = stops - starts
    before = np.concatenate([[0], np.cumsum(lengths)])
    run = np.searchsorted(starts, edges, side="right") - 1
    inside = np.clip(edges - starts[run], 0, lengths[run]) if len(starts) else 0
    return np.where(run < 0, 0, before[run] + inside).astype(np.int64)
