"""ORC's bloom filters: which row groups can hold a value.

In: the inflated BLOOM_FILTER_UTF8 stream of a column. Out: one answer per row group.

Integers, dates and floating point numbers (their 64 bits) are hashed with Thomas Wang's function,
text and bytes with the 64-bit form of Murmur3. Bit i of k is chosen by the sum of the lower and i
times the upper half of the hash.

Traps: filters of kind BLOOM_FILTER hash text in the encoding of the writer's machine; C++ writers
up to 1.6.11, and 1.7.0, leave values out. Neither is used. Filters of bytes are not asked: C++
writers to this day overwrite the values before they hash them. Neither are decimals, timestamps and
CHAR, which are hashed in forms that depend on the writer, and zeros of floats, which have two.

Invariant: False only if no value of the row group has the hash.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lm_datafusion.formats.orc.spec import TypeKind, Writer
from lm_datafusion.protobuf import Message, as_bytes, fields

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from lm_datafusion.formats.orc.messages import ColumnEncoding, Footer

_UTF8_ENCODING: Final = 1
_64_BITS: Final = (1 << 64) - 1
_SEED: Final = 104_729
_MOST_HASHES: Final = 64
_MENDED: Final = ((1, 6, 12), (1, 7, 1))
_INTEGERS = (TypeKind.SHORT, TypeKind.INT, TypeKind.LONG)
_BYTES = (TypeKind.STRING, TypeKind.VARCHAR, TypeKind.BINARY)


def are_trusted(footer: Footer, encoding: ColumnEncoding) -> bool:
    """Whether the filters of a column hold all its values."""
    if encoding.bloom_encoding != _UTF8_ENCODING:
        return False
    if footer.writer == Writer.JAVA:
        return True
    version = re.match(r"(\d+)\.(\d+)\.(\d+)$", footer.software_version)
    if footer.writer != Writer.CPP or version is None:
        return False
    numbers = tuple(map(int, version.groups()))
    in_1_6, after = _MENDED
    return numbers >= after or (numbers[:2] == in_1_6[:2] and numbers >= in_1_6)


class BloomFilters:
    """The filters of a column, by row group.

    Raises:
        ValueError: They are damaged.
    """

    def __init__(self, data: bytes) -> None:
        self._filters = [_parse(as_bytes(value)) for number, value in fields(data) if number == 1]
        self.length_bytes = len(data)

    def __len__(self) -> int:
        return len(self._filters)

    def may_contain_any(self, hashes: Iterable[int]) -> npt.NDArray[np.bool_]:
        """For each row group, whether it may hold a value with one of the hashes."""
        wanted = list(hashes)
        return np.array([any(_has(f, value) for value in wanted) for f in self._filters], np.bool_)


def hash_literal(value: pa.Scalar, kind: int, data_type: pa.DataType) -> int | None:
    """The hash of a literal as a writer would have made it; None if that is uncertain.

    Args:
        value: A literal, of the type of the column.
        kind: ORC's type of the column.
        data_type: PyArrow's type of the column.
    """
    if not value.is_valid:
        return None
    if kind in _BYTES:
        content = value.as_py()
        return murmur3(content.encode() if isinstance(content, str) else content)
    if kind in _INTEGERS and pa.types.is_integer(value.type):
        return wang(value.as_py())
    if value.type != data_type:
        return None
    if kind == TypeKind.DATE and pa.types.is_date32(data_type):
        return wang(value.value)
    if kind in (TypeKind.FLOAT, TypeKind.DOUBLE):
        number = value.as_py()
        is_plain = number != 0 and number == number  # noqa: PLR0124 NaN
        return wang(struct.unpack("<q", struct.pack("<d", number))[0]) if is_plain else None
    return None


def murmur3(data: bytes) -> int:
    """Murmur3, as ORC uses it: 64 bits with its own seed."""
    value = _SEED
    whole = len(data) // 8 * 8
    for start in range(0, whole, 8):
        value ^= _mixed(int.from_bytes(data[start : start + 8], "little"))
        value = _rotated(value, 27)
        value = (value * 5 + 0x52DCE729) & _64_BITS
    if whole < len(data):
        value ^= _mixed(int.from_bytes(data[whole:], "little"))
    value ^= len(data)
    value ^= value >> 33
    value = value * 0xFF51AFD7ED558CCD & _64_BITS
    value ^= value >> 33
    value = value * 0xC4CEB9FE1A85EC53 & _64_BITS
    return value ^ value >> 33


def _mixed(block: int) -> int:
    block = _rotated(block * 0x87C37B91114253D5 & _64_BITS, 31)
    return block * 0x4CF5AD432745937F & _64_BITS


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _64_BITS


def wang(value: int) -> int:
    """Thomas Wang's hash of a 64-bit integer; its shifts to the right keep the sign."""
    key = value & _64_BITS
    key = (~key + (key << 21)) & _64_BITS
    key ^= _shifted(key, 24)
    key = (key + (key << 3) + (key << 8)) & _64_BITS
    key ^= _shifted(key, 14)
    key = (key + (key << 2) + (key << 4)) & _64_BITS
    key ^= _shifted(key, 28)
    return (key + (key << 31)) & _64_BITS


def _shifted(value: int, bits: int) -> int:
    return (_signed(value, 64) >> bits) & _64_BITS


def _signed(value: int, width: int) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def _parse(data: bytes) -> tuple[int, bytes]:
    message = Message(data)
    count, bits = message.number(1), message.content(3)
    if not bits or not 0 < count <= _MOST_HASHES:
        raise ValueError("a bloom filter without bits or hash functions")
    return count, bits


def _has(bloom_filter: tuple[int, bytes], value: int) -> bool:
    count, bits = bloom_filter
    lower, upper = _signed(value, 32), _signed(value >> 32, 32)
    for index in range(1, count + 1):
        place = _signed(lower + index * upper, 32)
        place = (~place if place < 0 else place) % (8 * len(bits))
        if not bits[place >> 3] >> (place & 7) & 1:
            return False
    return True
