"""Compression chunks: what metadata and streams of a compressed file consist of.

In: bytes of a file. Out: their content; and content in the form of a chunk that is not compressed.

A chunk has a header of three bytes: its length, and whether it is `original`, not compressed. A
file without compression has no chunks.

Invariant: the content of a chunk is at most as large as the file's block size; a chunk does not
end after its stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lm_datafusion.formats.orc.codecs import decompress
from lm_datafusion.formats.orc.spec import LARGEST_CHUNK, Compression

HEADER_BYTES = 3


class Chunk(NamedTuple):
    """The header of a chunk: where its bytes are, and whether they are compressed."""

    start: int
    stop: int
    is_original: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkFormat:
    """How the bytes of a file are compressed."""

    compression: Compression
    block_size: int

    @property
    def has_chunks(self) -> bool:
        """Whether bytes are in chunks at all."""
        return self.compression is not Compression.NONE

    def inflate(self, data: bytes, *, limit: int) -> bytes:
        """The content of consecutive chunks.

        Raises:
            ValueError: A chunk is damaged, or there are more than `limit` bytes.
        """
        if not self.has_chunks:
            return data
        parts, position, total = [], 0, 0
        while position < len(data):
            chunk = parse_header(data[position : position + HEADER_BYTES], position, len(data))
            part = self.content(chunk, data[chunk.start : chunk.stop])
            total += len(part)
            if total > limit:
                raise ValueError(f"more than {limit} bytes are packed")
            parts.append(part)
            position = chunk.stop
        return b"".join(parts)

    def content(self, chunk: Chunk, data: bytes) -> bytes:
        """The content of a chunk, given the bytes after its header."""
        if not chunk.is_original:
            return decompress(self.compression, data, self.block_size)
        if len(data) > self.block_size:
            raise ValueError(f"a chunk of {len(data)} bytes in blocks of {self.block_size}")
        return data

    def frame(self, content: bytes | memoryview) -> list[bytes | memoryview]:
        """Content as chunks that are not compressed; unchanged in a file without chunks."""
        if not self.has_chunks:
            return [content]
        framed: list[bytes | memoryview] = []
        size = min(self.block_size, LARGEST_CHUNK)
        for start in range(0, len(content), size):
            part = content[start : start + size]
            framed += [(len(part) << 1 | 1).to_bytes(HEADER_BYTES, "little"), part]
        return framed


def parse_header(header: bytes | memoryview, position: int, stop: int) -> Chunk:
    """The chunk whose header is at a position of bytes that end at `stop`."""
    if len(header) < HEADER_BYTES:
        raise ValueError(f"the header of a chunk is cut off at byte {position}")
    bits = int.from_bytes(header, "little")
    start = position + HEADER_BYTES
    if start + (bits >> 1) > stop:
        raise ValueError(f"the chunk at byte {position} ends after its stream")
    return Chunk(start, start + (bits >> 1), bool(bits & 1))
