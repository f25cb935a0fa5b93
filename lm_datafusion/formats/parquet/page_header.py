"""Page headers: the struct before every page of a column chunk.

In: bytes, and where a header begins. Out: `PageHeader`, with the header's length, so that
`offset + header_bytes + compressed_size` is where the next one begins.

The generic reader reads a header whole (parquet.thrift, "PageHeader"): that takes about 4
microseconds without statistics, which are two or four more short byte strings. Neither calls for a
special reader.

Invariant: sizes and counts are not negative, and the levels of a V2 page fit into it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lm_datafusion.formats.parquet.spec import PageType
from lm_datafusion.formats.parquet.thrift import (
    Fields,
    NeedMoreData,
    Octets,
    ThriftError,
    read_struct,
    required,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_ENCODING = -1


class PageHeader(NamedTuple):
    """A page header. A named tuple, because chunks have thousands of them.

    `num_values` counts nulls and, in repeated columns, every element; an index page has none, and
    `NO_ENCODING`. Rows, nulls and the lengths of levels are known for V2 pages only. `crc` is the
    unsigned checksum of the page after its header, if the writer made one.
    """

    kind: PageType
    header_bytes: int
    uncompressed_size: int
    compressed_size: int
    num_values: int
    encoding: int
    num_rows: int | None = None
    num_nulls: int | None = None
    is_compressed: bool = True
    definition_levels_bytes: int | None = None
    repetition_levels_bytes: int | None = None
    crc: int | None = None


def parse_page_header(buffer: Octets, offset: int = 0) -> PageHeader:
    """Parse the page header that begins at `offset`.

    Args:
        buffer: Bytes of a column chunk; more may follow the header.
        offset: Where the header begins.

    Returns:
        The header.

    Raises:
        NeedMoreData: The buffer ends inside the header; with more bytes it may be valid.
        ThriftError: The bytes are not a page header.
    """
    fields, stop = read_struct(buffer, offset)
    header = _page_header(fields, stop - offset, offset)
    crc = fields.get(4)
    return header if type(crc) is not int else header._replace(crc=crc & 0xFFFFFFFF)


def _page_header(fields: Fields, header_bytes: int, offset: int) -> PageHeader:
    kind = required(fields, 1, int)
    uncompressed_size = _count(fields, 2)
    compressed_size = _count(fields, 3)
    sizes = header_bytes, uncompressed_size, compressed_size
    if kind == PageType.DATA_V1:
        page = required(fields, 5, dict)
        for level_encoding in (3, 4):
            required(page, level_encoding, int)
        return PageHeader(PageType.DATA_V1, *sizes, _count(page, 1), required(page, 2, int))
    if kind == PageType.DATA_V2:
        return _data_page_v2(sizes, required(fields, 8, dict))
    if kind == PageType.DICTIONARY:
        page = required(fields, 7, dict)
        return PageHeader(PageType.DICTIONARY, *sizes, _count(page, 1), required(page, 2, int))
    if kind == PageType.INDEX:
        return PageHeader(PageType.INDEX, *sizes, 0, NO_ENCODING)
    raise ThriftError(f"page type {kind} at byte {offset} does not exist")


def walk_page_headers(buffer: Octets) -> Iterator[tuple[int, PageHeader]]:
    """Walk the pages of a column chunk.

    Args:
        buffer: All bytes of the chunk, from its first page (a dictionary page, if it has one).

    Yields:
        Where each header begins, and the header.

    Raises:
        NeedMoreData: The buffer ends inside a header or a page.
        ThriftError: The bytes are not page headers.
    """
    data = memoryview(buffer).cast("B")
    offset = 0
    while offset < len(data):
        header = parse_page_header(data, offset)
        stop = offset + header.header_bytes + header.compressed_size
        if stop > len(data):
            raise NeedMoreData(f"the page at byte {offset} ends at {stop} of {len(data)} bytes")
        yield offset, header
        offset = stop


def _data_page_v2(sizes: tuple[int, int, int], page: Fields) -> PageHeader:
    definition_levels_bytes = _count(page, 5)
    repetition_levels_bytes = _count(page, 6)
    # "DataPageHeaderV2": levels precede the values uncompressed and count in both sizes.
    if definition_levels_bytes + repetition_levels_bytes > min(sizes[1:]):
        raise ThriftError("the levels of the page are longer than the page")
    return PageHeader(
        PageType.DATA_V2,
        *sizes,
        num_values=_count(page, 1),
        encoding=required(page, 4, int),
        num_rows=_count(page, 3),
        num_nulls=_count(page, 2),
        is_compressed=required(page, 7, bool) if 7 in page else True,  # its default
        definition_levels_bytes=definition_levels_bytes,
        repetition_levels_bytes=repetition_levels_bytes,
    )


def _count(fields: Fields, field_id: int) -> int:
    value = fields.get(field_id)
    if type(value) is not int or value < 0:
        raise ThriftError(f"field {field_id} should be a size or a count, it is {value!r}")
    return value
