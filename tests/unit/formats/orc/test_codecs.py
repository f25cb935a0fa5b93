from __future__ import annotations

import random
import zlib

import pyarrow as pa
import pytest

from lm_datafusion.formats.orc import codecs
from lm_datafusion.formats.orc.codecs import decompress
from lm_datafusion.formats.orc.spec import Compression
from lm_datafusion.kernels import KernelInfo

CONTENT = random.Random(1).randbytes(3000) + b"abc" * 4000


def deflated(content):
    stream = zlib.compressobj(wbits=-15)
    return stream.compress(content) + stream.flush()


PACKED = {
    Compression.ZLIB: deflated,
    Compression.SNAPPY: lambda content: pa.Codec("snappy").compress(content, asbytes=True),
    Compression.LZ4: lambda content: pa.Codec("lz4_raw").compress(content, asbytes=True),
    Compression.ZSTD: lambda content: pa.Codec("zstd").compress(content, asbytes=True),
}


@pytest.mark.parametrize("compression", PACKED)
def test_content_comes_back(compression):
    packed = PACKED[compression](CONTENT)
    assert decompress(compression, packed, len(CONTENT)) == CONTENT
    assert decompress(compression, PACKED[compression](b""), 10) == b""


@pytest.mark.parametrize("compression", PACKED)
def test_more_than_the_limit_is_refused(compression):
    with pytest.raises(ValueError, match="packed"):
        decompress(compression, PACKED[compression](CONTENT), len(CONTENT) - 1)


@pytest.mark.parametrize("compression", PACKED)
def test_a_chunk_that_is_cut_off_is_refused(compression):
    packed = PACKED[compression](CONTENT)
    with pytest.raises((ValueError, IndexError, OSError)):
        decompress(compression, packed[: len(packed) // 2], len(CONTENT))


def test_lz4_is_measured_without_kernels(monkeypatch):
    monkeypatch.setattr(codecs, "kernel_info", lambda: KernelInfo(is_active=False))
    packed = PACKED[Compression.LZ4](CONTENT)
    assert decompress(Compression.LZ4, packed, len(CONTENT)) == CONTENT


def test_a_zstandard_frame_may_leave_its_size_out():
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(CONTENT)
    packed = sink.getvalue().to_pybytes()
    assert codecs._zstd_size(packed) is None
    assert decompress(Compression.ZSTD, packed, len(CONTENT)) == CONTENT
    with pytest.raises(ValueError, match="more than"):
        decompress(Compression.ZSTD, packed, len(CONTENT) - 1)
