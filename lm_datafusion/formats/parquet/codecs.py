"""Codecs of pages: packed bytes and the size that a header says in, exactly so many bytes out.

Why not `pyarrow.Codec.decompress` alone: it makes room for the size that it is told, and does not
say how much of it the codec has filled. Only ZSTD's checks that. Of the others, a page that holds
less than its header says would be read to the end of that room, which is memory of somebody else.
So LZ4 is asked for the size before, which costs no room either, and the others run in a way that
tells how much came out. Snappy is a kernel of ours.

Invariant: what is given has the size that was asked for, and every byte of it was decompressed.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lm_datafusion.kernels.pages import decompress_snappy, measure_lz4

if TYPE_CHECKING:
    from collections.abc import Callable

# pyarrow's names of codecs, as chunks have them, and as `pyarrow.Codec` does.
CODECS: Final = {
    "SNAPPY": "snappy",
    "GZIP": "gzip",
    "BROTLI": "brotli",
    "ZSTD": "zstd",
    "LZ4": "lz4_raw",
}
# A header of gzip's or of zlib's own, as PyArrow takes both.
_ANY_HEADER: Final = 32 + zlib.MAX_WBITS


def make_decompressor(codec: str) -> Callable[[pa.Buffer, int], pa.Buffer]:
    """What decompresses pages of a codec; it raises `ValueError` or `OSError` if it cannot."""
    if codec == "SNAPPY":
        return decompress_snappy
    if codec == "GZIP":
        return _decompress_gzip
    if codec == "BROTLI":
        return _decompress_brotli
    decompress = pa.Codec(CODECS[codec]).decompress
    if codec != "LZ4":
        return decompress

    def decompress_measured(packed: pa.Buffer, size: int) -> pa.Buffer:
        found = measure_lz4(packed)
        if found != size:
            raise ValueError(f"{found} bytes are packed, not {size}")
        return decompress(packed, size)

    return decompress_measured


def _decompress_gzip(packed: pa.Buffer, size: int) -> pa.Buffer:
    stream = zlib.decompressobj(_ANY_HEADER)
    try:
        found = stream.decompress(packed, size)
        if not stream.eof and stream.decompress(stream.unconsumed_tail, 1):
            raise ValueError(f"more than {size} bytes are packed")
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if len(found) != size or not stream.eof:
        raise ValueError(f"{len(found)} bytes are packed, not {size}")
    return pa.py_buffer(found)


def _decompress_brotli(packed: pa.Buffer, size: int) -> pa.Buffer:
    with pa.CompressedInputStream(pa.BufferReader(packed), "brotli") as stream:
        found = stream.read_buffer(size + 1)
    if found.size != size:
        raise ValueError(f"{found.size} bytes are packed, not {size}")
    return found
