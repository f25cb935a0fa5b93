from __future__ import annotations

import random
import zlib

import pyarrow as pa
import pytest

from lm_datafusion.kernels import kernel_info

if not kernel_info().is_active:
    pytest.skip("no kernels", allow_module_level=True)

from lm_datafusion.formats.parquet.codecs import make_decompressor
from lm_datafusion.formats.parquet.spec import PYARROW_CODECS
from lm_datafusion.kernels.pages import measure_lz4

each_codec = pytest.mark.parametrize("codec", PYARROW_CODECS)


def packed(codec: str, data: bytes) -> pa.Buffer:
    return pa.Codec(PYARROW_CODECS[codec]).compress(data)


@each_codec
def test_gives_what_was_packed(codec):
    rng = random.Random(7)
    decompress = make_decompressor(codec)
    for size in (1, 11, 12, 13, 14, 15, 16, 255, 256, 270, 1000, 70_000, 300_000):
        noise, text = rng.randbytes(size), (b"late materialization " * size)[:size]
        mixed = bytes(rng.choices(b"abcdefghijklmnop", k=size))
        for data in (noise, text, mixed):
            assert decompress(packed(codec, data), size).to_pybytes() == data


@each_codec
@pytest.mark.parametrize("more", [-39, -1, 1, 3000, 2**31 - 41])
def test_says_so_if_less_or_more_is_packed(codec, more):
    data = b"0123456789" * 4
    with pytest.raises((ValueError, OSError)):
        make_decompressor(codec)(packed(codec, data), len(data) + more)


@each_codec
def test_bytes_that_are_not_packed(codec):
    for data in (b"", b"\x00", b"\xff" * 20, b"hello"):
        with pytest.raises((ValueError, OSError)):
            make_decompressor(codec)(pa.py_buffer(data), 40)


@each_codec
def test_packed_bytes_that_are_cut_off(codec):
    data = b"0123456789" * 4
    whole = packed(codec, data).to_pybytes()
    for stop in range(len(whole)):
        with pytest.raises((ValueError, OSError)):
            make_decompressor(codec)(pa.py_buffer(whole[:stop]), len(data))


def test_gzip_may_have_the_header_of_zlib():
    data = b"0123456789" * 4
    assert make_decompressor("GZIP")(pa.py_buffer(zlib.compress(data)), 40).to_pybytes() == data


def test_sizes_are_told_without_unpacking():
    rng = random.Random(3)
    for size in (0, 1, 5, 18, 19, 20, 300, 5000, 70_000):
        data = bytes(rng.choice(b"abc") for _ in range(size))
        assert measure_lz4(packed("LZ4", data)) == size


@pytest.mark.parametrize(
    "block",
    [b"", b"\xf0", b"\xf0\xff\xff", b"\x20a", b"\x10a\x01", b"\x1fa\x01\x00", b"\x1fa\x01\x00\xff"],
)
def test_lz4_block_that_ends_too_soon(block):
    assert measure_lz4(block) == -1
