"""Page splice: selected pages of selected columns as a small Parquet file in memory.

In: for each top-level column its schema elements, and for each of its leaves where its pages are.
Out: the footer that makes a Parquet file of them, which pyarrow decodes.

    PAR1 | dictionary, pages of leaf 0 | dictionary, pages of leaf 1 | ... | footer | length | PAR1

pyarrow cannot read single pages of a file, but decodes any subset of them in this layout. Pages of
several row groups stay in as many. Columns may have different numbers of rows, even none: the row
group declares the largest, and columns are read one by one.

The writer's Arrow schema in the footer is passed on for these columns, so that a column decodes to
the same type as in the whole file.

Invariant: pages are copied byte for byte; nothing is decoded here.
"""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lm_datafusion.formats.parquet.footer import ARROW_SCHEMA_KEY
from lm_datafusion.formats.parquet.schema_elements import with_children
from lm_datafusion.formats.parquet.spec import MAGIC, Codec, Encoding, PhysicalType
from lm_datafusion.formats.parquet.thrift import STOP, Kind, write_fields, write_struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lm_datafusion.formats.parquet.chunk import ChunkFacts
    from lm_datafusion.formats.parquet.footer import FileFacts

# pyarrow's names differ from the specification's: it calls LZ4_RAW "LZ4". Its "UNKNOWN" is Hadoop's
# LZ4, whose framing is not defined: such chunks are read whole.
_CODECS = {codec.name: codec for codec in Codec if codec not in (Codec.LZ4, Codec.LZO)} | {
    "LZ4": Codec.LZ4_RAW
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SplicedLeaf:
    """Where the pages of one leaf are in the spliced file, with the dictionary page first.

    `num_values` counts the values of data pages.
    """

    chunk: ChunkFacts
    offset: int
    length: int
    num_values: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SplicedColumn:
    """One top-level column with all its leaves; each leaf holds the same rows."""

    column: int
    leaves: tuple[SplicedLeaf, ...]
    row_count: int


def can_splice(chunk: ChunkFacts) -> bool:
    """Whether a chunk's metadata can be rewritten."""
    is_plain = chunk.tail is None or not chunk.tail.is_encrypted
    return chunk.codec in _CODECS and not chunk.metadata.file_path and is_plain


def splice_footer(facts: FileFacts, row_groups: Sequence[Sequence[SplicedColumn]]) -> bytes:
    """The bytes after the pages: the footer, its length and the closing magic.

    Args:
        facts: The file the pages come from.
        row_groups: The layout after the opening magic: the same columns in each row group, in the
            order they will be read.
    """
    footer = _footer(facts, row_groups)
    return footer + struct.pack("<I", len(footer)) + MAGIC


def _column_chunk(leaf: SplicedLeaf) -> bytes:
    """The metadata of a leaf; readers find a dictionary page at the first page's offset too."""
    chunk = leaf.chunk
    if chunk.splice_head is None:
        chunk.splice_head = write_fields(
            [
                (1, Kind.I32, PhysicalType[chunk.physical_type]),
                (2, Kind.LIST, (Kind.I32, [_encoding(name) for name in chunk.encodings])),
                (3, Kind.LIST, (Kind.BINARY, [name.encode() for name in chunk.leaf.path])),
                (4, Kind.I32, _CODECS[chunk.codec]),
            ]
        )
    sizes = [
        (5, Kind.I64, leaf.num_values),
        (6, Kind.I64, leaf.length),
        (7, Kind.I64, leaf.length),
        (9, Kind.I64, leaf.offset),
    ]
    metadata = chunk.splice_head + write_fields(sizes, previous_id=4) + STOP
    return write_struct([(2, Kind.I64, leaf.offset), (3, Kind.STRUCT, metadata)])


def _encoding(name: str) -> int:
    try:
        return Encoding[name]
    except KeyError:
        # Readers use the page headers; this list is informational.
        return Encoding.PLAIN


def _footer(facts: FileFacts, row_groups: Sequence[Sequence[SplicedColumn]]) -> bytes:
    indices = tuple(column.column for column in row_groups[0])
    # The parts that are the same in every splice are cached.
    before = facts.remember(("splice before", indices), lambda: _schema_fields(facts, indices))
    after = facts.remember(("splice after", indices), lambda: _writer_fields(facts, indices))
    counts = [max((column.row_count for column in columns), default=0) for columns in row_groups]
    written = [
        _row_group(columns, count) for columns, count in zip(row_groups, counts, strict=True)
    ]
    rows = [(3, Kind.I64, sum(counts)), (4, Kind.LIST, (Kind.STRUCT, written))]
    return before + write_fields(rows, previous_id=2) + after


def _row_group(columns: Sequence[SplicedColumn], row_count: int) -> bytes:
    leaves = [leaf for column in columns for leaf in column.leaves]
    return write_struct(
        [
            (1, Kind.LIST, (Kind.STRUCT, [_column_chunk(leaf) for leaf in leaves])),
            (2, Kind.I64, sum(leaf.length for leaf in leaves)),
            (3, Kind.I64, row_count),
        ]
    )


def _schema_fields(facts: FileFacts, columns: tuple[int, ...]) -> bytes:
    """The first fields of a footer, up to the schema."""
    elements = facts.elements
    schema = [with_children(elements.root, len(columns))]
    for column in columns:
        field = elements.fields[column]
        schema += [element.raw for element in elements.elements[field.first : field.stop]]
    version = (1, Kind.I32, elements.version)
    return write_fields([version, (2, Kind.LIST, (Kind.STRUCT, schema))])


def _writer_fields(facts: FileFacts, columns: tuple[int, ...]) -> bytes:
    """The last fields of a footer, after the row groups: the writer's schema and name."""
    fields: list[tuple[int, Kind, Any]] = []
    arrow_schema = _arrow_schema(facts, columns)
    if arrow_schema is not None:
        pair = write_struct([(1, Kind.BINARY, ARROW_SCHEMA_KEY), (2, Kind.BINARY, arrow_schema)])
        fields.append((5, Kind.LIST, (Kind.STRUCT, [pair])))
    if facts.metadata.created_by:
        fields.append((6, Kind.BINARY, facts.metadata.created_by.encode()))
    return write_fields(fields, previous_id=4) + STOP


def _arrow_schema(facts: FileFacts, columns: tuple[int, ...]) -> bytes | None:
    """The writer's Arrow schema, restricted to some columns; None if there is none."""
    original = facts.writer_schema
    if original is None:
        return None
    chosen = [_decodable(facts, column, original.field(column)) for column in columns]
    return base64.b64encode(pa.schema(chosen).serialize().to_pybytes())


def _decodable(facts: FileFacts, column: int, field: pa.Field) -> pa.Field:
    """A field that PyArrow can decode: it cannot read delta-encoded pages as a dictionary."""
    if not pa.types.is_dictionary(field.type):
        return field
    groups = range(facts.num_row_groups)
    encodings = {name for g in groups for c in facts.chunks_of(g, column) for name in c.encodings}
    has_deltas = any(name.startswith("DELTA_") for name in encodings)
    return field.with_type(field.type.value_type) if has_deltas else field
