"""The wire format of Protocol Buffers, as far as DataFusion's plans and ORC's metadata need it.

In: a message as bytes. Out: its fields; and back.

Why by hand: the package `protobuf` would need DataFusion's message definitions, which are not
published for Python, and takes 50 to 130 ms to import. What is read here is the wire format, which
never changes.

Invariant: bytes that are not a message raise `ValueError`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_VARINT, _EIGHT_BYTES, _LENGTH_DELIMITED, _FOUR_BYTES = 0, 1, 2, 5
# A number has at most ten bytes of seven bits; 64 of these bits count.
_LAST_SHIFT = 63
_64_BITS = (1 << 64) - 1


class Field(NamedTuple):
    """A field of a message: its number, and its value as a number or bytes."""

    number: int
    value: int | bytes


def fields(message: bytes) -> Iterator[Field]:
    """The fields of a message, in order.

    Raises:
        ValueError: It is no message.
    """
    position = 0
    while position < len(message):
        key, position = varint(message, position)
        number, wire_type = key >> 3, key & 7
        if wire_type == _VARINT:
            value, position = varint(message, position)
            yield Field(number, value)
            continue
        if wire_type == _LENGTH_DELIMITED:
            length, position = varint(message, position)
        elif wire_type in (_EIGHT_BYTES, _FOUR_BYTES):
            length = 8 if wire_type == _EIGHT_BYTES else 4
        else:
            raise ValueError(f"no field has wire type {wire_type}")
        if position + length > len(message):
            raise ValueError("a field ends after its message")
        yield Field(number, message[position : position + length])
        position += length


def only(message: bytes, number: int) -> bytes:
    """The one message, or text, in a field.

    Raises:
        ValueError: There is not exactly one.
    """
    (value,) = [field.value for field in fields(message) if field.number == number]
    return as_bytes(value)


def as_bytes(value: int | bytes) -> bytes:
    """The value of a field that is a message or text."""
    if isinstance(value, int):
        raise ValueError(value)  # noqa: TRY004 not a wrong argument, a wrong message
    return value


def as_number(value: int | bytes) -> int:
    """The value of a field that is a number."""
    if isinstance(value, bytes):
        raise ValueError("bytes where a number belongs")  # noqa: TRY004 a wrong message
    return value


class Message:
    """The fields of a message by number. Of a field that is not repeated, the last value counts."""

    def __init__(self, message: bytes) -> None:
        self._values: dict[int, list[int | bytes]] = {}
        for number, value in fields(message):
            self._values.setdefault(number, []).append(value)

    def number(self, field: int, default: int = 0) -> int:
        """A number that is not negative."""
        values = self._values.get(field)
        return as_number(values[-1]) if values else default

    def optional(self, field: int) -> int | None:
        """A number that is not negative, or None if it is absent."""
        values = self._values.get(field)
        return as_number(values[-1]) if values else None

    def signed(self, field: int) -> int | None:
        """A number in zigzag form, or None if it is absent."""
        value = self.optional(field)
        return None if value is None else zigzag(value)

    def double(self, field: int) -> float | None:
        """A number of eight bytes, or None if it is absent."""
        value = self.content(field)
        if value is None:
            return None
        if len(value) != struct.calcsize("<d"):
            raise ValueError("a double has eight bytes")
        return float(struct.unpack("<d", value)[0])

    def content(self, field: int) -> bytes | None:
        """Bytes, text or a message, or None if it is absent."""
        values = self._values.get(field)
        return as_bytes(values[-1]) if values else None

    def contents(self, field: int) -> list[bytes]:
        """All bytes, texts or messages of a repeated field."""
        return [as_bytes(value) for value in self._values.get(field, ())]

    def numbers(self, field: int) -> list[int]:
        """All numbers of a repeated field, packed or not."""
        found: list[int] = []
        for value in self._values.get(field, ()):
            if isinstance(value, int):
                found.append(value)
                continue
            position = 0
            while position < len(value):
                number, position = varint(value, position)
                found.append(number)
        return found


def varint(message: bytes | memoryview, position: int) -> tuple[int, int]:
    """The number at a position, and the position after it.

    Raises:
        ValueError: The message ends within the number, or the number is too long.
    """
    value = shift = 0
    while True:
        if position >= len(message):
            raise ValueError("a number has no end")
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 the high bit says that more follows
            return value & _64_BITS, position
        shift += 7
        if shift > _LAST_SHIFT:
            raise ValueError("a number has more than 64 bits")


def zigzag(value: int) -> int:
    """The signed number of a zigzag form.

    >>> [zigzag(value) for value in range(4)]
    [0, -1, 1, -2]
    """
    return (value >> 1) ^ -(value & 1)


def encode_varint(value: int) -> bytes:
    """A number that is not negative."""
    encoded = bytearray()
    while value > 0x7F:  # noqa: PLR2004 seven bits per byte
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encode_field(number: int, value: int | bytes) -> bytes:
    """A field: a number that is not negative, or bytes, text or a message."""
    if isinstance(value, int):
        return encode_varint(number << 3 | _VARINT) + encode_varint(value)
    return encode_varint(number << 3 | _LENGTH_DELIMITED) + encode_varint(len(value)) + value
