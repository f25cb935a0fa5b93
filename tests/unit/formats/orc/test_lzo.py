from __future__ import annotations

import pytest

from lm_datafusion.formats.orc.lzo import decompress_lzo

END = b"\x11\x00\x00"


def test_literals_alone():
    assert decompress_lzo(bytes((17 + 5,)) + b"hello" + END, 5) == b"hello"


def test_a_long_literal():
    content = bytes(range(200)) * 2
    packed = b"\x00" + b"\x00" + bytes((len(content) - 18 - 255,)) + content + END
    assert decompress_lzo(packed, len(content)) == content


def test_a_match_may_overlap_what_it_writes():
    # Four literals, then a match of eight bytes at distance one.
    packed = bytes((17 + 4,)) + b"abcd" + bytes((7 << 5, 0)) + END
    assert decompress_lzo(packed, 12) == b"abcd" + b"d" * 8


def test_literals_follow_a_match():
    # A match of five bytes at distance four, with two literals behind it.
    packed = bytes((17 + 4,)) + b"abcd" + bytes((4 << 5 | 3 << 2 | 2, 0)) + b"xy" + END
    assert decompress_lzo(packed, 11) == b"abcdabcdaxy"


def test_a_match_at_a_distance_of_two_bytes():
    # Instruction 32..63: the length in five bits, distance and literals in two bytes.
    packed = bytes((17 + 4,)) + b"abcd" + bytes((32 | 4, 3 << 2, 0)) + END
    assert decompress_lzo(packed, 10) == b"abcdabcdab"


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"\x16hell",
        b"\x16hello",
        b"\x16hello" + END + b"more",
        bytes((17 + 4,)) + b"abcd" + bytes((7 << 5, 9)) + END,
    ],
)
def test_damage_is_refused(packed):
    with pytest.raises((ValueError, IndexError)):
        decompress_lzo(packed, 100)


def test_more_than_the_limit_is_refused():
    with pytest.raises(ValueError, match="packed"):
        decompress_lzo(b"\x16hello" + END, 4)
