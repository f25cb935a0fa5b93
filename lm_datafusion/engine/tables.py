"""Which tables of a DataFusion catalog are Parquet files, and which are views over such.

In: a name. Out: the files DataFusion would read for it, or the query a view stands for.

Nothing is remembered about how a table came to be: `register_parquet`, `CREATE EXTERNAL TABLE`,
a catalog or another library may have made it. DataFusion's own plan of the table is asked.

Invariant: a view's text is used only if DataFusion plans it to exactly the view's own plan, over
the same files.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import datafusion
from datafusion.unparser import Dialect, Unparser

from lm_datafusion.engine.parquet_scan import scanned_files
from lm_datafusion.engine.plan_scans import planned_scans, prints_exactly
from lm_datafusion.errors import LateError
from lm_datafusion.plan import Table, TableFile
from lm_datafusion.predicate.literals import quote_identifier
from lm_datafusion.scan import load_facts
from lm_datafusion.sql.statement import parse_query
from lm_datafusion.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from datafusion import DataFrame, LogicalPlan, catalog

    from lm_datafusion.engine.parquet_scan import ListedFile
    from lm_datafusion.options import ScanOptions
    from lm_datafusion.sql.statement import Query

# A table's name as a query writes it: catalog and schema may be missing.
TableName = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetTable:
    """A table that is local Parquet files and nothing else.

    Attributes:
        name: As queries write it.
        files: As DataFusion lists them.
        schema: As DataFusion gives it.
    """

    name: TableName
    files: tuple[ListedFile, ...]
    schema: pa.Schema

    @property
    def printed_names(self) -> set[str]:
        """What DataFusion may call it when it prints a plan."""
        return {self.name[-1], ".".join(self.name)}

    def as_table(self) -> Table:
        """The files as our own reader takes them, in the types DataFusion gives."""
        files = tuple(TableFile(path=file.path, partition={}) for file in self.files)
        return Table(storage=LocalStorage(), files=files, schema=self.schema)

    @property
    def is_unchanged(self) -> bool:
        """Whether every file is still the one that was listed; files that are new do not show."""
        return all(_is_unchanged(file) for file in self.files)


def _is_unchanged(file: ListedFile) -> bool:
    try:
        now = os.stat(file.path)
    except OSError:
        return False
    return now.st_size == file.size and now.st_mtime_ns == file.modified_ns


class Tables:
    """Reads the catalog of one session."""

    def __init__(self, context: datafusion.SessionContext) -> None:
        self._context = context
        self._view_texts: dict[TableName, str] = {}
        self._known_tables: dict[TableName, ParquetTable | None] = {}
        self._known_views: dict[TableName, Query | None] = {}
        self._plain_quotes: bool | None = None
        self._may_remember = True
        # Functions that are not DataFusion's own; an empty name stands for all.
        self.own_functions: set[str] = set()

    def has_own_function(self, frame: DataFrame) -> bool:
        """Whether a frame calls a function of the user's."""
        return self._calls_own(frame.optimized_logical_plan().display_indent())

    def filters_by_own_function(self, plan: LogicalPlan) -> bool:
        """Whether a function of the user's is in a filter that reached a table scan."""
        lines = plan.display_indent().splitlines()
        return self._calls_own("\n".join(line for line in lines if "TableScan: " in line))

    def _calls_own(self, plan: str) -> bool:
        names = [re.escape(name) or r"\w+" for name in list(self.own_functions)]
        called = rf"(?:{'|'.join(names)})\("
        return bool(names) and re.search(called, plan, re.IGNORECASE) is not None

    def quotes_as_we_do(self) -> bool:
        """Whether the session reads texts and names in quotes as they are.

        In some dialects a backslash is an escape, in others double quotes are around texts.
        """
        if self._plain_quotes is None or not self._may_remember:
            try:
                frame = self._context.sql("SELECT '\\' AS \"A\"")
                self._plain_quotes = frame.schema().names == ["A"]
            except Exception:  # noqa: BLE001 a text without an end, in that dialect
                self._plain_quotes = False
        return self._plain_quotes

    def forget(self) -> None:
        """Asks anew from now on: the catalog or a setting has changed."""
        self._plain_quotes = None
        self._known_tables = {}
        self._known_views = {}

    def stop_remembering(self) -> None:
        """Asks anew every time: the catalog may change without a word."""
        self._may_remember = False
        self.forget()

    def remember_view(self, name: TableName, text: str) -> None:
        """Keeps the text a view was created with: shorter than what a plan would be written as."""
        self._view_texts[name] = text

    def known_table(self, name: TableName) -> ParquetTable | None:
        """As `find_table`, but the files may be those of an earlier listing."""
        if not self._may_remember:
            return self.find_table(name)
        known = self._known_tables
        if name not in known:
            known[name] = self.find_table(name)
        return known[name]

    def find_table(self, name: TableName) -> ParquetTable | None:
        """The Parquet files behind a name; None if it is anything else."""
        try:
            frame = self._plain_table(name)
            schema = frame.schema()
            if not schema.names:
                return None
            narrow = frame.select(datafusion.col(quote_identifier(schema.names[0])))
            (files,) = scanned_files(narrow.execution_plan(), self._context)
        except Exception:  # noqa: BLE001 a table that cannot be asked is left to DataFusion
            return None
        return None if files is None else ParquetTable(name=name, files=files, schema=schema)

    def read_by(self, frame: DataFrame) -> ParquetTable | None:
        """The Parquet files that a frame is, unfiltered and whole; None if it is anything else."""
        scan = frame.logical_plan().to_variant()
        if type(scan).__name__ != "TableScan" or scan.filters() or scan.fetch() is not None:
            return None
        schema = frame.schema()
        narrow = frame.select(datafusion.col(quote_identifier(schema.names[0])))
        (files,) = scanned_files(narrow.execution_plan(), self._context)
        name = tuple(part for part in scan.fqn() if part is not None)
        return None if files is None else ParquetTable(name=name, files=files, schema=schema)

    def find_view(self, name: TableName) -> Query | None:
        """The query behind a view, if it is surely the same and over Parquet files only."""
        known = self._known_views
        if name not in known or not self._may_remember:
            known[name] = self._load_view(name)
        return known[name]

    def _load_view(self, name: TableName) -> Query | None:
        try:
            frame = self._plain_table(name)
            candidates = [self._view_texts.get(name), unparsed(frame)]
            for text in filter(None, candidates):
                query = parse_query(text)
                is_clear = query is not None and query.is_whole
                if is_clear and self._is_view_text(name, frame, text):
                    return query
        except Exception:  # noqa: BLE001 a view that cannot be asked is left to DataFusion
            return None
        return None

    def kind(self, name: TableName) -> str | None:
        """`physical` or `view`, as the catalog says; None if there is no such table."""
        try:
            return self.load(name).kind
        except Exception:  # noqa: BLE001 DataFusion raises its own class
            return None

    def load(self, name: TableName) -> catalog.Table:
        """The table itself, as it is in the catalog."""
        return self._context.table_provider(dotted(name))

    def _is_view_text(self, name: TableName, frame: DataFrame, text: str) -> bool:
        alias = quote_identifier(name[-1])
        written = self._context.sql(f"SELECT * FROM (\n{text}\n) AS {alias}")
        view = self._context.sql(f"SELECT * FROM {dotted(name)}")
        if not same_plan(written, view) or self.has_own_function(view):
            return False
        scans = planned_scans(view.optimized_logical_plan())
        tables = {scanned: self.find_table(scanned) for scanned in scans}
        expected = [t.files if t else None for n, t in tables.items() for _ in scans[n]]
        found = scanned_files(frame.execution_plan(), self._context)
        return None not in found and sorted(map(str, found)) == sorted(map(str, expected))

    def _plain_table(self, name: TableName) -> DataFrame:
        # Not by SELECT *, which spells every column out: 4 ms for 105.
        return self._context.table(dotted(name))


def dotted(name: TableName) -> str:
    """A name as SQL."""
    return ".".join(quote_identifier(part) for part in name)


def same_schema(left: DataFrame, right: DataFrame) -> bool:
    """Whether two frames have the same names and types, and what is said about them."""
    return bool(left.schema().equals(right.schema(), check_metadata=True))


def same_plan(left: DataFrame, right: DataFrame) -> bool:
    """Whether DataFusion optimizes two frames to one plan, with the same names and types."""
    printed = left.optimized_logical_plan().display_indent_schema()
    is_same = printed == right.optimized_logical_plan().display_indent_schema()
    return is_same and prints_exactly(printed)


def unparsed(frame: DataFrame) -> str | None:
    """A frame as SQL, as far as DataFusion can write it; not always the same query."""
    try:
        return Unparser(Dialect.postgres()).plan_to_sql(frame.logical_plan())
    except Exception:  # noqa: BLE001 DataFusion cannot write every plan as SQL
        return None


def as_exact_table(table: ParquetTable, options: ScanOptions) -> Table:
    """The files as our reader sees them, in the types DataFusion gives.

    Raises:
        LateError: A file whose columns DataFusion would have to adapt.
    """
    found = table.as_table()
    for file in found.files:
        stored = load_facts(found.storage, file.path, options).schema
        if not _fits(stored, table.schema):
            raise LateError(f"the columns of {file.path} are not exactly those of the table")
    return found


def _fits(stored: pa.Schema, wanted: pa.Schema) -> bool:
    if stored.names != wanted.names:
        return False
    return all(
        have.nullable == want.nullable and _plain(have.type) == _plain(want.type)
        for have, want in _pairs(stored, wanted)
    )


def _pairs(left: pa.Schema, right: pa.Schema) -> Iterator[tuple[pa.Field, pa.Field]]:
    return zip(left, right, strict=True)


def _plain(data_type: pa.DataType) -> str:
    """A type without how text and bytes are laid out."""
    return str(data_type).replace("_view", "").replace("large_", "")
