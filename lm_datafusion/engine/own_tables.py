"""The tables that stand behind own names while a query is planned.

In: routed references. Out: their own names in the catalog, each with the reader of its route.

Invariant: own names are in the catalog only while a block lasts; a plan holds on to its tables.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from datafusion.catalog import Table

from lm_datafusion.engine.few_readers import with_few_readers
from lm_datafusion.engine.recovery import WatchedDataset
from lm_datafusion.engine.tables import dotted
from lm_datafusion.errors import LateError
from lm_datafusion.predicate.literals import quote_identifier, quote_string

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import datafusion

    from lm_datafusion.dataset import LateDataset
    from lm_datafusion.engine.routing import RoutedReference
    from lm_datafusion.engine.run_reports import RunReports
    from lm_datafusion.engine.tables import ParquetTable, Tables

# Tables whose form with filter pushdown is kept: to make one takes milliseconds.
PUSHDOWN_TABLES_KEPT = 64


class OwnTables:
    """Registers own names in the catalog of one session.

    Args:
        context: The session.
        tables: Its catalog.
    """

    def __init__(self, context: datafusion.SessionContext, tables: Tables) -> None:
        self._context = context
        self._tables = tables
        self._pushdown_tables: dict[ParquetTable, _Kept] = {}

    @contextmanager
    def of(
        self, references: tuple[RoutedReference, ...], run: RunReports
    ) -> Iterator[dict[int, LateDataset]]:
        """Every reference's own name, with the reader of its route; our own datasets by place."""
        scanned: dict[int, LateDataset] = {}
        try:
            for place, reference in enumerate(references):
                if reference.late is not None:
                    late = scanned[place] = reference.late.with_reports(run.of(place))
                    watched = WatchedDataset(late, run.errors)
                    self._context.register_table(reference.own_name, Table(watched))
                elif reference.route.path in ("native_pushdown", "row_fetch"):
                    self._register_pushdown(reference.own_name, reference.table)
                else:
                    self._register_same(reference.own_name, reference.table)
            yield scanned
        finally:
            for reference in references:
                self._context.deregister_table(reference.own_name)

    @contextmanager
    def same(self, tables: Mapping[str, ParquetTable]) -> Iterator[None]:
        """Own names of tables as they are."""
        try:
            for own_name, table in tables.items():
                self._register_same(own_name, table)
            yield
        finally:
            for own_name in tables:
                self._context.deregister_table(own_name)

    def make_same(self, own_name: str, table: ParquetTable) -> None:
        """Lets an own name stand for the table as it is."""
        self._context.deregister_table(own_name)
        self._register_same(own_name, table)

    def make_rows(self, own_name: str, rows: pa.Table, schema: pa.Schema) -> None:
        """Lets an own name stand for rows of a table that have been read.

        Args:
            own_name: The name.
            rows: The columns that are read.
            schema: All columns: others are named somewhere, but nobody reads them.
        """
        self._context.deregister_table(own_name)
        whole = _with_all_columns(rows, schema)
        self._context.register_record_batches(own_name, [[whole]])

    def _register_same(self, own_name: str, table: ParquetTable) -> None:
        self._context.register_table(own_name, self._tables.load(table.name))

    def _register_pushdown(self, own_name: str, table: ParquetTable) -> None:
        known = self._pushdown_tables.get(table)
        if known is None or not known.is_current:
            known = self._load_pushdown(own_name, table)
            if len(self._pushdown_tables) >= PUSHDOWN_TABLES_KEPT:
                self._pushdown_tables.clear()
            self._pushdown_tables[table] = known
        self._context.register_table(own_name, known.table)

    def _load_pushdown(self, own_name: str, table: ParquetTable) -> _Kept:
        """The same files as a table whose reader takes filters."""
        folder = os.path.dirname(table.files[0].path)
        changed_ns = _changed_ns(folder)  # before a look into it: what comes later shows
        places = _places([file.path for file in table.files])
        listed = ", ".join(map(quote_string, places))
        session = with_few_readers(self._context, folder)
        session.sql(
            f"CREATE EXTERNAL TABLE {quote_identifier(own_name)} STORED AS PARQUET"
            f" LOCATION ({listed}) OPTIONS ('format.pushdown_filters' 'true',"
            " 'format.reorder_filters' 'true')"
        )
        made = self._tables.find_table((own_name,))
        is_same = made is not None and made.schema.equals(table.schema, check_metadata=True)
        if made is None or not is_same or set(made.files) != set(table.files):
            raise LateError(f"the files of {dotted(table.name)} are not read the same way by name")
        found = self._tables.load((own_name,))
        self._context.deregister_table(own_name)
        is_folder = len(places) < len(table.files)
        return _Kept(found, folder, changed_ns) if is_folder else _Kept(found)


class _Kept(NamedTuple):
    """A table that is kept; of all files of a folder, as long as none comes or goes.

    DataFusion lists a folder anew when it sees fit, which need not be when it lists that of the
    user's table anew.
    """

    table: Table
    folder: str = ""
    changed_ns: int | None = None

    @property
    def is_current(self) -> bool:
        """Whether it is of the same files still."""
        return not self.folder or (
            self.changed_ns is not None and self.changed_ns == _changed_ns(self.folder)
        )


def _changed_ns(folder: str) -> int | None:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return None


def _places(paths: Sequence[str]) -> Sequence[str]:
    """Where to find just these files: their folder, if it has no others; else each by itself.

    DataFusion looks at all places at a time, each on a thread of its own, which it keeps.
    """
    if len(paths) == 1:
        return paths
    folder = os.path.dirname(paths[0])
    try:
        with os.scandir(folder) as entries:
            found = {entry.path for entry in entries if _may_be_listed(entry)}
    except OSError:
        return paths
    return [os.path.join(folder, "")] if found == set(paths) else paths


def _may_be_listed(entry: os.DirEntry[str]) -> bool:
    """Whether DataFusion might find files of a table there; whether it did is checked."""
    return entry.is_dir() or entry.name.endswith(".parquet")


def _with_all_columns(table: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    """One batch, with nulls for columns that are missing."""
    fields = [f if f.name in table.column_names else f.with_nullable(True) for f in schema]
    columns = [
        table.column(f.name).combine_chunks()
        if f.name in table.column_names
        else pa.nulls(table.num_rows, f.type)
        for f in fields
    ]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, schema.metadata))
