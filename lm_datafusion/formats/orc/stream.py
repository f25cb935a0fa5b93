"""A stream of a stripe, by chunk: fetched and inflated only where it is looked at.

In: the place of a stream in the file. Out: bytes from a place in its content on, and pieces between
two places, in which whole chunks stay as they are.

A place is (chunk, byte): the offset of a chunk in the stream, and a byte of its content. A stream
that is not compressed is one chunk at offset 0.

Invariant: nothing outside the stream is read; a place outside it raises `ValueError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lm_datafusion.formats.orc.chunks import HEADER_BYTES, Chunk, parse_header

if TYPE_CHECKING:
    from lm_datafusion.formats.orc.chunks import ChunkFormat
    from lm_datafusion.formats.orc.stripe import StripeBytes
    from lm_datafusion.storage import ByteRange

Place = tuple[int, int]

# Inflated chunks that are held; row groups that are neighbours share one.
_MOST_HELD = 4


class Piece(NamedTuple):
    """Part of a stream: whole chunks as they are in the file, or content."""

    is_framed: bool
    data: bytes | memoryview


class StreamBytes:
    """The bytes of one stream."""

    def __init__(self, source: StripeBytes, place: ByteRange, chunks: ChunkFormat) -> None:
        self._source = source
        self._start = place.offset
        self._chunks = chunks
        self._held: dict[int, tuple[memoryview, int]] = {}
        self.length = place.length

    def whole(self) -> Piece:
        """The stream as it is."""
        return Piece(self._chunks.has_chunks, self._raw(0, self.length))

    def content(self, piece: Piece, *, limit: int) -> bytes:
        """The content of a piece."""
        data = bytes(piece.data)
        return self._chunks.inflate(data, limit=limit) if piece.is_framed else data

    def window(self, place: Place, count: int) -> memoryview:
        """`count` bytes of content from a place on; fewer only at the end of the stream."""
        chunk, byte = place
        if not self._chunks.has_chunks:
            return self._raw(byte, min(byte + count, self.length))
        data, following = self._inflated(chunk)
        found = data[byte : byte + count]
        while len(found) < count and following < self.length:
            data, following = self._inflated(following)
            found = memoryview(bytes(found) + bytes(data[: count - len(found)]))
        return found

    def advance(self, place: Place, count: int) -> Place:
        """The place `count` bytes of content further on."""
        chunk, byte = place[0], place[1] + count
        if not self._chunks.has_chunks:
            if byte > self.length:
                raise ValueError("a run ends after its stream")
            return chunk, byte
        data, following = self._inflated(chunk)
        while byte > len(data):
            if following >= self.length:
                raise ValueError("a run ends after its stream")
            byte -= len(data)
            chunk = following
            data, following = self._inflated(chunk)
        return chunk, byte

    def between(self, start: Place, stop: Place | None) -> list[Piece]:
        """What lies between two places; None is the end of the stream."""
        if not self._chunks.has_chunks:
            end = self.length if stop is None else stop[1]
            if not start[1] <= end <= self.length:
                raise ValueError("a row group ends before it begins")
            return [Piece(False, self._raw(start[1], end))]
        chunk, byte = start
        if stop is not None and stop[0] == chunk:
            if stop[1] < byte:
                raise ValueError("a row group ends before it begins")
            return [Piece(False, self._part(chunk, byte, stop[1]))] if stop[1] > byte else []
        pieces = []
        if byte:
            data, following = self._inflated(chunk)
            pieces.append(Piece(False, self._part(chunk, byte, len(data))))
            chunk = following
        end = self.length if stop is None else stop[0]
        self._check_chunks(chunk, end)
        pieces.append(Piece(True, self._raw(chunk, end)))
        if stop is not None and stop[1]:
            pieces.append(Piece(False, self._part(stop[0], 0, stop[1])))
        return pieces

    def _part(self, chunk: int, start: int, stop: int) -> memoryview:
        data, _ = self._inflated(chunk)
        if not start <= stop <= len(data):
            raise ValueError(f"byte {stop} of a chunk of {len(data)}")
        return data[start:stop]

    def _raw(self, start: int, stop: int) -> memoryview:
        if not 0 <= start <= stop <= self.length:
            raise ValueError(f"bytes {start} to {stop} of a stream of {self.length}")
        return self._source.view(self._start + start, self._start + stop)

    def _header(self, at: int) -> Chunk:
        return parse_header(self._raw(at, min(at + HEADER_BYTES, self.length)), at, self.length)

    def _check_chunks(self, start: int, stop: int) -> None:
        """Chunks must lead from one place to the other: a damaged position would not."""
        while start < stop:
            start = self._header(start).stop
        if start != stop:
            raise ValueError(f"no chunk begins at byte {stop} of a stream")

    def _inflated(self, at: int) -> tuple[memoryview, int]:
        """The content of a chunk, and where the next chunk begins."""
        found = self._held.get(at)
        if found is None:
            if at == self.length:
                return memoryview(b""), at
            chunk = self._header(at)
            data = self._chunks.content(chunk, bytes(self._raw(chunk.start, chunk.stop)))
            found = memoryview(data), chunk.stop
            if len(self._held) >= _MOST_HELD:
                del self._held[next(iter(self._held))]
            self._held[at] = found
        return found
