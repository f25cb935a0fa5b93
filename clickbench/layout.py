"""Files in one of three layouts, written by pyarrow; Parquet row group by row group.

In: Arrow tables of consecutive rows. Out: a file. Rows are buffered until a row group is full.

`clickbench` is what the public hits.parquet looks like, and so what readers have to cope with:
SNAPPY; V1 pages of about 1 MiB, with no limit of rows, so that a narrow column has one page per
row group; a dictionary until it reaches 1 MiB, then PLAIN; about 442,000 rows per row group, in
uneven multiples of 8192; minima and maxima per row group; neither page index nor bloom filters;
no Arrow schema in the footer.

`tuned` is what we recommend to people who write such files:

- Page index: a reader skips pages, not only row groups. It costs 0.2 % of the file.
- 20,000 rows per page: pages small enough that skipping them pays, large enough that their
  headers do not matter, and of the same rows in every column, so that a filter on one column
  names whole pages of the others.
- No dictionary for texts and times that hardly repeat: it is wasted work; whoever wants one page
  must read a dictionary of the whole row group first; and where one grows too large, the writer
  ends a page early, after which pages no longer cover the same rows as those of other columns.
  For all other columns the limit is 2 MiB, which 262,144 numbers cannot exceed.
- Bloom filters for UserID, URLHash and RefererHash: high-cardinality columns that queries ask
  with `=` and whose minima and maxima say nothing. Not for ids that nothing asks for, nor for
  sorted or low-cardinality columns, where statistics and dictionaries do the same for less. They
  cost 1 % of the file.
- Minima and maxima for every row group and page: the cheapest way to skip.
- ZSTD, level 1: 1.6 times smaller than SNAPPY on this data, and as late reading decodes few
  pages, the slower decoding matters little.
- 262,144 rows per row group: enough row groups to spread over cores and to prune, and large
  enough for dictionaries.
- No sorting columns in the footer: the rows are nearly in order, and that is not in order.

`orc` is not Parquet but ORC; see `orc_layout`.

Invariant: the rows of the file are the rows given, in order, whatever their cut into tables.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from clickbench.orc_layout import OrcLayoutWriter
from clickbench.schema import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator

BATCH_ROWS = 8_192
# Row groups of the clickbench layout, in batches of 8192 rows, one after the other. Their mean
# is 54 batches, 442,368 rows; the first is that of the public hits_0.parquet.
_UNEVEN = (55, 53, 54, 57, 51, 54)
_TUNED_GROUP_ROWS = 262_144
# Columns with a bloom filter, and the distinct values of a row group that it is sized for.
_BLOOM_DISTINCT = {"UserID": 70_000, "URLHash": 90_000, "RefererHash": 90_000}
_HARDLY_REPEATED = {
    "WatchID", "HID", "EventTime", "ClientEventTime", "LocalEventTime",
    "URL", "Title", "Referer", "OriginalURL",
}  # fmt: skip

LAYOUTS = ("clickbench", "tuned", "orc")


def file_suffix(layout: str) -> str:
    """How names of files in a layout end."""
    return ".orc" if layout == "orc" else ".parquet"


def group_sizes(layout: str) -> Iterator[int]:
    """The rows of one row group after the other, without end."""
    number = 0
    while True:
        if layout == "clickbench":
            yield _UNEVEN[number % len(_UNEVEN)] * BATCH_ROWS
        else:
            yield _TUNED_GROUP_ROWS
        number += 1


def writer_options(layout: str) -> dict[str, Any]:
    """Options of `pyarrow.parquet.ParquetWriter` that make a layout.

    Raises:
        ValueError: There is no such layout.
    """
    if layout == "clickbench":
        return {
            "version": "1.0",
            "compression": "snappy",
            "data_page_version": "1.0",
            "data_page_size": 1 << 20,
            "max_rows_per_page": 1 << 30,
            "use_dictionary": True,
            "dictionary_pagesize_limit": 1 << 20,
            "write_statistics": True,
            "write_page_index": False,
            "store_schema": False,
        }
    if layout == "tuned":
        return {
            "version": "2.6",
            "compression": "zstd",
            "compression_level": 1,
            "data_page_version": "1.0",
            "data_page_size": 64 << 20,
            "max_rows_per_page": 20_000,
            "write_batch_size": 1_000,
            "use_dictionary": [n for n in SCHEMA.names if n not in _HARDLY_REPEATED],
            "dictionary_pagesize_limit": 2 << 20,
            "write_statistics": True,
            "write_page_index": True,
            "bloom_filter_options": {
                name: {"ndv": distinct, "fpp": 0.01} for name, distinct in _BLOOM_DISTINCT.items()
            },
            "store_schema": False,
        }
    raise ValueError(f"no layout {layout!r}; there are {', '.join(LAYOUTS)}")


@dataclass
class LayoutWriter:
    """Writes tables to a file in a layout; `close` is called by the end of a `with`."""

    path: str
    layout: str

    def __post_init__(self) -> None:
        self._writer = pq.ParquetWriter(self.path, SCHEMA, **writer_options(self.layout))
        self._sizes = group_sizes(self.layout)
        self._wanted = next(self._sizes)
        self._waiting: list[pa.Table] = []
        self._rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and self._rows:
            self._write(self._rows)
        self._writer.close()

    def write(self, table: pa.Table) -> None:
        """Takes the next rows; writes a row group whenever there are enough."""
        self._waiting.append(table)
        self._rows += table.num_rows
        while self._rows >= self._wanted:
            self._write(self._wanted)
            self._wanted = next(self._sizes)

    def _write(self, rows: int) -> None:
        table = pa.concat_tables(self._waiting)
        # One chunk per column: the writer would start a page at every chunk otherwise.
        group = table.slice(0, rows).combine_chunks()
        self._writer.write_table(group, row_group_size=rows)
        self._waiting = [table.slice(rows)] if rows < table.num_rows else []
        self._rows -= rows


def _open_writer(path: str, layout: str) -> LayoutWriter | OrcLayoutWriter:
    if layout == "orc":
        return OrcLayoutWriter(path, [*_BLOOM_DISTINCT])
    return LayoutWriter(path, layout)


def write_file(tables: Iterator[pa.Table], path: str, layout: str) -> None:
    """Writes all tables to a file, which appears under its name only when it is complete.

    Until then it has a name of its own, so that a task left over from a job that was killed
    cannot get in the way of the one that replaces it.
    """
    waiting = f"{path}.{os.getpid()}-{secrets.token_hex(4)}.writing"
    with _open_writer(waiting, layout) as writer:
        for table in tables:
            writer.write(table)
    os.replace(waiting, path)
