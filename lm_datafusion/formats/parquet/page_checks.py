"""Rejects pages that PyArrow must not decode: a wrong checksum, or an impossible size.

In: bytes of consecutive pages, as stored in a file. Out: nothing, or a `BadPage` that says which
page it is and why.

Why a limit: a page of a few bytes can decompress to two gibibytes. The footer gives the
decompressed size of all pages of a chunk. Old writers get it wrong, so the limit does not apply to
pages of an ordinary size.

Invariant: a checksum covers the stored page after its header ("Checksumming").
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from lm_datafusion.formats.parquet.page_header import PageHeader, walk_page_headers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lm_datafusion.formats.parquet.chunk import ChunkFacts

# Writers end pages at a mebibyte, and exceed it only for longer values.
UNSUSPICIOUS_PAGE_BYTES: Final = 64 << 20


class BadPage(ValueError):  # noqa: N818 callers that know the file raise the error
    """A page that must not be decoded; `offset` counts from the first byte checked."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


def largest_page_bytes(chunks: Iterable[ChunkFacts]) -> int:
    """The most bytes that a page of some chunks may decompress to."""
    declared = max((chunk.uncompressed_bytes for chunk in chunks), default=0)
    return max(UNSUSPICIOUS_PAGE_BYTES, declared)


def check_pages(pages: memoryview, *, largest_bytes: int, verify: bool) -> None:
    """Checks consecutive pages.

    Args:
        pages: Their bytes, including headers.
        largest_bytes: The most bytes that a page may decompress to.
        verify: Whether to verify checksums.

    Raises:
        BadPage: A page must not be decoded.
        ThriftError: The bytes are not pages.
    """
    for offset, header in walk_page_headers(pages):
        if header.uncompressed_size > largest_bytes:
            raise BadPage("the page claims more bytes than the footer says of all pages", offset)
        start = offset + header.header_bytes
        body = pages[start : start + header.compressed_size]
        if verify and not is_intact(header, body):
            raise BadPage("the page does not have the checksum that its header says", offset)


def is_intact(header: PageHeader, body: memoryview | bytes) -> bool:
    """Whether the body of a page has the checksum in its header, if there is one."""
    return header.crc is None or zlib.crc32(body) == header.crc
