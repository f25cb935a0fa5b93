from __future__ import annotations

import pytest

from lm_datafusion.formats.orc.chunks import ChunkFormat
from lm_datafusion.formats.orc.spec import Compression
from tests.unit.formats.orc.test_codecs import deflated

ZLIB = ChunkFormat(compression=Compression.ZLIB, block_size=64)
PLAIN = ChunkFormat(compression=Compression.NONE, block_size=64)


def chunk(content, *, is_original=False):
    packed = content if is_original else deflated(content)
    return (len(packed) << 1 | is_original).to_bytes(3, "little") + packed


def test_chunks_of_both_kinds_are_joined():
    data = chunk(b"a" * 64) + chunk(b"bc", is_original=True) + chunk(b"d")
    assert ZLIB.inflate(data, limit=100) == b"a" * 64 + b"bcd"
    assert PLAIN.inflate(data, limit=100) == data


def test_content_in_frames_comes_back():
    content = bytes(range(200))
    framed = b"".join(ZLIB.frame(content))
    assert len(framed) == 200 + 4 * 3
    assert ZLIB.inflate(framed, limit=200) == content
    assert PLAIN.frame(content) == [content]


@pytest.mark.parametrize(
    "data",
    [
        chunk(b"a" * 65),
        chunk(b"a" * 65, is_original=True),
        chunk(b"abc")[:-1],
        b"\x02\x00",
        b"\xff\xff\xff",
    ],
    ids=["bomb", "large", "cut off", "no header", "longest"],
)
def test_hostile_lengths_are_refused(data):
    with pytest.raises(ValueError, match=r"."):
        ZLIB.inflate(data, limit=1000)


def test_the_limit_holds_for_all_chunks_together():
    with pytest.raises(ValueError, match="more than 100"):
        ZLIB.inflate(chunk(b"a" * 64) * 2, limit=100)
