"""Footer fields of a column chunk that pyarrow does not expose.

They say where the page index is, which encodings were used, and how many values are NaN.

In: a footer's bytes and a chunk's sizes and offset, which pyarrow has parsed. Out: `ChunkTail`.

Thrift can only be read from the front, and a footer of a hundred columns and dozens of row
groups takes tens of milliseconds in Python. But every chunk's metadata has four adjacent integers
that pyarrow knows (number of values, two sizes, offset of the first data page), and the offset is
unique in the file. So:

1. encode the four and find them in the footer: reading can start after them;
2. read the rest of `ColumnMetaData`, then the rest of `ColumnChunk`, as separate structs (field ids
   count from the last one before that position);
3. if the four are not found (a writer with another layout), read the whole footer once.

Invariant: a tail is not trusted alone: callers check an offset index against the chunk's own
offsets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lm_datafusion.formats.parquet.spec import DICTIONARY_ENCODINGS, PageType
from lm_datafusion.formats.parquet.thrift import Fields, Kind, read_struct, write_struct
from lm_datafusion.storage import ByteRange

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_DATA_PAGES = frozenset({PageType.DATA_V1, PageType.DATA_V2})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkTail:
    """Where a chunk's indexes are, and whether its data pages are all dictionary-encoded.

    `is_all_dictionary` is None if the writer does not say. `bound_lengths` are the lengths in
    bytes of all minima and maxima of the chunk's statistics. `nan_count` is None if the writer does
    not give it; if it does, `plain_bounds` are minimum and maximum.
    """

    offset_index: ByteRange | None
    column_index: ByteRange | None
    is_all_dictionary: bool | None
    is_encrypted: bool
    bound_lengths: frozenset[int] = frozenset()
    nan_count: int | None = None
    plain_bounds: tuple[bytes, bytes] | None = None


def find_chunk_tail(
    footer: bytes, chunk: pq.ColumnChunkMetaData, start: int
) -> tuple[ChunkTail, int] | None:
    """Finds a chunk in the footer.

    Args:
        footer: The bytes of `FileMetaData`.
        chunk: The chunk as pyarrow parsed it.
        start: Where to begin the search; chunks are in order.

    Returns:
        The tail and where it ends, or None if the chunk is not found.
    """
    mark = _mark(chunk)
    position = footer.find(mark, start)
    if position < 0 and start:
        position = footer.find(mark)
    if position < 0:
        return None
    metadata, position = read_struct(footer, position + len(mark))
    column_chunk, position = read_struct(footer, position)
    # ColumnMetaData went on after field 9, ColumnChunk after field 3.
    metadata = {key + 9: value for key, value in metadata.items()}
    return _tail(metadata, {key + 3: v for key, v in column_chunk.items()}), position


def parse_chunk_tails(footer: bytes) -> list[list[ChunkTail]]:
    """The tails of all chunks, by row group and leaf: the slow way."""
    fields, _ = read_struct(footer)
    return [
        [_tail(chunk.get(3, {}), chunk) for chunk in row_group.get(1, [])]
        for row_group in fields.get(4, [])
    ]


def _mark(chunk: pq.ColumnChunkMetaData) -> bytes:
    """Fields 5, 6, 7 and 9 of `ColumnMetaData`, as encoded in the file."""
    encoded = write_struct(
        [
            (1, Kind.I64, chunk.num_values),
            (2, Kind.I64, chunk.total_uncompressed_size),
            (3, Kind.I64, chunk.total_compressed_size),
            (5, Kind.I64, chunk.data_page_offset),
        ]
    )
    return encoded[:-1]


def _tail(metadata: Fields, column_chunk: Fields) -> ChunkTail:
    """The tail from fields of `ColumnMetaData` and `ColumnChunk`, by the specification's ids."""
    statistics: Fields = metadata.get(12, {})
    nan_count = statistics.get(9)
    has_nan_count = type(nan_count) is int
    return ChunkTail(
        offset_index=_range(column_chunk.get(4), column_chunk.get(5)),
        column_index=_range(column_chunk.get(6), column_chunk.get(7)),
        is_all_dictionary=_all_dictionary(metadata.get(13)),
        is_encrypted=8 in column_chunk or 9 in column_chunk,
        bound_lengths=_bound_lengths(statistics),
        nan_count=nan_count if has_nan_count else None,
        plain_bounds=_plain_bounds(statistics) if has_nan_count else None,
    )


def _bound_lengths(statistics: Fields) -> frozenset[int]:
    """The lengths of max, min, max_value and min_value of `Statistics`."""
    bounds = [statistics.get(field_id) for field_id in (1, 2, 5, 6)]
    return frozenset(len(bound) for bound in bounds if bound is not None)


def _plain_bounds(statistics: Fields) -> tuple[bytes, bytes] | None:
    """The min_value and max_value of `Statistics`, if both are present."""
    lower, upper = statistics.get(6), statistics.get(5)
    if isinstance(lower, bytes) and isinstance(upper, bytes):
        return lower, upper
    return None


def _range(offset: object, length: object) -> ByteRange | None:
    """The byte range given by two fields of a footer, if they are valid numbers."""
    if isinstance(offset, int) and isinstance(length, int) and offset > 0 and length > 0:
        return ByteRange(offset, length)
    return None


def _all_dictionary(encoding_stats: list[Fields] | None) -> bool | None:
    """Whether every data page is dictionary-encoded; None if the writer does not say."""
    if not encoding_stats:
        return None
    used = [s.get(2) for s in encoding_stats if s.get(1) in _DATA_PAGES and s.get(3)]
    return all(encoding in DICTIONARY_ENCODINGS for encoding in used) if used else None
