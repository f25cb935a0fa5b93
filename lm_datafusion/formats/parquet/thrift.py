"""The Thrift compact protocol, the encoding of every Parquet footer, header and index.

In: bytes. Out: a struct as `dict[field id, value]` and the offset of the byte after it; or, in
reverse, fields in, bytes out. No file is touched here.

Values are plain Python: `bool`, `int`, `float`, `bytes`, `list`, and `dict` for nested structs.
Section names cited below are those of "Thrift compact protocol encoding"
(thrift-compact-protocol.md).

Why one recursive function and no class per token: this way a token costs about 0.25 microseconds,
and one end-of-buffer test per struct (the `IndexError` of the outermost call) covers all tokens.

Invariants:
* Malformed input raises `ThriftError` and nothing else, in time and memory linear in the input: a
  list never has more elements than there are bytes left, and nesting is bounded.
* Every proper prefix of a well-formed struct raises `NeedMoreData`.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Octets: TypeAlias = bytes | bytearray | memoryview
Fields: TypeAlias = dict[int, Any]
T = TypeVar("T")

MAX_DEPTH = 32  # Parquet's own structs nest 7 deep (footer to column statistics)
MAX_LENGTH = 2**31 - 1  # "Binary encoding", "List and Set": sizes are non-negative i32


class ThriftError(ValueError):
    """The bytes are not valid Thrift. Callers add path and column, or fail open."""


class NeedMoreData(ThriftError):  # noqa: N818 arrow-rs' name: a request to the caller, not yet a fault
    """The buffer ends inside the structure."""


class Kind(IntEnum):
    """Types of fields and elements. A field that is false has type 2 instead of `BOOL`."""

    BOOL = 1
    I8 = 3
    I16 = 4
    I32 = 5
    I64 = 6
    DOUBLE = 7
    BINARY = 8
    LIST = 9
    SET = 10
    STRUCT = 12


_FALSE = 2


def read_struct(buffer: Octets, offset: int = 0) -> tuple[Fields, int]:
    """Read the struct that begins at `offset`.

    Args:
        buffer: Any bytes; more may follow the struct.
        offset: Where the struct begins.

    Returns:
        The fields by id, and the offset of the first byte after the struct.

    Raises:
        NeedMoreData: The buffer ends inside the struct.
        ThriftError: The bytes are not a struct.

    >>> read_struct(bytes([0x15, 0x04, 0x16, 0x01, 0x00]))
    ({1: 2, 2: -1}, 5)
    """
    try:
        return _read_fields(_octets(buffer, offset), offset, 0)
    except IndexError:
        raise _ends_inside(buffer, offset) from None


def skip_struct(buffer: Octets, offset: int = 0) -> int:
    """Offset of the first byte after the struct at `offset`; checks what `read_struct` checks."""
    return read_struct(buffer, offset)[1]


def read_struct_list(
    buffer: Octets, field_id: int
) -> tuple[Fields, list[tuple[bytes, Fields]], int]:
    """Read a struct up to and including one list of structs, keeping the bytes of each element.

    Args:
        buffer: Bytes that begin with the struct; nothing after the list is read.
        field_id: The field of the list.

    Returns:
        The fields before the list, for each element its bytes and its fields, and the offset of
        the first byte after the list.

    Raises:
        NeedMoreData: The buffer ends before the list does.
        ThriftError: The bytes are not a struct, or it has no such list.
    """
    try:
        return _read_until_list(_octets(buffer, 0), field_id)
    except IndexError:
        raise _ends_inside(buffer, 0) from None


def read_list_header(buffer: Octets, offset: int) -> tuple[int, int, int]:
    """Number of elements of the list at `offset`, their type, and where the first begins."""
    try:
        return _read_list_header(_octets(buffer, offset), offset)
    except IndexError:
        raise _ends_inside(buffer, offset) from None


def required(fields: Fields, field_id: int, kind: type[T]) -> T:
    """The field's value, which must be present and a `kind`; `ThriftError` otherwise."""
    value = fields.get(field_id)
    if type(value) is not kind:
        raise ThriftError(
            f"field {field_id} should be {kind.__name__}, it is {type(value).__name__}"
        )
    return value


def optional(fields: Fields, field_id: int, kind: type[T]) -> T | None:
    """The field's value or `None`; `ThriftError` if it is present but not a `kind`."""
    return required(fields, field_id, kind) if field_id in fields else None


def required_list(fields: Fields, field_id: int, kind: type[T]) -> list[T]:
    """The field's list, whose elements must be `kind`s; `ThriftError` otherwise."""
    values: list[T] = required(fields, field_id, list)
    # All elements of a list have one type ("List and Set"), so checking the first is enough.
    if values and type(values[0]) is not kind:
        raise ThriftError(f"field {field_id} should be a list of {kind.__name__}")
    return values


# --- reading ------------------------------------------------------------------------------------
# Private readers take (data, position, depth), return (value, position after it), and let the
# IndexError of a buffer that ends too early pass to the public functions above.


def _octets(buffer: Octets, offset: int) -> bytes | memoryview:
    """The buffer as something whose elements are integers from 0 to 255."""
    if offset < 0:
        raise ThriftError(f"offset {offset} is negative")
    # Other buffers may have signed elements (pyarrow's do): cast.
    return buffer if type(buffer) is bytes else memoryview(buffer).cast("B")


def _ends_inside(buffer: Octets, offset: int) -> NeedMoreData:
    size = memoryview(buffer).nbytes
    return NeedMoreData(f"the structure at byte {offset} does not end within {size} bytes")


def _read_fields(data: bytes | memoryview, pos: int, depth: int) -> tuple[Fields, int]:
    """Read a struct ("Struct encoding")."""
    if depth > MAX_DEPTH:
        raise ThriftError(f"structure nested deeper than {MAX_DEPTH}")
    fields: Fields = {}
    field_id = 0
    while header := data[pos]:
        pos += 1
        kind = header & 0x0F
        if header > 0x0F:
            field_id += header >> 4
        else:
            field_id, pos = _read_integer(data, pos, depth)
        if 4 <= kind <= 6:  # _read_integer written out: most fields are integers of one byte
            raw = data[pos]
            if raw < 0x80:
                pos += 1
            else:
                raw, pos = _read_varint(data, pos)
            fields[field_id] = raw >> 1 ^ -(raw & 1)
        elif 1 <= kind <= 2:  # the value of a bool field is its type
            fields[field_id] = kind == 1
        else:
            fields[field_id], pos = _READERS[kind](data, pos, depth + 1)
    return fields, pos + 1


def _read_list(data: bytes | memoryview, pos: int, depth: int) -> tuple[list[Any], int]:
    """Read a list or a set ("List and Set")."""
    if depth > MAX_DEPTH:
        raise ThriftError(f"structure nested deeper than {MAX_DEPTH}")
    count, kind, pos = _read_list_header(data, pos)
    if 1 <= kind <= 2:
        return _read_bools(data, pos, count)
    read = _READERS[kind]
    values = []
    for _ in range(count):
        value, pos = read(data, pos, depth + 1)
        values.append(value)
    return values, pos


def _read_list_header(data: bytes | memoryview, pos: int) -> tuple[int, int, int]:
    """Number of elements, their type, and where they begin."""
    count, kind = data[pos] >> 4, data[pos] & 0x0F
    if count < 15:
        return count, kind, pos + 1
    count, pos = _read_size(data, pos + 1)
    return count, kind, pos


def _read_binary(data: bytes | memoryview, pos: int, _depth: int) -> tuple[bytes, int]:
    """Read bytes or text ("Binary encoding")."""
    size = data[pos]
    if size < 0x80:
        pos += 1
    else:
        size, pos = _read_size(data, pos)
    # A slice that is too short fails at the next byte: no struct ends with a value.
    return bytes(data[pos : pos + size]), pos + size


def _read_size(data: bytes | memoryview, pos: int) -> tuple[int, int]:
    """Read a number of bytes, or of elements that each take at least a byte."""
    size, pos = _read_varint(data, pos)
    if size > MAX_LENGTH:
        raise ThriftError(f"size {size} before byte {pos} is above {MAX_LENGTH}")
    if pos + size > len(data):
        raise IndexError
    return size, pos


def _read_bools(data: bytes | memoryview, pos: int, count: int) -> tuple[list[bool], int]:
    """Read bool elements: true is 1; false is 2 in practice, 0 in the specification."""
    if pos + count > len(data):
        raise IndexError
    raw = bytes(data[pos : pos + count])
    if raw.translate(None, b"\x00\x01\x02"):
        raise ThriftError(f"a bool after byte {pos} is neither true nor false")
    return [octet == 1 for octet in raw], pos + count


def _read_i8(data: bytes | memoryview, pos: int, _depth: int) -> tuple[int, int]:
    return data[pos] - ((data[pos] & 0x80) << 1), pos + 1


def _read_double(data: bytes | memoryview, pos: int, _depth: int) -> tuple[float, int]:
    if pos + 8 > len(data):
        raise IndexError
    return struct.unpack_from("<d", data, pos)[0], pos + 8


def _read_integer(data: bytes | memoryview, pos: int, _depth: int) -> tuple[int, int]:
    """Read a zigzag integer ("Integer encoding")."""
    raw = data[pos]
    if raw < 0x80:
        pos += 1
    else:
        raw, pos = _read_varint(data, pos)
    return raw >> 1 ^ -(raw & 1), pos


def _read_varint(data: bytes | memoryview, pos: int) -> tuple[int, int]:
    """Read an unsigned LEB128 integer of at most 64 bits."""
    value = shift = 0
    while (byte := data[pos]) > 0x7F:
        value |= (byte & 0x7F) << shift
        shift += 7
        pos += 1
        if shift > 63:
            raise ThriftError(f"integer before byte {pos} is longer than 10 bytes")
    value |= byte << shift
    if value >> 64:
        raise ThriftError(f"integer at byte {pos} has more than 64 bits")
    return value, pos + 1


def _read_nothing(data: bytes | memoryview, pos: int, _depth: int) -> NoReturn:
    raise ThriftError(f"the type of the value at byte {pos} of {len(data)} is not in Parquet")


# By type number. Bools (1, 2) are read inline, in fields and in lists; no Parquet structure has a
# map (11) or a UUID (13).
_READERS: tuple[Callable[[bytes | memoryview, int, int], tuple[Any, int]], ...] = (
    *(_read_nothing, _read_nothing, _read_nothing, _read_i8),
    *(_read_integer, _read_integer, _read_integer, _read_double),
    *(_read_binary, _read_list, _read_list, _read_nothing),
    *(_read_fields, _read_nothing, _read_nothing, _read_nothing),
)


def _read_until_list(
    data: bytes | memoryview, wanted: int
) -> tuple[Fields, list[tuple[bytes, Fields]], int]:
    """Read the fields before a list of structs, then the structs."""
    before: Fields = {}
    field_id = pos = 0
    while header := data[pos]:
        pos += 1
        kind = header & 0x0F
        if header > 0x0F:
            field_id += header >> 4
        else:
            field_id, pos = _read_integer(data, pos, 0)
        if field_id == wanted:
            return before, *_read_raw_structs(data, pos, kind)
        if 1 <= kind <= 2:
            before[field_id] = kind == 1
        else:
            before[field_id], pos = _READERS[kind](data, pos, 1)
    raise ThriftError(f"the struct has no field {wanted}")


def _read_raw_structs(
    data: bytes | memoryview, pos: int, kind: int
) -> tuple[list[tuple[bytes, Fields]], int]:
    if kind != Kind.LIST:
        raise ThriftError(f"the field before byte {pos} should be a list, its type is {kind}")
    count, kind, pos = _read_list_header(data, pos)
    if count and kind != Kind.STRUCT:
        raise ThriftError(f"the list before byte {pos} should be of structs, its type is {kind}")
    elements = []
    for _ in range(count):
        fields, stop = _read_fields(data, pos, 2)
        elements.append((bytes(data[pos:stop]), fields))
        pos = stop
    return elements, pos


# --- writing ------------------------------------------------------------------------------------

STOP = b"\0"
_BITS = {Kind.I8: 8, Kind.I16: 16, Kind.I32: 32, Kind.I64: 64}


def write_struct(fields: Iterable[tuple[int, Kind, Any]]) -> bytes:
    """Write a struct.

    Args:
        fields: Field id, type and value of each field, preferably by ascending id. The value of a
            `STRUCT` is its bytes, so that structs from a file are embedded unchanged; the value of
            a `LIST` is a pair of element type and elements.

    Returns:
        The struct's bytes.

    >>> name = write_struct([(1, Kind.BINARY, b"x")])
    >>> read_struct(write_struct([(1, Kind.I32, -2), (4, Kind.LIST, (Kind.STRUCT, [name]))]))[0]
    {1: -2, 4: [{1: b'x'}]}
    """
    return write_fields(fields) + STOP


def write_fields(fields: Iterable[tuple[int, Kind, Any]], previous_id: int = 0) -> bytes:
    """Write some fields of a struct, as `write_struct` does; `STOP` ends the struct.

    Args:
        fields: As for `write_struct`.
        previous_id: The id of the field before these: ids are written as differences.
    """
    out = bytearray()
    for field_id, kind, value in fields:
        nibble = _FALSE if kind is Kind.BOOL and not value else kind
        delta = field_id - previous_id
        if 0 < delta < 16:
            out.append(delta << 4 | nibble)
        else:
            out.append(nibble)
            _write_integer(out, Kind.I16, field_id)
        if kind is not Kind.BOOL:
            _write_value(out, kind, value)
        previous_id = field_id
    return bytes(out)


def _write_value(out: bytearray, kind: Kind, value: Any) -> None:
    if kind is Kind.STRUCT:
        out += value
    elif kind is Kind.BINARY:
        _write_varint(out, len(value))
        out += value
    elif kind is Kind.LIST:
        _write_list(out, *value)
    elif kind is Kind.BOOL:
        out.append(1 if value else _FALSE)
    elif kind is Kind.DOUBLE:
        out += struct.pack("<d", value)
    elif kind is Kind.I8:
        out += struct.pack("b", value)
    elif kind in _BITS:
        _write_integer(out, kind, value)
    else:
        raise NotImplementedError(f"Parquet has no field of type {kind.name}")


def _write_list(out: bytearray, kind: Kind, values: Sequence[Any]) -> None:
    count = len(values)
    out.append(min(count, 15) << 4 | kind)
    if count >= 15:
        _write_varint(out, count)
    for value in values:
        _write_value(out, kind, value)


def _write_integer(out: bytearray, kind: Kind, value: int) -> None:
    bits = _BITS[kind]
    assert -(1 << bits - 1) <= value < 1 << bits - 1, f"{value} does not fit {kind.name}"
    _write_varint(out, value << 1 ^ value >> bits - 1)


def _write_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
