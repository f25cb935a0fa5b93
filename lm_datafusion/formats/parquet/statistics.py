"""Parquet's statistics as `PruningStatistics`.

In: file facts, and the constants a file has for columns it does not store. Out: bounds and null
counts of row groups and of page ranges, and what bloom filters rule out.

Page ranges: columns have different page boundaries. The boundaries of all requested columns are
merged; each range then lies in exactly one page of each column, and has its bounds.

Traps: pyarrow omits row group bounds that it knows to be wrong (strings in signed order, old
writers). A column index of text, bytes or unsigned numbers has the same trap and no such check, so
it is used only if pyarrow returns the bounds of the row group.

NaN: pyarrow exposes neither the writer's NaN count nor bounds in IEEE 754's total order, in which
minimum and maximum are numbers, or NaN if there are none. Both are read from the footer. A count
that does not fit the number of values or the bounds is not used.

Contradictions: statistics that contradict each other are not used: a minimum above its maximum,
more nulls than values, bounds without values, a chunk of another length than its row group, pages
whose nulls do not add up to those of the chunk or whose bounds exceed its bounds.

Invariant: unknown is null, or `UNKNOWN_COUNT`; see `pruning.statistics`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from lm_datafusion.formats.parquet.bounds import (
    consistent_bounds,
    decode_plain_bounds,
    decode_raw_bounds,
    float_bound,
    has_bounds,
    is_outside,
    plain_bytes,
)
from lm_datafusion.predicate.kinds import is_text_or_bytes
from lm_datafusion.pruning.statistics import (
    UNKNOWN_COUNT,
    ConstantStatistics,
    UnknownStatistics,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt
    import pyarrow.parquet as pq

    from lm_datafusion.formats.parquet.chunk import ChunkFacts
    from lm_datafusion.formats.parquet.footer import FileFacts
    from lm_datafusion.storage import OpenFile

    ColumnPath = tuple[str, ...]


class _Bounds(NamedTuple):
    """Minima and maxima of containers; None if none is known."""

    lower: pa.Array | None = None
    upper: pa.Array | None = None

    @property
    def nbytes(self) -> int:
        """Their size."""
        return sum(array.nbytes for array in self if array is not None)


class RowGroupStatistics(ConstantStatistics):
    """The row groups of a file."""

    def __init__(
        self, facts: FileFacts, row_groups: Sequence[int], constants: Mapping[str, pa.Scalar]
    ) -> None:
        self._is_whole = len(row_groups) == facts.num_row_groups
        counts = facts.row_counts if self._is_whole else facts.row_counts[list(row_groups)]
        super().__init__(counts, constants)
        self._facts = facts
        self._row_groups = row_groups

    def min_values(self, column: ColumnPath) -> pa.Array | None:
        """Row-group minima."""
        if column[0] in self._constants:
            return super().min_values(column)
        return self._chosen(self._bounds(column).lower)

    def max_values(self, column: ColumnPath) -> pa.Array | None:
        """Row-group maxima."""
        if column[0] in self._constants:
            return super().max_values(column)
        return self._chosen(self._bounds(column).upper)

    def null_counts(self, column: ColumnPath) -> npt.NDArray[np.int64] | None:
        """Row-group null counts."""
        if column[0] in self._constants:
            return super().null_counts(column)
        counts = self._facts.remember(("null_count", column), lambda: self._all_nulls(column))
        return counts if counts is None or self._is_whole else counts[list(self._row_groups)]

    def nan_counts(self, column: ColumnPath) -> npt.NDArray[np.int64] | None:
        """Row-group NaN counts."""
        if column[0] in self._constants:
            return super().nan_counts(column)
        counts = self._facts.remember(("nan_count", column), lambda: self._all_nans(column))
        return counts if counts is None or self._is_whole else counts[list(self._row_groups)]

    def _bounds(self, column: ColumnPath) -> _Bounds:
        return self._facts.remember(("bounds", column), lambda: self._all_bounds(column))

    def _chosen(self, bounds: pa.Array | None) -> pa.Array | None:
        return bounds if bounds is None or self._is_whole else bounds.take(self._row_groups)

    # For all row groups, cached in the facts: a table is often queried by the same columns.

    def _all_nulls(self, column: ColumnPath) -> npt.NDArray[np.int64] | None:
        chunks = self._all_chunks(column)
        if chunks is None:
            return None
        return np.array([_null_count(chunk) for chunk in chunks], dtype=np.int64)

    def _all_nans(self, column: ColumnPath) -> npt.NDArray[np.int64] | None:
        chunks = self._all_chunks(column)
        if not chunks or not pa.types.is_floating(self._facts.leaf_type(column)):
            return None
        counts = np.array([_nan_count(chunk) for chunk in chunks], dtype=np.int64)
        return counts if (counts != UNKNOWN_COUNT).any() else None

    def _all_bounds(self, column: ColumnPath) -> _Bounds:
        chunks = self._all_chunks(column)
        if not chunks:
            return _Bounds()
        data_type = self._facts.leaf_type(column)
        physical_type = chunks[0].physical_type
        if not has_bounds(physical_type, logical_type(self._facts, column), data_type):
            return _Bounds()
        is_total = pa.types.is_floating(data_type) and self._has_total_order(column, chunks)
        raw = map(_total_order_bounds if is_total else _raw_bounds, chunks)
        return _decoded(list(raw), physical_type, data_type)

    def _has_total_order(self, column: ColumnPath, chunks: Sequence[ChunkFacts]) -> bool:
        """Whether the writer counted NaN and used the total order."""
        if all(chunk.tail is None or chunk.tail.plain_bounds is None for chunk in chunks):
            return False
        leaf = self._facts.leaf_index(column)
        return leaf is not None and self._facts.has_total_order(leaf)

    def _all_chunks(self, column: ColumnPath) -> list[ChunkFacts] | None:
        leaf = self._facts.leaf_index(column)
        if leaf is None:
            return None
        return [self._facts.chunk(index, leaf) for index in range(self._facts.num_row_groups)]


class PageStatistics(ConstantStatistics):
    """Page ranges of one row group, over the merged page boundaries of some columns.

    `starts` holds the first row of each range.
    """

    def __init__(
        self,
        facts: FileFacts,
        row_group: int,
        columns: Iterable[ColumnPath],
        file: OpenFile,
        constants: Mapping[str, pa.Scalar],
    ) -> None:
        self._facts = facts
        self._file = file
        self._chunks = {
            column: facts.chunk(row_group, leaf)
            for column in columns
            if column[0] not in constants and (leaf := facts.leaf_index(column)) is not None
        }
        self._first_rows = {
            column: table.locations.first_rows
            for column, chunk in self._chunks.items()
            if chunk.load_column_index(file) is not None
            and (table := chunk.load_pages(file)) is not None
        }
        self._found: dict[ColumnPath, _Bounds] = {}
        rows = facts.row_count(row_group)
        self.starts = np.unique(
            np.concatenate([np.zeros(1, dtype=np.int64), *self._first_rows.values()])
        )
        super().__init__(np.diff(np.append(self.starts, rows)), constants)

    @property
    def has_pages(self) -> bool:
        """Whether any column has a usable page index."""
        return bool(self._first_rows)

    def min_values(self, column: ColumnPath) -> pa.Array | None:
        """Page minima, per range."""
        if column[0] in self._constants:
            return super().min_values(column)
        return self._bounds_once(column).lower

    def max_values(self, column: ColumnPath) -> pa.Array | None:
        """Page maxima, per range."""
        if column[0] in self._constants:
            return super().max_values(column)
        return self._bounds_once(column).upper

    def null_counts(self, column: ColumnPath) -> npt.NDArray[np.int64] | None:
        """Zero, all rows or unknown: a range may be part of a page."""
        if column[0] in self._constants:
            return super().null_counts(column)
        if column not in self._first_rows:
            return None
        chunk = self._chunks[column]
        index = chunk.load_column_index(self._file)
        if index is None:
            return None
        pages = self._pages_of_ranges(column)
        counts = np.full(len(index.null_pages), UNKNOWN_COUNT, dtype=np.int64)
        if index.null_counts is not None:
            adds_up = _null_count(chunk) in (UNKNOWN_COUNT, index.null_counts.sum())
            counts[(index.null_counts == 0) & adds_up] = 0
        if chunk.leaf.max_definition_level == 0:
            counts[:] = 0
        result = counts[pages]
        all_null = index.null_pages[pages]
        result[all_null] = self._row_counts[all_null]
        return result

    def nan_counts(self, column: ColumnPath) -> npt.NDArray[np.int64] | None:
        """Zero if the whole chunk has no NaN; unknown otherwise."""
        chunk = self._chunks.get(column)
        is_float = chunk is not None and pa.types.is_floating(self._facts.leaf_type(column))
        if chunk is None or not is_float or _nan_count(chunk) != 0:
            return None
        return np.zeros(self.num_containers, np.int64)

    def _pages_of_ranges(self, column: ColumnPath) -> npt.NDArray[np.int64]:
        first_rows = self._first_rows[column]
        return np.searchsorted(first_rows, self.starts, side="right") - 1

    def _bounds_once(self, column: ColumnPath) -> _Bounds:
        if column not in self._found:
            self._found[column] = self._bounds(column)
        return self._found[column]

    def _bounds(self, column: ColumnPath) -> _Bounds:
        if column not in self._first_rows:
            return _Bounds()
        chunk = self._chunks[column]
        data_type = self._facts.leaf_type(column)
        index = chunk.load_column_index(self._file)
        logical = logical_type(self._facts, column)
        if index is None or not has_bounds(chunk.physical_type, logical, data_type):
            return _Bounds()
        raw = _raw_bounds(chunk)
        if _needs_unsigned_order(data_type) and raw[0] is None:
            return _Bounds()
        lower, upper = consistent_bounds(
            *(
                decode_plain_bounds(values, index.null_pages, chunk.physical_type, data_type)
                for values in (index.min_values, index.max_values)
            )
        )
        whole = _decoded([raw], chunk.physical_type, data_type)
        if is_outside(lower, upper, whole):
            return _Bounds()
        pages = pa.array(self._pages_of_ranges(column))
        return _Bounds(lower.take(pages), upper.take(pages))


class BloomFilterStatistics(UnknownStatistics):
    """One row group, by the bloom filters of its columns."""

    def __init__(
        self,
        facts: FileFacts,
        row_group: int,
        file: OpenFile,
        constants: Mapping[str, pa.Scalar],
    ) -> None:
        super().__init__(np.array([facts.row_count(row_group)], dtype=np.int64))
        self.starts = np.zeros(1, np.int64)
        self._facts = facts
        self._row_group = row_group
        self._file = file
        self._constants = constants

    def has_filter(self, column: ColumnPath) -> bool:
        """Whether the column has a bloom filter in this row group."""
        chunk = self._chunk(column)
        return chunk is not None and bool(chunk.metadata.bloom_filter_offset)

    def _chunk(self, column: ColumnPath) -> ChunkFacts | None:
        leaf = None if column[0] in self._constants else self._facts.leaf_index(column)
        return None if leaf is None else self._facts.chunk(self._row_group, leaf)

    def may_contain(self, column: ColumnPath, values: pa.Array) -> npt.NDArray[np.bool_] | None:
        """Whether the bloom filter may contain any of the values."""
        chunk = self._chunk(column)
        if chunk is None or not chunk.metadata.bloom_filter_offset:
            return None
        data_type = self._facts.leaf_type(column)
        hashed = [plain_bytes(value, chunk.physical_type, data_type) for value in values]
        if any(value is None for value in hashed):
            return None
        bloom_filter = chunk.load_bloom_filter(self._file)
        if bloom_filter is None:
            return None
        found = bloom_filter.might_contain_any(value for value in hashed if value is not None)
        return np.array([found])


def logical_type(facts: FileFacts, column: ColumnPath) -> str:
    """A leaf's logical type, as printed by pyarrow."""
    leaf = facts.leaf_index(column)
    return "" if leaf is None else str(facts.metadata.schema.column(leaf).logical_type)


def _decoded(raw: Sequence[tuple[Any, Any]], physical_type: str, data_type: pa.DataType) -> _Bounds:
    lower, upper = zip(*raw, strict=True)
    return _Bounds(
        *consistent_bounds(
            decode_raw_bounds(lower, physical_type, data_type),
            decode_raw_bounds(upper, physical_type, data_type),
        )
    )


def _raw_bounds(chunk: ChunkFacts) -> tuple[Any, Any]:
    """Minimum and maximum as stored, if pyarrow returns them."""
    statistics = chunk.statistics
    if statistics is None or not statistics.has_min_max or _is_contradictory(chunk, statistics):
        return None, None
    return statistics.min_raw, statistics.max_raw


def _total_order_bounds(chunk: ChunkFacts) -> tuple[Any, Any]:
    """As `_raw_bounds`, for a chunk whose bounds pyarrow does not expose."""
    tail = chunk.tail
    if tail is None or tail.plain_bounds is None or chunk.statistics is None:
        return None, None
    lower, upper = (_float_bound(chunk, bound) for bound in tail.plain_bounds)
    return lower, upper


def _float_bound(chunk: ChunkFacts, bound: bytes) -> Any:
    number = float_bound(bound, chunk.physical_type)
    if number is None:
        return None
    return bound if chunk.physical_type == "FIXED_LEN_BYTE_ARRAY" else number


def _nan_count(chunk: ChunkFacts) -> int:
    """The number of NaN in a chunk of floats, if the footer's count is plausible."""
    tail = chunk.tail
    if tail is None or tail.nan_count is None:
        return UNKNOWN_COUNT
    values = int(chunk.metadata.num_values) - max(_null_count(chunk), 0)
    if not 0 <= tail.nan_count <= values:
        return UNKNOWN_COUNT
    numbers = [float_bound(bound, chunk.physical_type) for bound in tail.plain_bounds or ()]
    if tail.nan_count == 0 and any(number is None or math.isnan(number) for number in numbers):
        return UNKNOWN_COUNT
    return tail.nan_count


def _null_count(chunk: ChunkFacts) -> int:
    if chunk.leaf.max_definition_level == 0:
        return 0
    statistics = chunk.statistics
    if statistics is None or not statistics.has_null_count or _is_contradictory(chunk, statistics):
        return UNKNOWN_COUNT
    return int(statistics.null_count)


def _is_contradictory(chunk: ChunkFacts, statistics: pq.Statistics) -> bool:
    """Whether the counts of a chunk contradict each other or its bounds."""
    count = int(chunk.metadata.num_values)
    if not statistics.has_null_count:
        return False
    nulls = int(statistics.null_count)
    return not 0 <= nulls <= count or (nulls == count > 0 and bool(statistics.has_min_max))


def _needs_unsigned_order(data_type: pa.DataType) -> bool:
    types = pa.types
    return (
        is_text_or_bytes(data_type)
        or types.is_fixed_size_binary(data_type)
        or types.is_decimal(data_type)
        or types.is_unsigned_integer(data_type)
    )
