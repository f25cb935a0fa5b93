"""Parses PyArrow expressions into trees.

In: a `pyarrow.compute.Expression`, which does not expose its tree. Out: `Call`, `Field` and
`Literal` nodes with exact types, and sub-expressions as expressions again.

An expression pickles as an Arrow IPC file: literals and function options are columns, and the
tree is the schema's custom metadata, a list of pairs in prefix order: `call NAME`, its
arguments, optionally `options COLUMN`, `end NAME`; `literal COLUMN`; `field_ref NAME`;
`nested_field_ref N` before the N names of a struct path. Keys repeat, which the Python API for
metadata hides, so the pairs are read from the schema's flatbuffer.

Why not Substrait: it cannot represent nanosecond timestamps, unsigned literals or safe casts, and
DataFusion pushes all of them down.

Invariant: `subexpression` of the whole range returns an equal expression. The format is internal
to pyarrow: `tests/unit/test_internals.py` checks it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lm_datafusion.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Iterator

_IPC_FILE_MAGIC_BYTES = 8  # "ARROW1" and padding to eight bytes
_SCHEMA_CUSTOM_METADATA = 2  # position of the field in flatbuffer table Schema
_MESSAGE_HEADER = 2  # position of the field in flatbuffer table Message


@dataclass(frozen=True, slots=True)
class Field:
    """A column, or a leaf of a struct column."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """A typed value."""

    value: pa.Scalar


@dataclass(frozen=True, slots=True)
class Call:
    """A PyArrow function, its arguments, and its options as a struct scalar."""

    function: str
    arguments: tuple[Node, ...]
    options: pa.Scalar | None
    start: int
    stop: int


Node = Field | Literal | Call


class ExpressionTree:
    """One expression, parsed."""

    def __init__(self, expression: pc.Expression) -> None:
        try:
            restore, (buffer,) = expression.__reduce__()
        except pa.ArrowException as error:
            # References by position cannot be pickled.
            raise UnsupportedFeatureError(f"cannot look into {expression}: {error}") from error
        self._restore = restore
        self._batch = pa.ipc.open_file(pa.BufferReader(buffer)).get_batch(0)
        self._pairs = list(_schema_metadata(buffer))
        self.root, stop = self._parse(0)
        if stop != len(self._pairs):
            raise UnsupportedFeatureError(f"cannot look into {expression}")

    def subexpression(self, call: Call) -> pc.Expression:
        """A call of this tree as a separate expression."""
        metadata = pa.KeyValueMetadata(self._pairs[call.start : call.stop])
        # Not made from columns: without literals there are none, but there is one row.
        batch = self._batch.replace_schema_metadata(metadata)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return self._restore(sink.getvalue())

    def _parse(self, position: int) -> tuple[Node, int]:
        kind, value = self._pairs[position]
        if kind == "literal":
            return Literal(self._batch.column(int(value))[0]), position + 1
        if kind == "field_ref":
            return Field((value,)), position + 1
        if kind == "nested_field_ref":
            stop = position + 1 + int(value)
            return Field(tuple(name for _, name in self._pairs[position + 1 : stop])), stop
        if kind == "call":
            return self._parse_call(position)
        raise UnsupportedFeatureError(f"unknown part of an expression: {kind}")

    def _parse_call(self, start: int) -> tuple[Call, int]:
        function = self._pairs[start][1]
        arguments: list[Node] = []
        options = None
        position = start + 1
        while self._pairs[position][0] != "end":
            kind, value = self._pairs[position]
            if kind == "options":
                options = self._batch.column(int(value))[0]
                position += 1
            else:
                argument, position = self._parse(position)
                arguments.append(argument)
        stop = position + 1
        return Call(function, tuple(arguments), options, start, stop), stop


def fields(node: Node) -> Iterator[Field]:
    """Every column reference below a node."""
    match node:
        case Field():
            yield node
        case Call(arguments=arguments):
            for argument in arguments:
                yield from fields(argument)
        case Literal():
            return


def _schema_metadata(ipc_file: pa.Buffer) -> Iterator[tuple[str, str]]:
    """Key-value pairs of an IPC file's schema message, in order, including repeated keys."""
    message = pa.ipc.read_message(ipc_file.slice(_IPC_FILE_MAGIC_BYTES))
    data = message.metadata.to_pybytes()
    root = _offset(data, 0)
    schema = _table_field(data, root, _MESSAGE_HEADER)
    vector = _table_field(data, schema, _SCHEMA_CUSTOM_METADATA) if schema else 0
    count = _integer(data, vector) if vector else 0
    for index in range(count):
        pair = _offset(data, vector + 4 + 4 * index)
        yield _string(data, _table_field(data, pair, 0)), _string(data, _table_field(data, pair, 1))


def _integer(data: bytes, position: int) -> int:
    return int(struct.unpack_from("<i", data, position)[0])


def _offset(data: bytes, position: int) -> int:
    """Flatbuffers point forward, relative to the pointer."""
    return position + int(struct.unpack_from("<I", data, position)[0])


def _table_field(data: bytes, table: int, index: int) -> int:
    """Where a field of a flatbuffer table points to; 0 if it is not set."""
    vtable = table - _integer(data, table)
    size = struct.unpack_from("<H", data, vtable)[0]
    slot = 4 + 2 * index
    if slot >= size:
        return 0
    relative = struct.unpack_from("<H", data, vtable + slot)[0]
    return _offset(data, table + relative) if relative else 0


def _string(data: bytes, position: int) -> str:
    length = _integer(data, position)
    return data[position + 4 : position + 4 + length].decode()
