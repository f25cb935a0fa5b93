"""The wire format of Protocol Buffers, as far as DataFusion's serialised plans need it.

In: a message as bytes. Out: its fields; or the message with a part of it replaced.

Why by hand: the package `protobuf` would need DataFusion's message definitions, which are not
published for Python. What is read here is the wire format, which never changes.

Invariant: a replaced part leaves every other byte as it is, except the lengths around it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_VARINT, _EIGHT_BYTES, LENGTH_DELIMITED, _FOUR_BYTES = 0, 1, 2, 5


class Field(NamedTuple):
    """A field of a message: where it stands, and its value.

    Attributes:
        number: As the message's definition has it.
        start: Where its key begins.
        value_start: Where its value begins.
        stop: Where it ends.
        value: A number, or bytes.
    """

    number: int
    start: int
    value_start: int
    stop: int
    value: int | bytes


def fields(message: bytes) -> Iterator[Field]:
    """The fields of a message, in order.

    Raises:
        ValueError: It is no message.
    """
    position = 0
    while position < len(message):
        start = position
        key, position = _varint(message, position)
        number, wire_type = key >> 3, key & 7
        if wire_type == _VARINT:
            value_start = position
            value, position = _varint(message, position)
            yield Field(number, start, value_start, position, value)
            continue
        if wire_type == LENGTH_DELIMITED:
            length, position = _varint(message, position)
        elif wire_type in (_EIGHT_BYTES, _FOUR_BYTES):
            length = 8 if wire_type == _EIGHT_BYTES else 4
        else:
            raise ValueError(f"no field has wire type {wire_type}")
        if position + length > len(message):
            raise ValueError("a field ends after its message")
        yield Field(number, start, position, position + length, message[position:][:length])
        position += length


def only(message: bytes, number: int) -> bytes:
    """The one message, or text, in a field.

    Raises:
        ValueError: There is not one.
    """
    (value,) = [field.value for field in fields(message) if field.number == number]
    return as_bytes(value)


def as_bytes(value: int | bytes) -> bytes:
    """The value of a field that is a message or text."""
    if isinstance(value, int):
        raise ValueError(value)  # noqa: TRY004 not a wrong argument, a wrong message
    return value


def number_field(number: int, value: int) -> bytes:
    """A field that holds a number; nothing for zero, as is usual."""
    return _encoded(number << 3 | _VARINT) + _encoded(value) if value else b""


def bytes_field(number: int, value: bytes) -> bytes:
    """A field that holds a message or text."""
    return _encoded(number << 3 | LENGTH_DELIMITED) + _encoded(len(value)) + value


def replaced(message: bytes, old: bytes, new: bytes) -> bytes:
    """A message in which a message, however deep, is another.

    Raises:
        ValueError: The old one is not in it exactly once.
    """
    place = message.find(old)
    if place < 0 or message.find(old, place + 1) >= 0:
        raise ValueError("the part to replace is not there exactly once")
    return _replaced(message, place, place + len(old), new)


def _replaced(message: bytes, start: int, stop: int, new: bytes) -> bytes:
    if (start, stop) == (0, len(message)):
        return new
    for field in fields(message):
        if field.value_start <= start and stop <= field.stop:
            offset = field.value_start
            inner = _replaced(as_bytes(field.value), start - offset, stop - offset, new)
            whole = bytes_field(field.number, inner)
            return message[: field.start] + whole + message[field.stop :]
    raise ValueError("the part to replace is not a message")


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(message):
            raise ValueError("a number has no end")
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 the high bit says that more follows
            return value, position
        shift += 7


def _encoded(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:  # noqa: PLR2004 more than seven bits
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
