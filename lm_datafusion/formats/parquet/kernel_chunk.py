"""Prepares column chunks for the compiled kernels.

In: the facts of a column chunk, and the rows wanted. Out: the arguments of a `ChunkReader`, which
plans, fetches and decodes pages in one call.

Invariant: a chunk that kernels do not support has no `ChunkPages`; PyArrow decodes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from lm_datafusion.formats.parquet.codecs import make_decompressor
from lm_datafusion.formats.parquet.spec import PYARROW_CODECS
from lm_datafusion.kernels.columns import (
    BooleanBuilder,
    ChunkPages,
    FixedBuilder,
    TextBuilder,
    ValueKind,
    rows_of_mask,
    rows_of_ranges,
)
from lm_datafusion.predicate.kinds import is_text, is_text_or_bytes
from lm_datafusion.storage import ByteRange

if TYPE_CHECKING:
    import numpy.typing as npt

    from lm_datafusion.formats.parquet.chunk import ChunkFacts
    from lm_datafusion.selection import RowSelection
    from lm_datafusion.storage import OpenFile

    Rows: TypeAlias = npt.NDArray[np.int32]
    # Row numbers, or None for all of a range; and the range.
    Wanted: TypeAlias = tuple[Rows | None, int, int]

_STORED_WIDTHS: Final = {"INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8}
# Row numbers are 32-bit integers.
MOST_ROWS: Final = 2**31 - 1


class ChunkSource:
    """An open file for a `ChunkReader`."""

    __slots__ = ("_file", "descriptor", "size_bytes")

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self.descriptor = file.descriptor
        self.size_bytes = file.version.size_bytes

    def fetch(self, ranges: list[tuple[int, int]], target: memoryview) -> None:
        """Fetches (offset, length) pairs into memory, back to back."""
        self._file.fetch_into([ByteRange(*wanted) for wanted in ranges], target)


def load_chunk_pages(chunk: ChunkFacts, file: OpenFile) -> ChunkPages | None:
    """A chunk for kernels, cached with its facts; None if they do not support it."""
    if chunk.kernel_pages is ...:
        chunk.kernel_pages = _load_chunk_pages(chunk, file)
    return chunk.kernel_pages


def _load_chunk_pages(chunk: ChunkFacts, file: OpenFile) -> ChunkPages | None:
    is_known = (
        chunk.leaf.max_repetition_level == 0
        and len(chunk.leaf.path) == 1
        and chunk.leaf.max_definition_level <= 1
        and (chunk.codec in PYARROW_CODECS or chunk.codec == "UNCOMPRESSED")
        and chunk.row_count <= MOST_ROWS
        and not chunk.metadata.file_path
        and not (chunk.tail is not None and chunk.tail.is_encrypted)
    )
    table = chunk.load_pages(file) if is_known else None
    if table is None or not len(table.locations):
        return None
    return ChunkPages(
        table.locations.offsets,
        table.locations.sizes,
        table.locations.first_rows,
        chunk.row_count,
        dictionary_offset=chunk.byte_range.offset,
        max_definition_level=chunk.leaf.max_definition_level,
        physical_type=chunk.physical_type,
        fixed_length=chunk.fixed_length,
        codec=chunk.codec,
        make_decompressor=None if chunk.codec == "UNCOMPRESSED" else make_decompressor,
        is_all_coded=chunk.is_declared_all_dictionary(),
    )


def wanted_rows(rows: RowSelection) -> Wanted:
    """Rows in the form kernels expect: numbers, or None for a whole range; and the range."""
    numbers = rows.to_rows()
    if numbers is not None:
        return numbers, 0, rows.total_rows
    if rows.selects_all():
        return None, 0, rows.total_rows
    if rows.prefers_mask():
        return rows_of_mask(rows.to_mask().view(np.uint8)), 0, rows.total_rows
    starts, stops = rows.to_ranges()
    if len(starts) == 1:
        return None, int(starts[0]), int(stops[0])
    return rows_of_ranges(starts, stops, rows.row_count), 0, rows.total_rows


def load_value_kind(chunk: ChunkFacts, stored: pa.DataType, given: pa.DataType) -> ValueKind | None:
    """The kind of values that kernels make of a chunk, cached; None if unsupported."""
    known = chunk.kernel_kind
    if known is None or known[0] != given:
        kind = value_kind(chunk.physical_type, chunk.fixed_length, stored, given)
        known = chunk.kernel_kind = given, kind
    found: ValueKind | None = known[1]
    return found


def value_kind(
    physical_type: str, fixed_length: int | None, stored: pa.DataType, given: pa.DataType
) -> ValueKind | None:
    """The kind of values that kernels make of a column; None if unsupported.

    Args:
        physical_type: How values are stored.
        fixed_length: The bytes of a FIXED_LEN_BYTE_ARRAY.
        stored: The Arrow type of the column in the file.
        given: The type wanted: text is decoded directly to another text type; the caller casts to
            any other type.
    """
    if physical_type == "BYTE_ARRAY" and is_text_or_bytes(stored):
        made = _text_type(stored, given)
        is_view = pa.types.is_string_view(made) or pa.types.is_binary_view(made)
        return ValueKind(TextBuilder, made, is_text=is_text(made), is_view=is_view)
    if physical_type == "BOOLEAN" and pa.types.is_boolean(stored):
        return ValueKind(BooleanBuilder, stored)
    if physical_type == "FIXED_LEN_BYTE_ARRAY":
        width = fixed_length or 0
        is_same = stored == pa.float16() or stored == pa.binary(width)
        if not is_same or not width:
            return None
        return ValueKind(FixedBuilder, stored, stored=width, given=width)
    width = _STORED_WIDTHS.get(physical_type, 0)
    if not width or not _has_same_bits(physical_type, stored):
        return None
    return ValueKind(FixedBuilder, stored, stored=width, given=stored.bit_width // 8)


def _text_type(stored: pa.DataType, given: pa.DataType) -> pa.DataType:
    """The type to decode text to: the wanted one, if it is text or bytes."""
    wanted = given if is_text_or_bytes(given) else stored
    # The caller casts to large offsets.
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(wanted, wanted)


def _has_same_bits(physical_type: str, data_type: pa.DataType) -> bool:
    """Whether an Arrow value equals the stored one, perhaps narrowed or widened."""
    types = pa.types
    if physical_type == "FLOAT":
        return bool(types.is_float32(data_type))
    if physical_type == "DOUBLE":
        return bool(types.is_float64(data_type))
    if types.is_decimal128(data_type):
        return True
    if physical_type == "INT32":
        is_small = types.is_integer(data_type) and data_type.bit_width <= 32
        return bool(is_small or types.is_date32(data_type) or types.is_time32(data_type))
    is_wide = types.is_integer(data_type) and data_type.bit_width == 64
    # No file stores seconds: such values are converted.
    is_time = types.is_timestamp(data_type) and data_type.unit != "s"
    return bool(is_wide or is_time or types.is_time64(data_type))
