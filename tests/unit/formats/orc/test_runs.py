from __future__ import annotations

import random

import numpy as np
import pytest

from lm_datafusion.formats.orc.runs import BYTE_RUNS, RUNS_V1, RUNS_V2

INTEGERS = (RUNS_V1.signed, RUNS_V1.unsigned, RUNS_V2.signed, RUNS_V2.unsigned)


def read(runs, data):
    values, used = runs.read(memoryview(bytes(data)))
    return values.tolist(), used


# The examples of the specification.
@pytest.mark.parametrize(
    ("runs", "data", "values"),
    [
        (RUNS_V1.unsigned, [0x61, 0x00, 0x07], [7] * 100),
        (RUNS_V1.unsigned, [0x61, 0xFF, 0x64], list(range(100, 0, -1))),
        (RUNS_V1.unsigned, [0xFB, 2, 3, 6, 7, 0x0B], [2, 3, 6, 7, 11]),
        (RUNS_V2.unsigned, [0x0A, 0x27, 0x10], [10_000] * 5),
        (
            RUNS_V2.unsigned,
            [0x5E, 0x03, 0x5C, 0xA1, 0xAB, 0x1E, 0xDE, 0xAD, 0xBE, 0xEF],
            [23_713, 43_806, 57_005, 48_879],
        ),
        (
            RUNS_V2.unsigned,
            bytes.fromhex("8e132b2107d01e00147028323c46505a646e78828c96a0aab4befce8"),
            [2030, 2000, 2020, 1_000_000, *range(2040, 2200, 10)],
        ),
        (
            RUNS_V2.unsigned,
            [0xC6, 0x09, 0x02, 0x02, 0x22, 0x42, 0x42, 0x46],
            [2, 3, 5, 7, 11, 13, 17, 19, 23, 29],
        ),
        (BYTE_RUNS, [0x61, 0x00], [0] * 100),
        (BYTE_RUNS, [0xFE, 0x44, 0x45], [0x44, 0x45]),
    ],
)
def test_examples(runs, data, values):
    assert read(runs, data) == (values, len(data))
    assert read(runs, [*data, 1, 2, 3]) == (values, len(data))


@pytest.mark.parametrize("runs", INTEGERS)
def test_what_is_written_is_read(runs):
    chance = random.Random(1)
    for count in (1, 2, 127, 128, 129, 512):
        numbers = [chance.randint(-(2**63), 2**63 - 1) for _ in range(count)]
        written = memoryview(runs.write(np.array(numbers, np.int64)))
        found, position = [], 0
        while position < len(written):
            values, used = runs.read(written[position:])
            found += values.tolist()
            position += used
        assert found == numbers
    assert runs.write(np.empty(0, np.int64)) == b""


def test_bytes_that_are_written_are_read():
    for count in (0, 1, 128, 129, 1000):
        numbers = np.frombuffer(random.Random(count).randbytes(count), np.uint8)
        written, found = memoryview(BYTE_RUNS.write(numbers)), []
        while written:
            values, used = BYTE_RUNS.read(written)
            found += values.tolist()
            written = written[used:]
        assert found == numbers.tolist()


@pytest.mark.parametrize(
    ("runs", "data"),
    [
        (RUNS_V2.unsigned, b""),
        (RUNS_V2.unsigned, b"\x0a\x27"),
        (RUNS_V2.unsigned, b"\x5e\x03\x5c"),
        (RUNS_V2.unsigned, b"\xc6\x09\x02\x02\x22"),
        (RUNS_V2.unsigned, b"\xc6\x09\x80"),
        (RUNS_V2.unsigned, b"\x8e\x13\x2b\x21\x07"),
        (RUNS_V2.unsigned, b"\x8e\x01\xff\xff" + bytes(300)),
        (RUNS_V1.signed, b"\x61\x00"),
        (RUNS_V1.signed, b"\xfb\x02\x03"),
        (BYTE_RUNS, b"\x61"),
        (BYTE_RUNS, b"\xfe\x44"),
    ],
)
def test_a_run_past_the_end_is_refused(runs, data):
    with pytest.raises((ValueError, IndexError)):
        runs.read(memoryview(data))


def test_a_patch_outside_its_run_is_refused():
    # Four values of one bit; a patch of one bit with a gap of 255.
    data = bytes([0x80, 0x03, 0x00, 0xE1, 0x00, 0x00]) + b"\xff\xff\xff\xff"
    with pytest.raises(IndexError):
        RUNS_V2.unsigned.read(memoryview(data))


def test_random_bytes_end_or_are_refused():
    chance = random.Random(3)
    for _ in range(3000):
        data = memoryview(chance.randbytes(chance.randint(0, 60)))
        for runs in (*INTEGERS, BYTE_RUNS):
            try:
                values, used = runs.read(data)
            except (ValueError, IndexError):
                continue
            assert 0 < used <= len(data)
            assert 0 < len(values) <= 512
