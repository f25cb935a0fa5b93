"""The cost of decompressing the pages of some columns, and of nothing else.

In: Parquet files, and names of columns. Out: a contender for `bench_kernels`, with the methods of
`clickbench.engines.Engine` that it calls.

Page boundaries are parsed when the files are opened. A run then reads every column chunk with one
`pread` and decompresses its pages with `pyarrow.Codec`, dictionary pages included. No page is
pruned, no value is decoded, each decompressed page is dropped at once. `pyarrow.Codec` releases
the GIL, and chunks are spread over a pool of threads.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import sqlglot
from sqlglot import exp

from lm_datafusion.formats.parquet.page_header import walk_page_headers
from lm_datafusion.sql.dialect import DataFusion

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lm_datafusion.formats.parquet.page_header import PageHeader


class Page(NamedTuple):
    """Where the compressed part of a page lies in its chunk, and how long it becomes."""

    offset: int
    compressed_bytes: int
    uncompressed_bytes: int


@dataclass(frozen=True)
class Chunk:
    """A column chunk: an open file, a range of it, and its pages."""

    handle: int
    start: int
    num_bytes: int
    codec: str
    pages: list[Page]


class Decompress:
    """Decompresses all pages of some columns."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._columns = columns
        self._chunks: list[Chunk] = []
        self._pool: ThreadPoolExecutor | None = None

    def open(self, files: Sequence[str], threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads)
        self._chunks = [chunk for name in files for chunk in chunks_of(name, self._columns)]

    def run(self, sql: str) -> int:
        """Bytes after decompression. The query is not looked at: its columns are known."""
        assert self._pool is not None, "not open"
        return sum(self._pool.map(decompress, self._chunks))


def filter_columns(sql: str) -> tuple[str, ...]:
    """The columns that a query's WHERE clauses read, each once."""
    tree = sqlglot.parse_one(sql, dialect=DataFusion)
    found = (column for where in tree.find_all(exp.Where) for column in where.find_all(exp.Column))
    return tuple(sorted({column.name for column in found}))


def chunks_of(name: str, columns: tuple[str, ...]) -> Iterator[Chunk]:
    """The chunks of some columns of a file. The file stays open as long as the process."""
    metadata = pq.read_metadata(name)
    handle = os.open(name, os.O_RDONLY)
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for index in range(metadata.num_columns):
            column = row_group.column(index)
            if column.path_in_schema not in columns:
                continue
            # A file may say 0 where it means that there is no dictionary page.
            start = column.dictionary_page_offset or column.data_page_offset
            data = os.pread(handle, column.total_compressed_size, start)
            pages = [page_of(*found) for found in walk_page_headers(data)]
            yield Chunk(handle, start, len(data), column.compression.lower(), pages)


def page_of(offset: int, header: PageHeader) -> Page:
    """The levels of a V2 page are not compressed: they are left out."""
    levels = (header.definition_levels_bytes or 0) + (header.repetition_levels_bytes or 0)
    return Page(
        offset + header.header_bytes + levels,
        header.compressed_size - levels if header.is_compressed else 0,
        header.uncompressed_size - levels,
    )


def decompress(chunk: Chunk) -> int:
    """Reads a chunk and decompresses its pages; their bytes."""
    data = pa.py_buffer(os.pread(chunk.handle, chunk.num_bytes, chunk.start))
    if chunk.codec == "uncompressed":
        return data.size
    codec = pa.Codec(chunk.codec)
    total = 0
    for offset, compressed_bytes, uncompressed_bytes in chunk.pages:
        if compressed_bytes:
            page = data.slice(offset, compressed_bytes)
            total += codec.decompress(page, decompressed_size=uncompressed_bytes).size
    return total
