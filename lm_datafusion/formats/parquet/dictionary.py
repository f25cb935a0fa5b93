"""The values of a dictionary page.

In: a chunk whose data pages are all dictionary-encoded. Out: its dictionary as an Arrow array.

pyarrow returns a dictionary only together with data pages. But the body of a dictionary page is
PLAIN values, and so is the body of a data page: with a V2 data page header, whose definition levels
precede the body uncompressed, the dictionary decodes as a separate column.

Invariant: every value in a data page of the chunk is in the array; the reverse need not hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lm_datafusion.errors import StorageError
from lm_datafusion.formats.parquet.footer import open_reader
from lm_datafusion.formats.parquet.page_checks import BadPage, check_pages, largest_page_bytes
from lm_datafusion.formats.parquet.page_header import parse_page_header
from lm_datafusion.formats.parquet.spec import MAGIC, Encoding, PageType
from lm_datafusion.formats.parquet.splice import (
    SplicedColumn,
    SplicedLeaf,
    can_splice,
    splice_footer,
)
from lm_datafusion.formats.parquet.thrift import Kind, ThriftError, write_struct

if TYPE_CHECKING:
    from lm_datafusion.formats.parquet.chunk import ChunkFacts
    from lm_datafusion.formats.parquet.footer import FileFacts
    from lm_datafusion.storage import OpenFile


# A dictionary page is worth reading ahead of the data pages if they are large and it is a small
# fraction of them: it can only save testing them. (Kernels read the dictionary again. On ClickBench
# query 14, 40 chunks of 23,000 values each, reading ahead took 160 ms of 300.)
FEWEST_DATA_BYTES = 32 << 10
LARGEST_SHARE = 0.25


def saves_pages(chunk: ChunkFacts) -> bool:
    """Whether reading the dictionary may save more than it costs."""
    dictionary_bytes = chunk.dictionary_page_bytes
    data_bytes = chunk.byte_range.length - dictionary_bytes
    return data_bytes >= FEWEST_DATA_BYTES and dictionary_bytes <= LARGEST_SHARE * data_bytes


def load_dictionary(
    facts: FileFacts,
    row_group: int,
    column: int,
    file: OpenFile,
    *,
    limit_bytes: int,
    verify_checksums: bool = False,
) -> pa.Array | None:
    """The dictionary of a flat column's chunk.

    Args:
        facts: The file.
        row_group: The row group.
        column: The top-level column.
        file: Where the page is fetched from.
        limit_bytes: Dictionaries longer than this are not fetched.
        verify_checksums: Whether to verify the checksum of the page.

    Returns:
        The values; None if the chunk is not provably all dictionary, cannot be read this way, or
        has few data pages to save.
    """
    chunks = facts.chunks_of(row_group, column)
    if len(chunks) != 1 or not chunks[0].is_flat or not can_splice(chunks[0]):
        return None
    chunk = chunks[0]
    if chunk.dictionary_page_bytes > limit_bytes or not saves_pages(chunk):
        return None
    if not chunk.is_all_dictionary(file):
        return None
    try:
        page = chunk.load_dictionary_page(file)
        if page is None or len(page) > limit_bytes:
            return None
        largest_bytes = largest_page_bytes([chunk])
        check_pages(memoryview(page), largest_bytes=largest_bytes, verify=verify_checksums)
        data_page, count = as_data_page(page, chunk.leaf.max_definition_level)
        leaf = SplicedLeaf(chunk=chunk, offset=len(MAGIC), length=len(data_page), num_values=count)
        spliced = SplicedColumn(column=column, leaves=(leaf,), row_count=count)
        file_bytes = MAGIC + data_page + splice_footer(facts, [[spliced]])
        values = open_reader(pa.py_buffer(file_bytes)).read_column(0).combine_chunks()
    except (pa.ArrowException, OSError, ThriftError, StorageError, BadPage):
        return None
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    return values if len(values) == count and values.null_count == 0 else None


def as_data_page(dictionary_page: bytes, max_definition_level: int) -> tuple[bytes, int]:
    """A dictionary page as a V2 data page, and its number of values.

    Raises:
        ThriftError: Not a dictionary page.
    """
    header = parse_page_header(dictionary_page)
    if header.kind != PageType.DICTIONARY:
        raise ThriftError("the chunk does not begin with a dictionary page")
    levels = _repeated_level(max_definition_level, header.num_values)
    body = dictionary_page[header.header_bytes : header.header_bytes + header.compressed_size]
    data_header = write_struct(
        [
            (1, Kind.I32, header.num_values),
            (2, Kind.I32, 0),
            (3, Kind.I32, header.num_values),
            (4, Kind.I32, Encoding.PLAIN),
            (5, Kind.I32, len(levels)),
            (6, Kind.I32, 0),
            (7, Kind.BOOL, True),
        ]
    )
    page_header = write_struct(
        [
            (1, Kind.I32, PageType.DATA_V2),
            (2, Kind.I32, header.uncompressed_size + len(levels)),
            (3, Kind.I32, header.compressed_size + len(levels)),
            (8, Kind.STRUCT, data_header),
        ]
    )
    return page_header + levels + body, header.num_values


def _repeated_level(level: int, count: int) -> bytes:
    """The same level `count` times, run-length encoded ("RLE/Bit-Packing Hybrid")."""
    if level == 0:
        return b""
    run, out = count << 1, bytearray()
    while run > 0x7F:
        out.append(run & 0x7F | 0x80)
        run >>= 7
    out.append(run)
    out.append(level)
    return bytes(out)
