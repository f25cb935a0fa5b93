"""Measurements of a folder of `hits` files: counts and groups by DataFusion, order by numpy.

In: the folder. Out: numbers. Distinct values are counted by HyperLogLog (2 % of error), which
needs no memory to speak of; groups spill to disk beyond 1.5 GB.
"""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from clickbench.schema import SORT_COLUMNS
from lm_datafusion.forks import cached_property

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from datafusion import SessionContext

    from clickbench.model.noise import Flags

_MEMORY_BYTES = 3 << 29
_BATCH_ROWS = 262_144


def find_files(folder: str) -> list[str]:
    """The Parquet files of a folder, in the order of their rows.

    Raises:
        FileNotFoundError: There are none.
    """
    files = sorted(glob.glob(os.path.join(glob.escape(folder), "*.parquet")))
    if not files:
        raise FileNotFoundError(f"{folder} has no Parquet files")
    return files


@dataclass(frozen=True)
class OrderFacts:
    """How rows follow each other."""

    falls: int  # rows that are less than the one before, by the sort columns
    search_runs: int  # stretches of rows with a search phrase
    mobile_runs: int


class Measure:
    """Numbers about the files of one folder."""

    def __init__(self, folder: str) -> None:
        self.files = find_files(folder)
        self._folder = folder

    @cached_property
    def _context(self) -> SessionContext:
        from datafusion import RuntimeEnvBuilder, SessionContext

        runtime = RuntimeEnvBuilder().with_disk_manager_os().with_fair_spill_pool(_MEMORY_BYTES)
        context = SessionContext(runtime=runtime)
        context.register_parquet("hits", self._folder)
        return context

    @cached_property
    def rows(self) -> int:
        """Rows of all files, by their footers."""
        return sum(metadata.num_rows for metadata in self.footers)

    @cached_property
    def footers(self) -> list[pq.FileMetaData]:
        """The footers, in the order of the files."""
        return [pq.read_metadata(path) for path in self.files]

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of an answer."""
        table = pa.Table.from_batches(
            batches := self._context.sql(sql).collect(),
            schema=batches[0].schema if batches else pa.schema([]),
        )
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def counts(self, conditions: Sequence[str]) -> list[int]:
        """Rows that each condition keeps, all in one scan."""
        parts = [f"count(*) FILTER (WHERE {sql})" for sql in conditions]
        named = ", ".join(f"{part} AS c{number}" for number, part in enumerate(parts))
        return [int(value) for value in self.query(f"SELECT {named} FROM hits")[0]]

    def distinct(self, columns: Sequence[str]) -> dict[str, int]:
        """Distinct values of columns, about."""
        parts = [f'approx_distinct("{name}") AS c{number}' for number, name in enumerate(columns)]
        values = self.query(f"SELECT {', '.join(parts)} FROM hits")[0]
        return dict(zip(columns, map(int, values), strict=True))

    def groups(
        self, key: str, values: Sequence[Any], measures: Sequence[str], where: str = "true"
    ) -> dict[Any, tuple[Any, ...]]:
        """Measures of the rows of each of these values of a key."""
        named = ", ".join(f"{measure} AS m{number}" for number, measure in enumerate(measures))
        sql = (
            f"SELECT {key} AS k, {named} FROM hits "
            f"WHERE ({where}) AND {key} IN ({_literals(values)}) GROUP BY k"
        )
        return {row[0]: row[1:] for row in self.query(sql)}

    def most_of_others(self, key: str, values: Sequence[Any], where: str = "true") -> int:
        """Rows of the most frequent value that is none of these."""
        sql = (
            f"SELECT max(m) FROM (SELECT {key} AS k, count(*) AS m FROM hits "
            f"WHERE ({where}) AND {key} NOT IN ({_literals(values)}) GROUP BY k)"
        )
        return int(self.query(sql)[0][0] or 0)

    def order(self) -> OrderFacts:
        """One pass over the files, in order."""
        falls = search_runs = mobile_runs = 0
        last: list[np.ndarray[Any, Any]] = []
        was_search = was_mobile = False
        for batch in self._batches([*SORT_COLUMNS, "SearchPhrase", "MobilePhoneModel"]):
            keys = [batch[name].to_numpy() for name in SORT_COLUMNS]
            if last:
                keys = [np.concatenate([a, b]) for a, b in zip(last, keys, strict=True)]
            falls += int(_falls(keys).sum())
            last = [key[-1:] for key in keys]
            search, mobile = _filled(batch["SearchPhrase"]), _filled(batch["MobilePhoneModel"])
            search_runs += _begins(search, was_search)
            mobile_runs += _begins(mobile, was_mobile)
            was_search, was_mobile = bool(search[-1]), bool(mobile[-1])
        return OrderFacts(falls, search_runs, mobile_runs)

    def _batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        for path in self.files:
            with pq.ParquetFile(path) as file:
                yield from file.iter_batches(_BATCH_ROWS, columns=columns)

    def row_groups_left(self, column: str, low: int, high: int) -> tuple[int, int]:
        """Row groups whose minima and maxima allow values in [low, high], and all of them."""
        left = total = 0
        for metadata in self.footers:
            index = metadata.schema.to_arrow_schema().get_field_index(column)
            for group in range(metadata.num_row_groups):
                statistics = metadata.row_group(group).column(index).statistics
                total += 1
                left += statistics.min <= high and statistics.max >= low
        return left, total

    def column_bytes(self) -> dict[str, int]:
        """Compressed bytes by column."""
        found: dict[str, int] = {}
        for metadata in self.footers:
            for group in range(metadata.num_row_groups):
                for index in range(metadata.num_columns):
                    chunk = metadata.row_group(group).column(index)
                    name = chunk.path_in_schema
                    found[name] = found.get(name, 0) + chunk.total_compressed_size
        return found


def _literals(values: Sequence[Any]) -> str:
    quoted = [
        f"'{v.replace(chr(39), chr(39) * 2)}'" if isinstance(v, str) else str(v) for v in values
    ]
    return ", ".join(quoted)


def _falls(keys: list[np.ndarray[Any, Any]]) -> Flags:
    """Where a row is less than the one before it, comparing key after key."""
    less = np.zeros(len(keys[0]) - 1, dtype=np.bool_)
    equal = np.ones(len(keys[0]) - 1, dtype=np.bool_)
    for key in keys:
        less |= equal & (key[1:] < key[:-1])
        equal &= key[1:] == key[:-1]
    return less


def _filled(column: pa.Array) -> Flags:
    offsets = np.frombuffer(column.buffers()[1], dtype=np.int32)
    return np.diff(offsets[column.offset : column.offset + len(column) + 1]) > 0


def _begins(flags: Flags, before: bool) -> int:  # noqa: FBT001
    return int((flags & ~np.concatenate([[before], flags[:-1]])).sum())
