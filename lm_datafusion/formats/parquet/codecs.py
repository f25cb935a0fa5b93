"""Codecs of pages: in, compressed bytes and the size in the header; out, exactly that many bytes.

Why not `pyarrow.Codec.decompress` alone: it allocates the requested size and does not report how
much of it the codec has filled. Only ZSTD checks that. With the others, a page that holds less than
its header says would be read to the end of the buffer, into uninitialized memory. So the size of
LZ4 is measured first, which allocates nothing, and the others run in a way that reports the size of
the output. Snappy is one of our kernels.

Why not PyArrow's ZSTD: it makes a context for every page, which takes longer than a small page (19
us against 7 for pages of 1 KB), and it needs the GIL between pages. The system's `libzstd` is used
if there is one, called from the kernels with one context per thread.

Invariant: the output has the requested size, and every byte of it was decompressed.
"""

from __future__ import annotations

import ctypes
import functools
import zlib
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lm_datafusion.formats.parquet.spec import PYARROW_CODECS
from lm_datafusion.kernels.pages import Codec, measure_lz4

if TYPE_CHECKING:
    from collections.abc import Callable

# A gzip or a zlib header: PyArrow accepts both.
_ANY_HEADER: Final = 32 + zlib.MAX_WBITS
_ZSTD_LIBRARIES: Final = ("libzstd.so.1", "libzstd.1.dylib", "libzstd.dll", "zstd.dll")
_ZSTD_FUNCTIONS: Final = ("ZSTD_createDCtx", "ZSTD_freeDCtx", "ZSTD_decompressDCtx")


def make_decompressor(codec: str) -> Callable[[pa.Buffer, int], pa.Buffer]:
    """A function that decompresses pages; it raises `ValueError` or `OSError` on failure.

    It is not thread-safe.
    """
    if codec == "SNAPPY":
        return Codec()
    if codec == "ZSTD" and (functions := _find_zstd()) is not None:
        return Codec(functions)
    if codec == "GZIP":
        return _decompress_gzip
    if codec == "BROTLI":
        return _decompress_brotli
    decompress = pa.Codec(PYARROW_CODECS[codec]).decompress
    if codec != "LZ4":
        return decompress

    def decompress_measured(packed: pa.Buffer, size: int) -> pa.Buffer:
        found = measure_lz4(packed)
        if found != size:
            raise ValueError(f"{found} bytes are packed, not {size}")
        return decompress(packed, size)

    return decompress_measured


@functools.cache
def _find_zstd() -> tuple[int, ...] | None:
    """The addresses of the functions of the system's Zstandard library, if there is one."""
    for name in _ZSTD_LIBRARIES:
        try:
            library = ctypes.CDLL(name)
            functions = [getattr(library, function) for function in _ZSTD_FUNCTIONS]
        except (OSError, AttributeError):
            continue
        return tuple(ctypes.cast(f, ctypes.c_void_p).value or 0 for f in functions)
    return None


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
