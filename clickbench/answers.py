"""Answers of different engines in one form.

In: Arrow tables. Out: rows of plain values, and a digest.

Integers and decimals without a fraction are `int`, other numbers `float`, dates and timestamps
their ISO text (timestamps in UTC, without a zone), text and bytes `str`. Names of columns are
dropped: engines name `COUNT(*)` as they like.

Invariant: the same answer gives the same rows, whichever engine's types it came in, but for the
last digits of floats; `is_same_value` and the digest disregard those.
"""

from __future__ import annotations

import datetime as dt
import decimal
import hashlib
import json
import math
from typing import Any

import pyarrow as pa

# Engines add floats up in different orders.
RELATIVE_TOLERANCE = 1e-9

Row = list[Any]


def to_rows(table: pa.Table) -> list[Row]:
    """The rows of a table as plain values."""
    columns = [_values(column) for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def digest(rows: list[Row]) -> str:
    """A short name for an answer, rows in their order, floats to nine digits."""
    plain = [[f"{v:.9g}" if isinstance(v, float) else v for v in row] for row in rows]
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def is_same_value(left: Any, right: Any) -> bool:
    """Whether two values are equal; floats within a relative `RELATIVE_TOLERANCE`."""
    if isinstance(left, float) or isinstance(right, float):
        if left is None or right is None or isinstance(left, str) or isinstance(right, str):
            return False
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        return math.isclose(left, right, rel_tol=RELATIVE_TOLERANCE)
    return bool(left == right)


def is_same_row(left: Row, right: Row) -> bool:
    """Whether two rows are equal value by value."""
    return len(left) == len(right) and all(map(is_same_value, left, right))


def _values(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us"))
    return [_plain(value) for value in column.to_pylist()]


def _plain(value: Any) -> Any:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case decimal.Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case dt.datetime():
            return value.isoformat(sep=" ")
        case dt.date():
            return value.isoformat()
    raise TypeError(
        f"an answer has a value of type {type(value).__name__}, which has no plain form"
    )
