"""Columns from outside made to fit the schema of `hits`; rows that do not fit are named.

In: raw fields of a text file, or a record batch of a Parquet file. Out: `Conformed`: a table of
the rows that fit, and for each row that does not, the reason. A row is judged by the first
column that does not fit.

Text that is not UTF-8 is not a reason: the real data holds such bytes in a few small columns.
They are replaced by U+FFFD, and the values counted by column.

Invariant: every row that comes in is either in the table or among the bad ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from clickbench.schema import DATE_COLUMNS, SCHEMA, TIME_COLUMNS
from clickbench.tsv import NULL, has_backslash, unescape

_Quick = Callable[[pa.Array, pa.Field], pa.Array]
_Read = Callable[[Any], Any]
_SHOWN = 40  # bytes of a value in a reason


class SchemaError(RuntimeError):
    """A file that cannot be `hits` at all: columns are missing or of another kind."""


@dataclass
class Conformed:
    """What came of a batch of rows."""

    table: pa.Table
    bad: dict[int, str] = field(default_factory=dict)  # row of the batch -> reason
    repaired: Counter[str] = field(default_factory=Counter)


class _Judge:
    """Collects columns and the rows that do not fit."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._arrays: list[pa.Array] = []
        self.bad: dict[int, str] = {}
        self.repaired: Counter[str] = Counter()

    def convert(
        self, column: pa.Array, expected: pa.Field, quick: _Quick, read: _Read, row: int = 0
    ) -> pa.Array:
        """Converts a column at once or, where that fails, the halves of it that can be.

        Text goes value by value when something is odd about it, since escapes are in many rows.
        """
        try:
            return quick(column, expected)
        except (pa.ArrowInvalid, ValueError):
            half = len(column) // 2
            if half == 0 or pa.types.is_string(expected.type):
                return self._slowly(expected, column.to_pylist(), read, row)
            first = self.convert(column.slice(0, half), expected, quick, read, row)
            rest = self.convert(column.slice(half), expected, quick, read, row + half)
            return pa.concat_arrays([first, rest])

    def _slowly(self, expected: pa.Field, values: list[Any], read: _Read, start: int) -> pa.Array:
        """Reads value by value; a row whose value cannot be read is bad."""
        name, kind = expected.name, expected.type
        blank: Any = "" if pa.types.is_string(kind) else 0
        out = []
        for row, value in enumerate(values, start):
            try:
                out.append(read(value))
            except ValueError as error:
                out.append(blank)
                self.bad.setdefault(row, f"{name}: {error}")
        return pa.array(out, kind)

    def text(self, name: str, data: bytes) -> str:
        """Text of bytes, repaired and counted if need be."""
        try:
            return data.decode()
        except UnicodeDecodeError:
            self.repaired[name] += 1
            return data.decode(errors="replace")

    def finish(self, arrays: list[pa.Array]) -> Conformed:
        """The rows that fit."""
        table = pa.Table.from_arrays(arrays, schema=SCHEMA)
        if self.bad:
            good = np.ones(self._rows, dtype=np.bool_)
            good[list(self.bad)] = False
            table = table.filter(pa.array(good))
        return Conformed(table, self.bad, self.repaired)


def conform_text(columns: list[pa.Array]) -> Conformed:
    """Raw fields of text, one array per column of the schema."""
    judge = _Judge(len(columns[0]))
    arrays = []
    for column, expected in zip(columns, SCHEMA, strict=True):
        read = _text_reader(expected, judge)
        arrays.append(judge.convert(column, expected, _quick_text, read))
    return judge.finish(arrays)


def _quick_text(column: pa.Array, expected: pa.Field) -> pa.Array:
    """The whole column at once, if nothing is odd about it."""
    text = column.cast(pa.string())
    if pa.types.is_string(expected.type):
        if has_backslash(column).any():
            raise ValueError("escapes")
        return text
    if expected.name in DATE_COLUMNS:
        return text.cast(pa.date32()).cast(pa.int32()).cast(expected.type)
    if expected.name in TIME_COLUMNS:
        return text.cast(pa.timestamp("s")).cast(pa.int64())
    return text.cast(expected.type)


def _text_reader(expected: pa.Field, judge: _Judge) -> Callable[[bytes], Any]:
    """A function that reads one raw field, or raises ValueError with the reason."""
    is_text = pa.types.is_string(expected.type)

    def read(raw: bytes) -> Any:
        if raw == NULL:
            raise ValueError("no value")
        if is_text:
            return judge.text(expected.name, unescape(raw) if b"\\" in raw else raw)
        try:
            return _quick_text(pa.array([raw], pa.binary()), expected)[0].as_py()
        except (pa.ArrowInvalid, ValueError):
            raise ValueError(f"{_shown(raw)} is no {_kind(expected)}") from None

    return read


def _kind(expected: pa.Field) -> str:
    if expected.name in DATE_COLUMNS:
        return "date"
    return "time" if expected.name in TIME_COLUMNS else str(expected.type)


def _shown(raw: bytes) -> str:
    text = raw[:_SHOWN].decode(errors="backslashreplace")
    return repr(text + ("..." if len(raw) > _SHOWN else ""))


def conform_batch(batch: pa.RecordBatch) -> Conformed:
    """A record batch of a Parquet file, with columns in any order.

    Raises:
        SchemaError: A column is missing or cannot be converted.
    """
    judge = _Judge(batch.num_rows)
    arrays = []
    for expected in SCHEMA:
        index = batch.schema.get_field_index(expected.name)
        if index < 0:
            raise SchemaError(f"there is no column {expected.name}")
        column = batch.column(index)
        try:
            read = _value_reader(expected, judge)
            arrays.append(judge.convert(column, expected, _quick_value, read))
        except pa.ArrowNotImplementedError:
            raise SchemaError(
                f"column {expected.name} is {column.type}, which cannot become {expected.type}"
            ) from None
    return judge.finish(arrays)


def check_schema(path: str) -> None:
    """Looks at the columns of a Parquet file before any work is done.

    Raises:
        SchemaError: A column is missing or cannot be converted.
    """
    try:
        conform_batch(pa.RecordBatch.from_pylist([], pq.read_schema(path)))
    except SchemaError as error:
        raise SchemaError(f"{path}: {error}") from None


def _quick_value(column: pa.Array, expected: pa.Field) -> pa.Array:
    if column.null_count:
        raise ValueError("nulls")
    if pa.types.is_timestamp(column.type):
        column = pc.cast(column, pa.timestamp("s", column.type.tz)).cast(pa.int64())
    elif pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_floating(column.type) or (
        pa.types.is_integer(column.type) and pa.types.is_string(expected.type)
    ):
        raise pa.ArrowNotImplementedError("another kind of column")
    return column.cast(expected.type)


def _value_reader(expected: pa.Field, judge: _Judge) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if value is None:
            raise ValueError("no value")
        if isinstance(value, bytes) and pa.types.is_string(expected.type):
            return judge.text(expected.name, value)
        try:
            return _quick_value(pa.array([value]), expected)[0].as_py()
        except (pa.ArrowInvalid, ValueError):
            raise ValueError(f"{str(value)[:_SHOWN]!r} is no {_kind(expected)}") from None

    return read
