from __future__ import annotations

import struct

import pytest

from lm_datafusion.protobuf import Message, encode_field, encode_varint, fields, varint, zigzag


def test_numbers_survive():
    for value in (0, 1, 127, 128, 300, 2**32, 2**63, 2**64 - 1):
        assert varint(encode_varint(value), 0) == (value, len(encode_varint(value)))


@pytest.mark.parametrize("data", [b"\x80", b"\x80" * 11 + b"\x01", b""])
def test_a_number_without_an_end_is_refused(data):
    with pytest.raises(ValueError, match="number"):
        varint(data, 0)


def test_zigzag():
    assert [zigzag(value) for value in (0, 1, 2, 3, 2**64 - 1)] == [0, -1, 1, -2, -(2**63)]


def test_the_last_value_of_a_field_counts():
    message = Message(encode_field(1, 5) + encode_field(1, 7))
    assert message.number(1) == 7
    assert message.number(2, 9) == 9
    assert message.optional(2) is None


def test_repeated_numbers_are_packed_or_not():
    message = Message(encode_field(1, 5) + encode_field(1, b"\x01\x80\x01"))
    assert message.numbers(1) == [5, 1, 128]


def test_values_by_kind():
    double = b"\x19" + struct.pack("<d", 1.5)
    message = Message(encode_field(1, 3) + encode_field(2, b"text") + double)
    assert message.signed(1) == -2
    assert message.content(2) == b"text"
    assert message.contents(2) == [b"text"]
    assert message.double(3) == 1.5


@pytest.mark.parametrize(
    "read",
    [
        lambda m: m.number(2),
        lambda m: m.content(1),
        lambda m: m.double(2),
        lambda m: m.contents(1),
    ],
)
def test_a_field_of_another_kind_is_refused(read):
    with pytest.raises(ValueError, match=r"."):
        read(Message(encode_field(1, 3) + encode_field(2, b"text")))


@pytest.mark.parametrize("data", [b"\x0a\x05ab", b"\x0b", b"\x09\x00", b"\x08"])
def test_what_is_no_message_is_refused(data):
    with pytest.raises(ValueError, match=r"."):
        list(fields(data))
