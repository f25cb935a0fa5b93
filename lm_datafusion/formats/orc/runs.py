"""Runs of integers and bytes: one is decoded, or values are written as one.

In: bytes that begin with a run. Out: its values, and how many bytes it takes; and the other way.

Formats: RLE version 1 and 2 for integers, signed (zigzag) or not; byte runs. Values are int64 with
the bits of the stored number, so unsigned values of 64 bits come out negative and go back as they
were.

Why one run: row groups begin and end within runs. The run at a border is decoded, and the part of
it that is wanted is written anew, as literals: DIRECT with 64 bits, which any value fits.

Invariant: a run that is longer than the given bytes raises `ValueError` or `IndexError`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from lm_datafusion.protobuf import encode_varint, varint, zigzag

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]
    Values = npt.NDArray[Any]

# The widths of packed values, by the five bits that stand for them.
_WIDTHS: Final = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
_64_BITS: Final = (1 << 64) - 1
# The longest run: 512 values of 64 bits with 31 patches.
MOST_RUN_BYTES: Final = 4 + 8 + 512 * 8 + 31 * 8
_LITERALS_V1 = 128
_LITERALS_V2 = 512


class RunFormat(NamedTuple):
    """How runs of a stream are read and written."""

    read: Callable[[memoryview], tuple[Values, int]]
    write: Callable[[Values], bytes]


class IntegerRuns(NamedTuple):
    """The formats of a version."""

    signed: RunFormat
    unsigned: RunFormat


def _int64(value: int) -> int:
    """The signed number with the bits of an unsigned one."""
    value &= _64_BITS
    return value - (1 << 64) if value >> 63 else value


def _unpack(data: memoryview, count: int, width: int) -> npt.NDArray[np.uint64]:
    """Big-endian values of some bits each."""
    packed = np.frombuffer(data, np.uint8, (count * width + 7) // 8)
    bits = np.unpackbits(packed, count=count * width).reshape(count, width)
    padded = np.zeros((count, 64), np.uint8)
    padded[:, 64 - width :] = bits
    return np.packbits(padded, axis=1).view(">u8").astype(np.uint64).reshape(count)


def _unzigzag(values: npt.NDArray[np.uint64]) -> Integers:
    one = np.uint64(1)
    return ((values >> one) ^ (np.uint64(0) - (values & one))).view(np.int64)


def _read_v2(data: memoryview, *, is_signed: bool) -> tuple[Integers, int]:
    kind = data[0] >> 6
    if kind == 0:
        return _read_short_repeat(data, is_signed=is_signed)
    count = ((data[0] & 1) << 8 | data[1]) + 1
    code = data[0] >> 1 & 31
    if kind == 1:
        width = _WIDTHS[code]
        packed = _unpack(data[2:], count, width)
        values = _unzigzag(packed) if is_signed else packed.view(np.int64)
        return values, 2 + (count * width + 7) // 8
    if kind == 2:
        return _read_patched_base(data, count, _WIDTHS[code])
    return _read_delta(data, count, code, is_signed=is_signed)


def _read_short_repeat(data: memoryview, *, is_signed: bool) -> tuple[Integers, int]:
    width, count = (data[0] >> 3 & 7) + 1, (data[0] & 7) + 3
    if len(data) < 1 + width:
        raise ValueError("a run ends after its stream")
    stored = int.from_bytes(data[1 : 1 + width], "big")
    return np.full(count, zigzag(stored) if is_signed else _int64(stored), np.int64), 1 + width


def _read_delta(
    data: memoryview, count: int, code: int, *, is_signed: bool
) -> tuple[Integers, int]:
    stored, position = varint(data, 2)
    first = zigzag(stored) if is_signed else _int64(stored)
    stored, position = varint(data, position)
    step = zigzag(stored)
    steps = np.full(count, step, np.int64)
    if code and count > 2:
        width = _WIDTHS[code]
        others = _unpack(data[position:], count - 2, width).view(np.int64)
        steps[2:] = -others if step < 0 else others
        position += ((count - 2) * width + 7) // 8
    steps[0] = first
    return np.cumsum(steps), position


def _read_patched_base(data: memoryview, count: int, width: int) -> tuple[Integers, int]:
    base_bytes, patch_width = (data[2] >> 5) + 1, _WIDTHS[data[2] & 31]
    gap_width, patch_count = (data[3] >> 5) + 1, data[3] & 31
    position = 4 + base_bytes
    if len(data) < position:
        raise ValueError("a run ends after its stream")
    stored = int.from_bytes(data[4:position], "big")
    sign = 1 << (base_bytes * 8 - 1)
    base = -(stored & ~sign) if stored & sign else stored
    values = _unpack(data[position:], count, width)
    position += (count * width + 7) // 8
    entry_width = next(w for w in (*_WIDTHS, 0) if w >= patch_width + gap_width or not w)
    if not entry_width:
        raise ValueError("a patch has more than 64 bits")
    index = 0
    for entry in _unpack(data[position:], patch_count, entry_width).tolist():
        index += entry >> patch_width
        patch = entry & (1 << patch_width) - 1
        if patch:
            values[index] |= np.uint64(patch << width & _64_BITS)
    position += (patch_count * entry_width + 7) // 8
    return values.view(np.int64) + np.int64(base), position


def _write_v2(values: Integers, *, is_signed: bool) -> bytes:
    written = b""
    for start in range(0, len(values), _LITERALS_V2):
        part = values[start : start + _LITERALS_V2]
        stored = (part << 1) ^ (part >> 63) if is_signed else part
        header = 0x7E | (len(part) - 1) >> 8, (len(part) - 1) & 255
        written += bytes(header) + stored.astype(">i8").tobytes()
    return written


def _read_v1(data: memoryview, *, is_signed: bool) -> tuple[Integers, int]:
    header = data[0]
    if header < 128:
        step = data[1] - 256 if data[1] > 127 else data[1]
        stored, position = varint(data, 2)
        first = zigzag(stored) if is_signed else _int64(stored)
        steps = np.full(header + 3, step, np.int64)
        steps[0] = first
        return np.cumsum(steps), position
    found, position = [], 1
    for _ in range(256 - header):
        stored, position = varint(data, position)
        found.append(zigzag(stored) if is_signed else _int64(stored))
    return np.array(found, np.int64), position


def _write_v1(values: Integers, *, is_signed: bool) -> bytes:
    written = b""
    for start in range(0, len(values), _LITERALS_V1):
        part = values[start : start + _LITERALS_V1].tolist()
        stored = [(v << 1 ^ v >> 63) if is_signed else v for v in part]
        written += bytes((256 - len(part),)) + b"".join(encode_varint(v & _64_BITS) for v in stored)
    return written


def _read_bytes(data: memoryview) -> tuple[npt.NDArray[np.uint8], int]:
    header = data[0]
    if header < 128:
        return np.full(header + 3, data[1], np.uint8), 2
    count = 256 - header
    return np.frombuffer(data, np.uint8, count, 1), 1 + count


def _write_bytes(values: npt.NDArray[np.uint8]) -> bytes:
    whole = len(values) // _LITERALS_V1
    runs = np.empty((whole, 1 + _LITERALS_V1), np.uint8)
    runs[:, 0] = 256 - _LITERALS_V1
    runs[:, 1:] = values[: whole * _LITERALS_V1].reshape(whole, _LITERALS_V1)
    rest = values[whole * _LITERALS_V1 :]
    return runs.tobytes() + (bytes((256 - len(rest),)) + rest.tobytes() if len(rest) else b"")


def _formats(read: Callable[..., Any], write: Callable[..., bytes]) -> IntegerRuns:
    signed, unsigned = (
        RunFormat(partial(read, is_signed=s), partial(write, is_signed=s)) for s in (True, False)
    )
    return IntegerRuns(signed, unsigned)


RUNS_V1: Final = _formats(_read_v1, _write_v1)
RUNS_V2: Final = _formats(_read_v2, _write_v2)
BYTE_RUNS: Final = RunFormat(_read_bytes, _write_bytes)
