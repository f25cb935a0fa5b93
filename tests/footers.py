"""Footers changed field by field: files for tests that no writer at hand would write.

A struct is a dict from field id to `(kind, value)`; the value of a struct is such a dict, that of
a list is `(kind, values)`. Kinds are kept, so that what is not changed is written as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lm_datafusion.formats.parquet import thrift
from lm_datafusion.formats.parquet.thrift import Kind, write_struct

if TYPE_CHECKING:
    from collections.abc import Callable

Struct = dict[int, tuple[Kind, Any]]


def with_footer(data: bytes, change: Callable[[Struct], None]) -> bytes:
    """The file with a changed footer; pages stay where they are."""
    size = int.from_bytes(data[-8:-4], "little")
    footer, _ = read_typed(data[-8 - size : -8])
    change(footer)
    encoded = write_typed(footer)
    return data[: -8 - size] + encoded + len(encoded).to_bytes(4, "little") + b"PAR1"


def read_typed(data: bytes, pos: int = 0) -> tuple[Struct, int]:
    """The struct at a position, and where it ends."""
    fields: Struct = {}
    field_id = 0
    while header := data[pos]:
        pos += 1
        nibble = header & 0x0F
        if header > 0x0F:
            field_id += header >> 4
        else:
            field_id, pos = thrift._read_integer(data, pos, 0)
        if nibble in (1, 2):
            fields[field_id] = (Kind.BOOL, nibble == 1)
            continue
        value, pos = _read_value(data, pos, Kind(nibble))
        fields[field_id] = (Kind(nibble), value)
    return fields, pos + 1


def _read_value(data: bytes, pos: int, kind: Kind) -> tuple[Any, int]:
    if kind is Kind.STRUCT:
        return read_typed(data, pos)
    if kind is not Kind.LIST:
        return thrift._READERS[kind](data, pos, 0)
    count, nibble, pos = thrift._read_list_header(data, pos)
    if nibble in (1, 2):
        values, pos = thrift._read_bools(data, pos, count)
        return (Kind.BOOL, values), pos
    values = []
    for _ in range(count):
        value, pos = _read_value(data, pos, Kind(nibble))
        values.append(value)
    return (Kind(nibble), values), pos


def write_typed(struct: Struct) -> bytes:
    """The bytes of a struct, its fields by ascending id."""
    return write_struct(
        (i, kind, _encoded(kind, value)) for i, (kind, value) in sorted(struct.items())
    )


def _encoded(kind: Kind, value: Any) -> Any:
    if kind is Kind.STRUCT:
        return write_typed(value)
    if kind is Kind.LIST:
        return value[0], [_encoded(value[0], element) for element in value[1]]
    return value


def chunks_of(footer: Struct, column: int) -> list[Struct]:
    """The `ColumnMetaData` of a column, by row group."""
    return [group[1][1][1][column][3][1] for group in footer[4][1][1]]


def elements_of(footer: Struct) -> list[Struct]:
    """The `SchemaElement`s, the root first."""
    return footer[2][1][1]
