"""Codecs of compression chunks: in, the bytes of a chunk and the largest size; out, its content.

A chunk does not say how large its content is. Snappy and most Zstandard frames do; the size of LZ4
is measured; the others stop at the limit.

Invariant: never more than `limit` bytes, every byte of which was decompressed.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lm_datafusion.formats.orc.lzo import decompress_lzo
from lm_datafusion.formats.orc.spec import Compression
from lm_datafusion.kernels import kernel_info
from lm_datafusion.protobuf import varint

if TYPE_CHECKING:
    from collections.abc import Callable

_RAW_DEFLATE: Final = -zlib.MAX_WBITS
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"


def decompress(compression: Compression, data: bytes, limit: int) -> bytes:
    """Decompresses a chunk.

    Raises:
        ValueError: The chunk is damaged, or gives more than `limit` bytes. Also `IndexError` and
            `pyarrow.ArrowException`.
    """
    return _CODECS[compression](data, limit)


def _decompress_zlib(data: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj(_RAW_DEFLATE)
    try:
        found = stream.decompress(data, limit)
        if not stream.eof and stream.decompress(stream.unconsumed_tail, 1):
            raise ValueError(f"more than {limit} bytes are packed")
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not stream.eof:
        raise ValueError("a chunk ends too early")
    return found


def _decompress_snappy(data: bytes, limit: int) -> bytes:
    size, _ = varint(data, 0)
    return _exactly("snappy", data, size, limit)


def _decompress_lz4(data: bytes, limit: int) -> bytes:
    return _exactly("lz4_raw", data, _measure_lz4(data), limit)


def _decompress_zstd(data: bytes, limit: int) -> bytes:
    size = _zstd_size(data)
    if size is not None:
        return _exactly("zstd", data, size, limit)
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        found: bytes = stream.read(limit + 1)
    if len(found) > limit:
        raise ValueError(f"more than {limit} bytes are packed")
    return found


def _exactly(name: str, data: bytes, size: int, limit: int) -> bytes:
    if not 0 <= size <= limit:
        raise ValueError(f"{size} bytes are packed, more than {limit}")
    if not size:
        return b""
    return bytes(pa.Codec(name).decompress(data, size, asbytes=True))


def _zstd_size(data: bytes) -> int | None:
    """The size of the content in the header of a Zstandard frame; None if it is not there."""
    if data[:4] != _ZSTD_MAGIC:
        raise ValueError("not a Zstandard frame")
    descriptor = data[4]
    is_single = descriptor >> 5 & 1
    position = 6 - is_single + (0, 1, 2, 4)[descriptor & 3]
    width = (is_single, 2, 4, 8)[descriptor >> 6]
    if not width:
        return None
    if len(data) < position + width:
        raise ValueError("a Zstandard frame ends within its header")
    size = int.from_bytes(data[position : position + width], "little")
    return size + 256 if width == 2 else size


def _measure_lz4(data: bytes) -> int:
    """The size of the content of an LZ4 block."""
    if kernel_info().is_active:
        from lm_datafusion.kernels.pages import measure_lz4

        return measure_lz4(pa.py_buffer(data))
    position = size = 0
    while position < len(data):
        token = data[position]
        literals, position = _lz4_length(data, position + 1, token >> 4)
        size += literals
        position += literals
        if position >= len(data):
            break
        match, position = _lz4_length(data, position + 2, token & 15)
        size += match + 4
    return size


def _lz4_length(data: bytes, position: int, length: int) -> tuple[int, int]:
    if length == 15:
        while True:
            more = data[position]
            position += 1
            length += more
            if more != 255:
                break
    return length, position


_CODECS: Final[dict[Compression, Callable[[bytes, int], bytes]]] = {
    Compression.ZLIB: _decompress_zlib,
    Compression.SNAPPY: _decompress_snappy,
    Compression.LZO: decompress_lzo,
    Compression.LZ4: _decompress_lz4,
    Compression.ZSTD: _decompress_zstd,
}
