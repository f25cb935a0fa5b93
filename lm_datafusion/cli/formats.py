"""The formats of a result: table, CSV, JSON, newline-delimited JSON, Parquet.

In: a schema and a stream of batches. Out: chunks of bytes (UTF-8), or a Parquet file.

Every format but the table holds one batch at a time. A table holds the rows that its widths are
computed from: those it shows, or the first `SAMPLE_ROWS` if it shows all.

* CSV: a header; text is quoted, so that empty text differs from NULL, which is an empty field;
  lists, structs and maps are JSON.
* JSON: an array of objects; `values` defines how each type is written. Keys are unique: of two
  columns `id`, the second becomes `id_2`.
* Newline-delimited JSON: the same objects, one per line.

Invariant: the output is a prefix of the whole result at any time, and complete once the batches
have ended.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from lm_datafusion.cli.box import ELLIPSIS, BoxTable, visible
from lm_datafusion.cli.interrupt import DRAFTS
from lm_datafusion.cli.values import json_text, json_texts, plain_values
from lm_datafusion.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Chunks = Iterator[bytes]
    Batches = Iterable[pa.RecordBatch]

SAMPLE_ROWS: Final = 1_000
NULL: Final = "NULL"
_SLICE_ROWS: Final = 1_000  # a pipe into `head` ends after one slice, not after one batch


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """How much of a result a table shows; None for all rows, or for any width."""

    max_rows: int | None = None
    width: int | None = None


def table_chunks(schema: pa.Schema, batches: Batches, layout: TableLayout) -> Chunks:
    """A box around the rows, and a line with their count."""
    stream = iter(batches)
    limit = SAMPLE_ROWS if layout.max_rows is None else layout.max_rows
    first, left = _first_rows(stream, limit)
    is_right = [_is_number(field.type) for field in schema]
    box = BoxTable(schema.names, first, is_right=is_right, width=layout.width)
    yield _lines(itertools.chain(box.head(), map(box.line, first)))
    count, hidden = len(first), 0
    if layout.max_rows is None:
        for rows in _text_rows(itertools.chain(left, stream)):
            count += len(rows)
            yield _lines(map(box.line, rows))
    yield _lines(box.rule())
    if layout.max_rows is not None:
        # The rows are already on the screen; counting the others may take a while.
        hidden = sum(batch.num_rows for batch in itertools.chain(left, stream))
    yield _lines([_count_line(count, hidden, box)])


def csv_chunks(schema: pa.Schema, batches: Batches) -> Chunks:
    """Comma-separated values."""
    header = pa.RecordBatch.from_pylist([], schema=_csv_schema(schema))
    yield _csv(header, include_header=True)
    for batch in _slices(batches):
        columns = [_csv_column(column) for column in batch.columns]
        yield _csv(pa.RecordBatch.from_arrays(columns, names=schema.names), include_header=False)


def json_chunks(schema: pa.Schema, batches: Batches) -> Chunks:
    """One array of objects."""
    separator = "[\n"
    for objects in _json_objects(schema, batches):
        yield (separator + ",\n".join(objects)).encode()
        separator = ",\n"
    yield b"[]\n" if separator == "[\n" else b"\n]\n"


def ndjson_chunks(schema: pa.Schema, batches: Batches) -> Chunks:
    """One object per line."""
    for objects in _json_objects(schema, batches):
        yield _lines(objects)


def write_parquet(schema: pa.Schema, batches: Batches, path: str) -> None:
    """A Parquet file with a page index, so that it can be pruned well.

    Raises:
        OptionError: Two columns have the same name, so readers could not distinguish them.
    """
    twice = [name for name in schema.names if schema.names.count(name) > 1]
    if twice:
        raise OptionError(f'two columns are called "{twice[0]}"; give one another name, with AS')
    with pq.ParquetWriter(
        path, _storable(schema), compression="zstd", write_page_index=True
    ) as writer:
        for batch in batches:
            writer.write_batch(batch.cast(_storable(schema)))


@contextlib.contextmanager
def replacing(path: str) -> Iterator[str]:
    """A temporary path to write to; it replaces the file on success.

    A device or a pipe is written to directly.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        yield path
        return
    target = os.path.realpath(path)  # a symbolic link stays a link
    draft = f"{target}.{os.getpid()}.part"
    DRAFTS.add(draft)
    try:
        yield draft
        os.replace(draft, target)
    finally:
        DRAFTS.discard(draft)
        with contextlib.suppress(FileNotFoundError):
            os.remove(draft)


CHUNKS: Final[dict[str, Callable[[pa.Schema, Batches], Chunks]]] = {
    "csv": csv_chunks,
    "json": json_chunks,
    "ndjson": ndjson_chunks,
}
SUFFIXES: Final = {
    ".csv": "csv",
    ".json": "json",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".parquet": "parquet",
}


def _lines(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _slices(batches: Batches) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, _SLICE_ROWS):
            yield batch.slice(start, _SLICE_ROWS)


def _first_rows(
    stream: Iterator[pa.RecordBatch], limit: int
) -> tuple[list[list[str]], list[pa.RecordBatch]]:
    """The cells of the first rows, and the rest of the last batch."""
    rows: list[list[str]] = []
    for batch in stream:
        wanted = limit - len(rows)
        for some in _text_rows([batch.slice(0, wanted)]):
            rows += some
        if batch.num_rows >= wanted:
            return rows, [batch.slice(wanted)]
    return rows, []


def _text_rows(batches: Batches) -> Iterator[list[list[str]]]:
    for batch in _slices(batches):
        columns = [list(map(_cell, plain_values(column))) for column in batch.columns]
        yield [list(row) for row in zip(*columns, strict=True)]


def _cell(value: Any) -> str:
    match value:
        case None:
            return NULL
        case str():
            return visible(value)
        case bool() | list() | dict():
            return visible(json_text(value))
        case _:
            return str(value)


def _count_line(shown: int, hidden: int, box: BoxTable) -> str:
    count = shown + hidden
    line = f"{count:,} row{'' if count == 1 else 's'}"
    if hidden:
        line += f", {ELLIPSIS} {hidden:,} more not shown (--max-rows 0 shows all)"
    if box.hidden_count:
        line += f"; {box.hidden_count:,} columns not shown"
    return line


def _is_number(data_type: pa.DataType) -> bool:
    types = pa.types
    return (
        types.is_integer(data_type) or types.is_floating(data_type) or types.is_decimal(data_type)
    )


def _json_objects(schema: pa.Schema, batches: Batches) -> Iterator[list[str]]:
    keys = [f"{json_text(name)}: " for name in _unique(schema.names)]
    for batch in _slices(batches):
        columns = [
            [key + text for text in json_texts(column)]
            for key, column in zip(keys, batch.columns, strict=True)
        ]
        yield [f"{{{', '.join(row)}}}" for row in zip(*columns, strict=True)]


def _unique(names: Sequence[str]) -> list[str]:
    """Unique names: a second `id` becomes `id_2`."""
    taken, unique = set(names), []
    seen: set[str] = set()
    for name in names:
        candidate, number = name, 1
        while candidate in seen or (number > 1 and candidate in taken):
            number += 1
            candidate = f"{name}_{number}"
        seen.add(candidate)
        unique.append(candidate)
    return unique


def _csv(batch: pa.RecordBatch, *, include_header: bool) -> bytes:
    sink = pa.BufferOutputStream()
    pa_csv.write_csv(batch, sink, pa_csv.WriteOptions(include_header=include_header))
    return sink.getvalue().to_pybytes()


def _is_plain_csv(data_type: pa.DataType) -> bool:
    types = pa.types
    return (
        types.is_integer(data_type)
        or types.is_float64(data_type)
        or types.is_boolean(data_type)
        or types.is_decimal(data_type)
        or types.is_null(data_type)
    )


def _csv_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(f.name, f.type if _is_plain_csv(f.type) else pa.string()) for f in schema])


def _csv_column(column: pa.Array) -> pa.Array:
    """A column that pyarrow's CSV writer writes as described above."""
    if _is_plain_csv(column.type):
        return column
    values = plain_values(column)
    if pa.types.is_floating(column.type):
        return pa.array(values, pa.float64())
    if pa.types.is_nested(column.type):
        values = [None if value is None else json_text(value) for value in values]
    return pa.array([None if v is None else str(v) for v in values], pa.string())


def _storable(schema: pa.Schema) -> pa.Schema:
    """The schema with text and bytes in types that every reader supports."""
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    return pa.schema([f.with_type(plain.get(f.type, f.type)) for f in schema])
