"""Reads selected rows of a row group, some of them at a time.

In: facts, a row group, columns, and a selection of its rows. Out: record batches of those rows, in
order and in the types of the file; and the byte ranges that they take.

Invariant: the batches hold the selected rows, no more and no fewer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lm_datafusion.formats.parquet.decode import FileColumn
from lm_datafusion.metrics import ScanMetrics
from lm_datafusion.storage import ByteRange

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lm_datafusion.formats.parquet.chunk import ChunkFacts
    from lm_datafusion.formats.parquet.footer import FileFacts
    from lm_datafusion.selection import RowSelection
    from lm_datafusion.storage import OpenFile

# Rows that are decoded at a time: memory grows with it.
BATCH_ROWS = 1 << 17


def read_rows(
    facts: FileFacts,
    row_group: int,
    columns: Sequence[int],
    rows: RowSelection,
    file: OpenFile,
) -> Iterator[pa.RecordBatch]:
    """The selected rows of a row group.

    Args:
        facts: Of the file.
        row_group: That has the rows.
        columns: Top-level columns; at least one.
        rows: Over all rows of the row group.
        file: Where the bytes come from.

    Raises:
        CorruptFileError: Pages cannot be decoded.
        UnsupportedFeatureError: A column is encrypted.
    """
    metrics = ScanMetrics()
    decoders = [
        FileColumn(facts, column, facts.column_type(column), (file, file), metrics).open(
            [row_group]
        )
        for column in columns
    ]
    schema = pa.schema([facts.schema.field(column) for column in columns], facts.schema.metadata)
    while rows.selects_any():
        part = rows.limit(BATCH_ROWS)
        rows = rows.offset(BATCH_ROWS)
        values = [decoder.read(part) for decoder in decoders]
        yield from pa.Table.from_arrays(values, schema=schema).to_batches()


def plan_row_ranges(
    facts: FileFacts,
    row_group: int,
    columns: Sequence[int],
    rows: RowSelection,
    file: OpenFile,
) -> list[ByteRange]:
    """The byte ranges of the pages that hold rows, with dictionary pages; not coalesced."""
    if not rows.selects_any():
        return []
    chunks = [chunk for column in columns for chunk in facts.chunks_of(row_group, column)]
    return [wanted for chunk in chunks for wanted in _chunk_ranges(chunk, rows, file)]


def _chunk_ranges(chunk: ChunkFacts, rows: RowSelection, file: OpenFile) -> list[ByteRange]:
    table = chunk.load_pages(file)
    if table is None or not len(table.locations):
        return [chunk.byte_range]
    locations = table.locations
    start = chunk.byte_range.offset
    pages = np.flatnonzero(rows.page_mask(locations.first_rows)).tolist()
    head = ByteRange(start, int(locations.offsets[0]) - start)
    wanted = [ByteRange(int(locations.offsets[n]), int(locations.sizes[n])) for n in pages]
    return [head, *wanted] if head.length > 0 else wanted
