"""Tab-separated text as ClickHouse writes it: rows are lines, fields are parted by tabs.

In: bytes of whole lines. Out: per column a binary array of raw fields, for the lines that have as
many fields as there are columns, and the numbers of fields of the lines that have not. Special
characters are escaped by a backslash, so that a line break always ends a row; `unescape` undoes
it. `write_tsv` is the way back.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa

from clickbench.schema import DATE_COLUMNS, SCHEMA, TIME_COLUMNS

if TYPE_CHECKING:
    from clickbench.model.noise import Flags, Integers

NULL = b"\\N"
_ESCAPES = {
    b"b": b"\b", b"f": b"\f", b"r": b"\r", b"n": b"\n", b"t": b"\t", b"0": b"\0", b"'": b"'",
    b"\\": b"\\",
}  # fmt: skip
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_SPECIAL = re.compile(r"[\b\f\r\n\t\0'\\]")
_NAMES = {value.decode(): "\\" + key.decode() for key, value in _ESCAPES.items()}


@dataclass(frozen=True)
class Fields:
    """Lines cut into fields."""

    columns: list[pa.Array]  # raw fields, of the lines in `whole`
    whole: Integers  # lines that have the right number of fields
    counts: Integers  # fields of every line
    line_starts: Integers
    line_ends: Integers


def split_fields(data: bytes, column_count: int) -> Fields:
    """Cuts lines into fields; the last line may lack its line break."""
    text = np.frombuffer(data, dtype=np.uint8)
    breaks = np.flatnonzero(text == ord("\n"))
    if len(text) and (not len(breaks) or breaks[-1] != len(text) - 1):
        breaks = np.append(breaks, len(text))
    starts = np.concatenate([[0], breaks[:-1] + 1]).astype(np.int64)
    tabs = np.flatnonzero(text == ord("\t"))
    first_tab = np.searchsorted(tabs, starts)
    counts = np.searchsorted(tabs, breaks) - first_tab + 1
    whole = np.flatnonzero(counts == column_count)
    inner = tabs[first_tab[whole][:, None] + np.arange(column_count - 1)]
    begins = np.concatenate([starts[whole][:, None], inner + 1], axis=1)
    ends = np.concatenate([inner, breaks[whole][:, None]], axis=1)
    columns = [_gather(text, begins[:, c], ends[:, c]) for c in range(column_count)]
    return Fields(columns, whole, counts, starts, breaks)


def _gather(text: np.ndarray[Any, Any], begins: Integers, ends: Integers) -> pa.Array:
    lengths = ends - begins
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    index = np.repeat(begins - offsets[:-1], lengths) + np.arange(offsets[-1])
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(lengths),
        [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(text[index])],
    )  # fmt: skip


def unescape(field: bytes) -> bytes:
    """A field as it was before it was escaped.

    Raises:
        ValueError: It ends in the middle of an escape.
    """
    if (len(field) - len(field.rstrip(b"\\"))) % 2:
        raise ValueError("ends in the middle of an escape")
    return _ESCAPED.sub(lambda match: _ESCAPES.get(match[1], match[1]), field)


def has_backslash(column: pa.Array) -> Flags:
    """Which fields need a closer look."""
    import pyarrow.compute as pc

    found: Flags = pc.match_substring(column, "\\").to_numpy(zero_copy_only=False)
    return found


def write_tsv(table: pa.Table, file: BinaryIO) -> None:
    """Writes rows as ClickHouse does: dates and times as text, special characters escaped."""
    columns = [_as_text(table[field.name], field.name) for field in SCHEMA]
    file.writelines("\t".join(row).encode() + b"\n" for row in zip(*columns, strict=True))


def _as_text(column: pa.ChunkedArray, name: str) -> list[str]:
    values = column.to_pylist()
    if name in DATE_COLUMNS:
        first = dt.date(1970, 1, 1)
        return [str(first + dt.timedelta(days=value)) for value in values]
    if name in TIME_COLUMNS:
        return [f"{dt.datetime.fromtimestamp(value, dt.UTC):%Y-%m-%d %H:%M:%S}" for value in values]
    if pa.types.is_string(column.type):
        return [_SPECIAL.sub(lambda match: _NAMES[match[0]], value) for value in values]
    return [str(value) for value in values]
