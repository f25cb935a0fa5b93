"""`lm-datafusion sql`: runs statements and writes their results.

In: `QueryCommand`, the parsed arguments. Out: results on standard output or in a file; times and
scan reports on standard error.

1. Texts (files, then `-c`, else standard input) are split into statements.
2. The statements run one by one, in one session.
3. A result with columns is written as it arrives. Several results are concatenated: CSV with an
   empty line between them, JSON as one array each.

Invariant: the file of `-o` is either complete or unchanged.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

from lm_datafusion.cli.formats import (
    CHUNKS,
    SUFFIXES,
    TableLayout,
    replacing,
    table_chunks,
    write_parquet,
)
from lm_datafusion.cli.progress import Progress
from lm_datafusion.cli.session import CommandSession, as_sql_error
from lm_datafusion.cli.statements import is_query, split_statements
from lm_datafusion.errors import OptionError, StorageError
from lm_datafusion.options import ScanOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from lm_datafusion.options import AccessPath

TERMINAL_ROWS: Final = 40
STANDARD_INPUT: Final = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCommand:
    """The arguments of `sql` and `explain`.

    Attributes:
        files: SQL files; `-` is standard input.
        commands: SQL of the command line, run after the files.
        tables: Pairs of a name and a path.
        path: Which reader serves the tables.
        format: Of the output; None to use the suffix of `output`, else a table.
        output: A file to write to.
        max_rows: Rows a table shows; 0 for all, None to choose by the output.
        shows_timing: Whether to print how long each statement took.
        shows_reports: Whether to print what each scan read.
    """

    files: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    tables: tuple[tuple[str, str], ...] = ()
    path: AccessPath = "auto"
    format: str | None = None
    output: str | None = None
    max_rows: int | None = None
    shows_timing: bool = False
    shows_reports: bool = False


def run_sql(command: QueryCommand) -> int:
    """Runs all statements.

    Returns:
        The exit code.

    Raises:
        LateError: A statement fails; those before it have been run.
    """
    format_name = _format_of(command)
    statements = load_statements(command)
    session = CommandSession(command.tables, ScanOptions(path=command.path))
    with _open_results(format_name, command) as results:
        for label, statement in statements:
            _run(session, session.with_tables(statement), results, label, command)
        results.check_complete()
    return 0


def _run(
    session: CommandSession,
    statement: str,
    results: Results,
    label: str,
    command: QueryCommand,
) -> None:
    started, cpu_started = time.perf_counter(), time.process_time()
    most_bytes = _most_bytes(session, statement) if sys.stderr.isatty() else 0
    schema, stream = session.run(statement, label)
    with Progress(most_bytes) as progress:
        batches = progress.counted(stream)
        if len(schema):
            results.write(schema, batches, progress)
        else:
            for _ in batches:  # a definition: reading to the end runs it
                pass
    wall_s, cpu_s = time.perf_counter() - started, time.process_time() - cpu_started
    if command.shows_reports:
        _print_reports(session)
    if command.shows_timing:
        prefix = f"{label}: " if label else ""
        counted = f"{progress.rows:,} row{'' if progress.rows == 1 else 's'}"
        print(f"{prefix}{counted} in {wall_s:.3f} s ({cpu_s:.3f} s CPU)", file=sys.stderr)


def _most_bytes(session: CommandSession, statement: str) -> int:
    """The most bytes that the plan will read; 0 if unknown."""
    if not is_query(statement):
        return 0
    try:
        references = session.context.explain_scan(statement).to_dict()
    except Exception:  # noqa: BLE001 the statement itself will report it better
        return 0
    most = [int(reference.get("bytes_estimated") or 0) for reference in references]
    return sum(most) if all(most) else 0


def _print_reports(session: CommandSession) -> None:
    reports = session.context.scan_reports()
    for report in reports:
        print(report, file=sys.stderr)
    if not reports:
        print("no scan reports: no table was scanned late", file=sys.stderr)


@dataclass(slots=True)
class Results:
    """The output of consecutive results."""

    format: str
    layout: TableLayout
    target: BinaryIO | None
    parquet_path: str | None = None
    count: int = 0

    def write(
        self, schema: pa.Schema, batches: Iterator[pa.RecordBatch], progress: Progress
    ) -> None:
        """Writes one result as it arrives."""
        self.count += 1
        if self.parquet_path is not None:
            if self.count > 1:
                raise OptionError(
                    "a Parquet file holds one result; more than one statement has one"
                )
            with as_sql_error("the result cannot be written as Parquet"):
                write_parquet(schema, batches, self.parquet_path)
            return
        if self.count > 1 and self.format in ("table", "csv"):
            self._put(b"\n", progress)
        for chunk in self._chunks(schema, batches):
            self._put(chunk, progress)

    def check_complete(self) -> None:
        """Raises if the output file was not written because no statement had a result."""
        if self.parquet_path is not None and not self.count:
            raise OptionError("no statement has a result that could be written")

    def _chunks(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
        if self.format == "table":
            return table_chunks(schema, batches, self.layout)
        return CHUNKS[self.format](schema, batches)

    def _put(self, chunk: bytes, progress: Progress) -> None:
        assert self.target is not None
        with progress.hidden():
            try:
                self.target.write(chunk)
                self.target.flush()
            except BrokenPipeError:
                raise
            except OSError as error:
                raise StorageError(f"the output cannot be written: {error.strerror}") from error


@contextlib.contextmanager
def _open_results(format_name: str, command: QueryCommand) -> Iterator[Results]:
    if command.output is None:
        yield Results(format_name, _layout(command), sys.stdout.buffer)
        return
    with replacing(command.output) as path:
        if format_name == "parquet":
            yield Results(format_name, TableLayout(), None, path)
            return
        with open(path, "wb") as file:
            yield Results(format_name, _layout(command), file)


def _layout(command: QueryCommand) -> TableLayout:
    is_terminal = command.output is None and sys.stdout.isatty()
    rows = command.max_rows
    if rows is None and is_terminal:
        rows = TERMINAL_ROWS
    width = shutil.get_terminal_size().columns if is_terminal else None
    return TableLayout(max_rows=rows or None, width=width)


def _format_of(command: QueryCommand) -> str:
    suffix = os.path.splitext(command.output or "")[1].lower()
    format_name = command.format or SUFFIXES.get(suffix, "table")
    if format_name == "parquet" and command.output is None:
        raise OptionError("Parquet goes to a file: name it with -o")
    return format_name


def load_statements(command: QueryCommand) -> list[tuple[str, str]]:
    """The statements of all files and of the command line, in this order.

    Returns:
        Pairs of a label and a statement; the label gives the source, and is empty if there is only
        one.
    """
    files, is_piped = command.files, not sys.stdin.isatty()
    if not files and not command.commands:
        if not is_piped:
            raise OptionError("no SQL was given; name a file, or use -c 'SELECT ...'")
        files = (STANDARD_INPUT,)
    statements = [pair for path in files for pair in _labelled(_load_text(path), path)]
    given = [text for command_text in command.commands for text in split_statements(command_text)]
    statements += [(f"statement {number}", text) for number, text in enumerate(given, 1)]
    return [("", statements[0][1])] if len(statements) == 1 else statements


def _labelled(text: str, path: str) -> list[tuple[str, str]]:
    statements = split_statements(text)
    if path == STANDARD_INPUT:
        return [(f"statement {number}", text) for number, text in enumerate(statements, 1)]
    if len(statements) == 1:
        return [(path, statements[0])]
    return [(f"{path}, statement {number}", text) for number, text in enumerate(statements, 1)]


def _load_text(path: str) -> str:
    if path == STANDARD_INPUT:
        return sys.stdin.read()
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise OptionError(f"{path}: not a text in UTF-8; tables are given with -t") from error
