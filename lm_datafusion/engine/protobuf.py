"""The wire format of Protocol Buffers, as far as DataFusion's serialised plans need it.

In: a message as bytes. Out: its fields.

Why by hand: the package `protobuf` would need DataFusion's message definitions, which are not
published for Python. What is read here is the wire format, which never changes.

Invariant: bytes that are not a message raise `ValueError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_VARINT, _EIGHT_BYTES, _LENGTH_DELIMITED, _FOUR_BYTES = 0, 1, 2, 5


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
        key, position = _varint(message, position)
        number, wire_type = key >> 3, key & 7
        if wire_type == _VARINT:
            value, position = _varint(message, position)
            yield Field(number, value)
            continue
        if wire_type == _LENGTH_DELIMITED:
            length, position = _varint(message, position)
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
