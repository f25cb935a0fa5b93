"""The profile of a Parquet file.

In: facts of a file. Out: its `FileProfile`, and `PageProfile`s of a column.

It reads the footer, and for each column chunk the page index, the header of the dictionary page
and the header of the bloom filter.

Invariant: bounds that pruning cannot use are not shown as bounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lm_datafusion.errors import StorageError
from lm_datafusion.formats.parquet.bloom_filter import parse_bloom_filter_header
from lm_datafusion.formats.parquet.page_header import parse_page_header
from lm_datafusion.formats.parquet.spec import PageType
from lm_datafusion.formats.parquet.statistics import PageStatistics, RowGroupStatistics
from lm_datafusion.formats.parquet.thrift import ThriftError
from lm_datafusion.formats.profile import (
    ChunkProfile,
    ColumnProfile,
    FileProfile,
    PageProfile,
)
from lm_datafusion.pruning.overlap import is_ascending, overlap_share
from lm_datafusion.storage import ByteRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lm_datafusion.formats.parquet.chunk import ChunkFacts
    from lm_datafusion.formats.parquet.footer import FileFacts
    from lm_datafusion.storage import OpenFile

_HEADER_BYTES: Final = 256
_BLOOM_HEADER_BYTES: Final = 64
_LOOKS: Final = 8
_DICTIONARY_NAMES: Final = frozenset({"PLAIN_DICTIONARY", "RLE_DICTIONARY"})
# Encodings that say nothing about values: those of levels and of the dictionary page.
_LEVEL_NAMES: Final = frozenset({"RLE", "BIT_PACKED"})


def load_profile(facts: FileFacts, file: OpenFile) -> FileProfile:
    """Reads the profile of a file.

    Raises:
        UnsupportedFeatureError: It is encrypted.
        StorageError: It cannot be read.
    """
    columns = tuple(_column(facts, leaf, file) for leaf in range(len(facts.elements.leaves)))
    return FileProfile(
        path=facts.version.path,
        size_bytes=facts.version.size_bytes,
        footer_bytes=len(facts.footer),
        created_by=facts.metadata.created_by or "unknown",
        format_version=str(facts.metadata.format_version),
        row_counts=tuple(facts.row_count(index) for index in range(facts.num_row_groups)),
        sorted_by=_sorted_by(facts),
        columns=columns,
    )


def load_pages(facts: FileFacts, column: str, file: OpenFile) -> list[PageProfile]:
    """The data pages of a column; from their headers if there is no page index."""
    leaf = [".".join(leaf.path) for leaf in facts.elements.leaves].index(column)
    pages: list[PageProfile] = []
    for row_group in range(facts.num_row_groups):
        pages += _chunk_pages(facts, row_group, leaf, file)
    return pages


def _sorted_by(facts: FileFacts) -> tuple[str, ...]:
    """The declared sort order, if it is the same in all row groups."""
    names = [".".join(leaf.path) for leaf in facts.elements.leaves]
    orders = {
        tuple(
            names[column.column_index] + (" DESC" if column.descending else "")
            for column in facts.metadata.row_group(index).sorting_columns
            if column.column_index < len(names)
        )
        for index in range(facts.num_row_groups)
    }
    return orders.pop() if len(orders) == 1 else ()


def _column(facts: FileFacts, leaf: int, file: OpenFile) -> ColumnProfile:
    node = facts.elements.leaves[leaf]
    chunks = [facts.chunk(index, leaf) for index in range(facts.num_row_groups)]
    minima, maxima = _row_group_bounds(facts, node.path, len(chunks))
    profiles = tuple(
        _chunk(index, chunk, file, (minima[index].as_py(), maxima[index].as_py()))
        for index, chunk in enumerate(chunks)
    )
    counts = [
        chunk.row_count - (p.null_count or 0) for chunk, p in zip(chunks, profiles, strict=True)
    ]
    return ColumnProfile(
        name=".".join(node.path),
        physical_type=chunks[0].physical_type if chunks else "",
        data_type=_type_name(facts, leaf),
        is_repeated=node.max_repetition_level > 0,
        has_statistics=any(chunk.metadata.is_stats_set for chunk in chunks),
        is_all_null=bool(chunks)
        and all(p.null_count is not None for p in profiles)
        and not any(counts),
        has_page_bounds=_has_page_bounds(facts, leaf, file, profiles),
        chunks=profiles,
        overlap=overlap_share(minima, maxima, counts) if len(chunks) > 1 else None,
        is_ascending=is_ascending(minima, maxima),
    )


def _has_page_bounds(
    facts: FileFacts, leaf: int, file: OpenFile, chunks: Sequence[ChunkProfile]
) -> bool:
    """Whether page bounds of a column can be used, judged by some of its row groups."""
    indexed = [c for c in chunks if c.has_column_index and c.pages is not None]
    some = indexed[:: max(1, len(indexed) // _LOOKS)]
    return any(
        _page_bounds(facts, chunk.row_group, leaf, file, chunk.pages or 0)[0].null_count
        < (chunk.pages or 0)
        for chunk in some
    )


def _row_group_bounds(
    facts: FileFacts, path: tuple[str, ...], count: int
) -> tuple[pa.Array, pa.Array]:
    statistics = RowGroupStatistics(facts, range(count), {})
    try:
        minima, maxima = statistics.min_values(path), statistics.max_values(path)
    except (pa.ArrowException, ValueError, KeyError, OverflowError):
        minima = maxima = None  # corrupt bounds are not used
    if minima is None or maxima is None:
        return pa.nulls(count), pa.nulls(count)
    return minima, maxima


def _type_name(facts: FileFacts, leaf: int) -> str:
    node = facts.elements.leaves[leaf]
    try:
        return str(facts.leaf_type(node.path))
    except (KeyError, AttributeError, TypeError, ValueError):  # inside a list or a map
        logical = str(facts.metadata.schema.column(leaf).logical_type)
        plain = str(facts.metadata.schema.column(leaf).physical_type).lower()
        return plain if logical in ("None", "Undefined") else logical.lower()


def _chunk(
    row_group: int, chunk: ChunkFacts, file: OpenFile, bounds: tuple[object, object]
) -> ChunkProfile:
    tail = chunk.tail
    has_locations = tail is not None and tail.offset_index is not None
    pages = chunk.load_pages(file) if has_locations else None
    return ChunkProfile(
        row_group=row_group,
        offset=chunk.byte_range.offset,
        compressed_bytes=int(chunk.metadata.total_compressed_size),
        uncompressed_bytes=int(chunk.metadata.total_uncompressed_size),
        encodings=_value_encodings(chunk),
        codec=chunk.codec,
        minimum=bounds[0],
        maximum=bounds[1],
        null_count=_null_count(chunk),
        dictionary=_dictionary(chunk),
        distinct=_distinct(chunk, file),
        has_column_index=has_locations and chunk.load_column_index(file) is not None,
        has_offset_index=pages is not None,
        says_column_index=tail is not None and tail.column_index is not None,
        bloom_filter_bytes=_bloom_filter_bytes(chunk, file),
        pages=None if pages is None else len(pages.locations),
    )


def _value_encodings(chunk: ChunkFacts) -> tuple[str, ...]:
    """Encodings of values, without those of the dictionary page (PLAIN) and of levels."""
    dictionary = _dictionary(chunk)
    names = [name for name in chunk.encodings if name not in _LEVEL_NAMES]
    if dictionary == "all":
        names = [name for name in names if name in _DICTIONARY_NAMES]
    return tuple(dict.fromkeys(names)) or tuple(chunk.encodings)


def _dictionary(chunk: ChunkFacts) -> str:
    names = set(chunk.encodings)
    if not names & _DICTIONARY_NAMES:
        return "none"
    is_all = None if chunk.tail is None else chunk.tail.is_all_dictionary
    if is_all is None and names <= {"PLAIN_DICTIONARY", *_LEVEL_NAMES}:
        return "all"
    return "unknown" if is_all is None else "all" if is_all else "part"


def _distinct(chunk: ChunkFacts, file: OpenFile) -> int | None:
    """Values of the dictionary, by the header of its page."""
    if not set(chunk.encodings) & _DICTIONARY_NAMES:
        return None
    stored = chunk.byte_range
    try:
        head = file.fetch_ranges([ByteRange(stored.offset, min(stored.length, _HEADER_BYTES))])[0]
        header = parse_page_header(head)
    except (ThriftError, StorageError, ValueError):
        return None
    return header.num_values if header.kind == PageType.DICTIONARY else None


def _null_count(chunk: ChunkFacts) -> int | None:
    if chunk.leaf.max_definition_level == 0:
        return 0
    statistics = chunk.statistics
    if statistics is None or not statistics.has_null_count:
        return None
    return int(statistics.null_count)


def _bloom_filter_bytes(chunk: ChunkFacts, file: OpenFile) -> int:
    """Bytes of the bitset; 0 without a readable filter."""
    offset = chunk.metadata.bloom_filter_offset
    if not offset:
        return 0
    available = file.version.size_bytes - offset
    try:
        header = ByteRange(offset, min(_BLOOM_HEADER_BYTES, available))
        parsed = parse_bloom_filter_header(file.fetch_ranges([header])[0])
    except (ThriftError, StorageError, ValueError):
        return 0
    return 0 if parsed is None or parsed[0] > available else parsed[0]


def _chunk_pages(facts: FileFacts, row_group: int, leaf: int, file: OpenFile) -> list[PageProfile]:
    chunk = facts.chunk(row_group, leaf)
    table = chunk.load_pages(file)
    if table is None:
        return []
    locations = table.locations
    row_counts = np.diff(np.append(locations.first_rows, chunk.row_count))
    minima, maxima = _page_bounds(facts, row_group, leaf, file, len(locations))
    return [
        PageProfile(
            row_group=row_group,
            page=index,
            first_row=int(locations.first_rows[index]),
            row_count=int(row_counts[index]),
            length_bytes=int(locations.sizes[index]),
            minimum=minima[index].as_py(),
            maximum=maxima[index].as_py(),
        )
        for index in range(len(locations))
    ]


def _page_bounds(
    facts: FileFacts, row_group: int, leaf: int, file: OpenFile, count: int
) -> tuple[pa.Array, pa.Array]:
    path = facts.elements.leaves[leaf].path
    nothing = pa.nulls(count), pa.nulls(count)
    try:
        statistics = PageStatistics(facts, row_group, [path], file, {})
        minima, maxima = statistics.min_values(path), statistics.max_values(path)
    except (pa.ArrowException, ValueError, KeyError, OverflowError):
        return nothing
    if minima is None or maxima is None or len(minima) != count:
        return nothing
    return minima, maxima
