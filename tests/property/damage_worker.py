"""The process in which damaged files are read: a reader may crash here, hang, or take all memory.

    python -m tests.property.damage_worker

In: requests, a line of JSON each: a reader and the seed of a case. Out: a line of JSON each, what
came of it: an error, or values as a digest, and the peak of memory.

Everything about a case follows from its seed, so that every reader sees the same file and is asked
the same question. Readers: `ours`; `unpruned`, ours without any pruning; `datafusion`, `pyarrow`
and `duckdb`, where the last two read whole columns that DataFusion filters in memory; `whole`,
ours in the same way; `repaired`, PyArrow over the file without what no reader needs for values.

Invariant: an answer of ours that is no error holds valid arrays.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import random
import sys
import tempfile
import traceback
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from datafusion import SessionConfig, SessionContext

import lm_datafusion as lm
from lm_datafusion.formats.parquet.spec import Encoding
from lm_datafusion.formats.parquet.thrift import Kind
from lm_datafusion.predicate.literals import quote_identifier, quote_string
from lm_datafusion.selection.values import without_views
from tests.footers import with_footer
from tests.property.array_checks import check_array
from tests.property.cases import plain
from tests.property.damaged_files import BaseFile, Question, chunks_in, damage_file, draw_base

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from tests.footers import Struct

    Reader: TypeAlias = Callable[[str, Question], pa.Table]

# Fields of `ColumnMetaData`.
ENCODINGS, STATISTICS, ENCODING_STATISTICS, SIZE_STATISTICS = 2, 12, 13, 16
UNPRUNED = {
    f"prune_{name}": False for name in ("statistics", "bloom_filter", "dictionary", "page_index")
}
TRACE_CHARACTERS = 3000
FOLDER = "/dev/shm" if os.path.isdir("/dev/shm") else None


class Case:
    """A damaged file and a question about it, as its seed says."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.base: BaseFile = draw_base(rng)
        self.number = rng.randrange(len(self.base.questions))
        self.question: Question = self.base.questions[self.number]
        self.data, self.damage = damage_file(rng, self.base)

    def __str__(self) -> str:
        return (
            f"{self.base.name}, question {self.number}: {self.question.columns}"
            f" WHERE {self.question.condition}; options {self.question.options}\n"
            f"damage: {self.damage}"
        )


# --- answers ------------------------------------------------------------------------------------


def read_ours(path: str, question: Question, **changes: Any) -> pa.Table:
    options = lm.ScanOptions(**(question.options | {"string_type": "string"} | changes))
    dataset = lm.dataset(path, options=options)
    table = dataset.to_table(columns=question.columns, filter=question.condition)
    for column in table.columns:
        for chunk in column.chunks:
            check_array(chunk, len(chunk))
    return table


def _session() -> SessionContext:
    return SessionContext(SessionConfig().with_target_partitions(1))


def _ask(context: SessionContext, question: Question) -> pa.Table:
    names = ", ".join(quote_identifier(name) for name in question.columns)
    where = "" if question.condition is None else f" WHERE {question.condition}"
    return context.sql(f"SELECT {names} FROM t{where}").to_arrow_table()


def read_datafusion(path: str, question: Question) -> pa.Table:
    context = _session()
    context.register_parquet("t", path)
    return _ask(context, question)


def _filter_in_memory(table: pa.Table, question: Question) -> pa.Table:
    # Not `validate(full=True)`: damage makes times behind the end of a day, and decimals of more
    # digits than their type has. They are values that the page holds; readers hand them out.
    for column in table.columns:
        for chunk in column.chunks:
            check_array(chunk, len(chunk))
    context = _session()
    batches = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
    context.register_record_batches("t", [batches])
    return _ask(context, question)


def _needed(question: Question, names: list[str]) -> list[str]:
    condition = question.condition or ""
    return [n for n in names if n in question.columns or n.replace('"', '""') in condition]


def read_whole(path: str, question: Question) -> pa.Table:
    options = lm.ScanOptions(**(UNPRUNED | {"string_type": "string"}))
    dataset = lm.dataset(path, options=options)
    wanted = _needed(question, dataset.schema.names)
    return _filter_in_memory(dataset.to_table(columns=wanted), question)


def read_repaired(reader: Reader, path: str, question: Question) -> pa.Table:
    """Others refuse files for statistics that are too short, and for encodings that no page has.

    Pruning fails open, so ours ignores these. What is in the pages counts.
    """
    with open(path, "rb") as file:
        data = with_footer(file.read(), _drop_advice)
    with open(path, "wb") as file:
        file.write(data)
    return reader(path, question)


def _drop_advice(footer: Struct) -> None:
    for chunk in chunks_in(footer):
        metadata = chunk[3][1]
        for number in (STATISTICS, ENCODING_STATISTICS, SIZE_STATISTICS):
            metadata.pop(number, None)
        kind, encodings = metadata[ENCODINGS][1]
        known = [number for number in encodings if number in set(Encoding)]
        metadata[ENCODINGS] = (Kind.LIST, (kind, known))


def read_pyarrow(path: str, question: Question) -> pa.Table:
    file = pq.ParquetFile(path)
    wanted = _needed(question, file.schema_arrow.names)
    return _filter_in_memory(file.read(columns=wanted), question)


def read_duckdb(path: str, question: Question) -> pa.Table:
    import duckdb

    with duckdb.connect(config={"threads": 1, "memory_limit": "500MB"}) as connection:
        source = f"read_parquet({quote_string(path)})"
        names = [row[0] for row in connection.sql(f"DESCRIBE FROM {source}").fetchall()]
        wanted = ", ".join(quote_identifier(name) for name in _needed(question, names))
        found = connection.sql(f"SELECT {wanted} FROM {source}").to_arrow_table()
    return _filter_in_memory(found, question)


READERS: dict[str, Reader] = {
    "ours": read_ours,
    "unpruned": functools.partial(read_ours, **UNPRUNED),
    "datafusion": read_datafusion,
    "pyarrow": read_pyarrow,
    "duckdb": read_duckdb,
    "whole": read_whole,
}
READERS |= {
    f"{name}, repaired": functools.partial(read_repaired, READERS[name])
    for name in ("pyarrow", "datafusion", "duckdb")
}
OURS = ("ours", "unpruned", "whole")


def digest(table: pa.Table) -> str:
    """The same for the same rows, whatever type a reader has for them."""
    found = hashlib.sha256()
    for name, column in zip(table.column_names, table.columns, strict=True):
        found.update(f"{name}: {[_simple(value) for value in _values(column)]}".encode())
    return f"{table.num_rows} {found.hexdigest()[:16]}"


def _values(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    if pa.types.is_boolean(column.type):
        return column.to_pylist()
    return plain(without_views(column))


def _simple(value: Any) -> Any:
    """Text as bytes, since readers differ in which of them it is."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, list | tuple):
        return [_simple(v) for v in value]
    if isinstance(value, dict):
        return [_simple(v) for v in value.values()]
    return value


# --- requests -----------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def original_answer(base: BaseFile, number: int, folder: str) -> str | None:
    """What ours gives for the file without damage; None if the question cannot be answered."""
    path = os.path.join(folder, "whole.parquet")
    with open(path, "wb") as file:
        file.write(base.data)
    try:
        return digest(read_ours(path, base.questions[number]))
    except Exception:  # noqa: BLE001 some questions compare what cannot be compared
        return None
    finally:
        os.unlink(path)


def answer(reader: str, seed: int, folder: str) -> dict[str, Any]:
    """What a reader makes of a case."""
    case = Case(seed)
    is_ours = reader in OURS
    expected = original_answer(case.base, case.number, folder) if reader == "ours" else None
    if reader == "ours" and expected is None:
        return {"outcome": "no question"}
    path = os.path.join(folder, f"{seed}.parquet")
    with open(path, "wb") as file:
        file.write(case.data)
    reset_peak()
    try:
        found = digest(READERS[reader](path, case.question))
    except BaseException as error:  # noqa: BLE001 whatever it is, it is the outcome
        return _refused(error, is_ours, case)
    finally:
        os.unlink(path)
    outcome = "same" if found == expected else "values"
    return {
        "outcome": outcome,
        "digest": found,
        "expected": expected,
        "has_condition": case.question.condition is not None,
        "is_repeated": case.base.is_repeated(case.question.columns),
        "case": str(case),
    }


def _refused(error: BaseException, is_ours: bool, case: Case) -> dict[str, Any]:
    name = type(error).__name__
    if not is_ours or isinstance(error, lm.LateError):
        return {"outcome": "error", "error": name, "text": str(error)[:300]}
    trace = "".join(traceback.format_exception(error))
    return {"outcome": "failure", "error": name, "text": f"{case}\n{trace[-TRACE_CHARACTERS:]}"}


def reset_peak() -> None:
    """Begins to measure the peak of memory again."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass


def peak_bytes() -> int:
    try:
        with open("/proc/self/status") as file:
            lines = [line for line in file if line.startswith("VmHWM")]
        return int(lines[0].split()[1]) * 1024
    except (OSError, IndexError):
        return 0


def main() -> None:
    """Serves requests until there are no more."""
    # What libraries print goes elsewhere.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory(prefix="lm-damage-", dir=FOLDER) as folder:
        print(json.dumps({"outcome": "ready"}), file=out, flush=True)
        for line in sys.stdin:
            request = json.loads(line)
            found = answer(request["reader"], request["seed"], folder)
            found["peak_bytes"] = peak_bytes()
            print(json.dumps(found), file=out, flush=True)


if __name__ == "__main__":
    main()
