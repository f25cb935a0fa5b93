"""Windows: the ranges of rows a row group is scanned in.

In: a row group and the columns in play. Out: `(start, stop)` pairs that cover its rows.

Memory is bounded by windows, not by row groups: a window ends at a page of the widest column
once the pages before it decode to `window_bytes`. Most row groups are one window.

Dictionary-coded text decodes to far more than its stored size, which the footer does not tell;
so a window also has at most `WINDOW_ROWS` rows.

Invariant: windows follow one another without gaps.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lm_datafusion.formats.parquet.chunk import ChunkFacts
    from lm_datafusion.storage import OpenFile

WINDOW_ROWS = 1 << 19


def plan_windows(
    row_count: int, chunks: Sequence[ChunkFacts], file: OpenFile, *, window_bytes: int
) -> list[tuple[int, int]]:
    """Splits a row group into windows."""
    if row_count == 0:
        return []
    widest = max(chunks, key=lambda chunk: chunk.metadata.total_uncompressed_size, default=None)
    size = 0 if widest is None else widest.metadata.total_uncompressed_size
    count = max(-(-size // window_bytes), -(-row_count // WINDOW_ROWS))
    if count <= 1 or widest is None:
        return [(0, row_count)]
    table = widest.load_pages(file)
    even = np.linspace(0, row_count, count + 1)[1:-1].astype(np.int64)
    if table is None:
        borders = even
    else:
        # The page that begins at or before each even border.
        first_rows = table.locations.first_rows
        borders = first_rows[np.searchsorted(first_rows, even, side="right") - 1]
    edges = [0, *(int(row) for row in np.unique(borders) if 0 < row < row_count), row_count]
    return list(itertools.pairwise(edges))
