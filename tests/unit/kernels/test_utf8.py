"""Text is what Python's own decoder takes, whichever instructions look at it."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

from lm_datafusion.kernels.pages import TextError
from tests.kernel_chunks import Chunk, data_page, dictionary_page, packed_run, plain_text

GOOD = [
    *("a", "\0", "\x7f", "é", "\x80", "\u07ff", "\u0800", "€", "\ud7ff", "\ue000", "\uffff"),
    *("\U00010000", "😀", "\U0010ffff"),
]
BAD = [
    b"\x80",
    b"\xbf",
    b"\xc0\x80",
    b"\xc1\xbf",
    b"\xc2",
    b"\xdf",
    b"\xc2\xc2",
    b"\xe0\x80\x80",
    b"\xe0\x9f\xbf",
    b"\xe0\xa0",
    b"\xe2\x82",
    b"\xe2",
    b"\xed\xa0\x80",
    b"\xed\xbf\xbf",
    b"\xf0\x80\x80\x80",
    b"\xf0\x8f\xbf\xbf",
    b"\xf0\x9f\x98",
    b"\xf0\x9f",
    b"\xf0",
    b"\xf4\x90\x80\x80",
    b"\xf5\x80\x80\x80",
    b"\xf8\x88\x80\x80\x80",
    b"\xfe",
    b"\xff",
    b"\xc2\x80\x80",
    b"\xe2\x82\xac\xac",
    b"\xf0\x9f\x98\x80\x80",
    b"\xc2a",
    b"\xe2\x82a",
    b"\xf0\x9f\x98a",
]
pytestmark = pytest.mark.usefixtures("simd")


def is_text(value):
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def refused(values):
    """Which of the values kernels refuse, each looked at alone."""
    page = data_page(plain_text(values), len(values), 0)
    chunk = Chunk(page, physical="BYTE_ARRAY", stored=pa.string(), nullable=False)
    found = set()
    for row in range(len(values)):
        try:
            array = chunk.read(np.array([row], np.int32))
        except TextError:
            found.add(values[row])
        else:
            assert array.cast(pa.binary()).to_pylist() == [values[row]]
    return found


def check(values):
    values = list(dict.fromkeys(values))
    assert refused(values) == {value for value in values if not is_text(value)}


def test_every_two_bytes():
    check(bytes([a, b]) for a in range(256) for b in (0, 0x41, 0x7F, 0x80, 0x9F, 0xA0, 0xBF, 0xC2))
    check(bytes([a, b]) + b"x" * 30 for a in range(0x7F, 256) for b in range(0x7F, 256, 3))


def test_every_kind_of_bad_byte_at_the_borders_of_blocks():
    lengths = [*range(18), *range(28, 36), *range(60, 68), 96, 127, 128]
    for bad in BAD:
        check(b"x" * before + bad + b"y" * after for before in lengths for after in (0, 1, 31, 40))


def test_every_kind_of_character_at_the_borders_of_blocks():
    for text in GOOD:
        character = text.encode()
        check(
            b"x" * before + character * times
            for before in [*range(18), *range(28, 36), *range(60, 66)]
            for times in (1, 2, 17)
        )


def test_pairs_of_characters():
    pieces = [*(text.encode() for text in GOOD), *BAD]
    check(b"x" * 29 + first + second for first, second in itertools.product(pieces, pieces))


def test_random_bytes():
    rng = np.random.default_rng(5)
    alphabet = "ab жя日本😀é"
    values = []
    for _ in range(1500):
        letters = [alphabet[n] for n in rng.integers(0, len(alphabet), rng.integers(0, 60))]
        value = bytearray("".join(letters).encode())
        for _ in range(rng.integers(0, 2)):
            if value:
                value[rng.integers(len(value))] = rng.integers(256)
        values.append(bytes(value[: rng.integers(0, len(value) + 1)]))
    values += [rng.bytes(rng.integers(0, 70)) for _ in range(200)]
    check(values)


def test_a_character_that_two_values_share_is_none():
    """Values that stand one behind the other are looked at one by one."""
    for first, second in ((b"\xc3", b"\xa9"), (b"x" * 40 + b"\xf0\x9f", b"\x98\x80" + b"y" * 40)):
        page = data_page(plain_text([first, second]), 2, 0)
        chunk = Chunk(page, physical="BYTE_ARRAY", stored=pa.string(), nullable=False)
        for given in (pa.string(), pa.string_view()):
            with pytest.raises(TextError):
                chunk.read(given=given)
        pages = dictionary_page(plain_text([first, second]), 2)
        pages += data_page(bytes([1]) + packed_run([0, 1], 1), 2, 8)
        coded = Chunk(pages, physical="BYTE_ARRAY", stored=pa.string(), nullable=False)
        with pytest.raises(TextError, match="dictionary value 0"):
            coded.read()
