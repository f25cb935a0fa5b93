"""What names of a session mean: Parquet files, views, anything else.

In: a name, as a statement or a plan has it. Out: the files DataFusion would read for it; how a
table came to be is not recorded, DataFusion's own plan of it is asked.

A catalog has a version, which every method of the session moves on that can change the meaning of a
name, a function or a setting. A frame that was planned in an older version means what names meant
then, so only DataFusion can run it.

Invariant: what is cached here is of the current version; a `ParquetTable` is given out only while
it is current.
"""

from __future__ import annotations

import re
import threading
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import datafusion

from lm_datafusion.engine.dataset_table import DatasetTable, datasets_asked, is_plain_scan
from lm_datafusion.engine.parquet_table import ParquetTable, scanned_files
from lm_datafusion.engine.store_table import StoreTable
from lm_datafusion.predicate.literals import quote_identifier
from lm_datafusion.sql.table_name import dotted, parse_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from datafusion import DataFrame

    from lm_datafusion.engine.frame import LateDataFrame
    from lm_datafusion.options import ScanOptions
    from lm_datafusion.sql.table_name import TableName
    from lm_datafusion.storage import Storage

# A name with catalog and schema.
FullName = tuple[str, str, str]
# What DataFusion calls a table that has no name, as that of `read_parquet`.
ANONYMOUS = "?table?"


class SessionCatalog:
    """The catalog of one session, given with DataFusion's own methods, and its version."""

    def __init__(self, context: datafusion.SessionContext) -> None:
        self.context = context
        # Functions that are not DataFusion's own; an empty name stands for any.
        self.user_functions: set[str] = set()
        # Object stores that our reader knows, by URL.
        self.stores: dict[str, Storage] = {}
        # Views as Substrait, checked to be what they were.
        self.checked_views: dict[FullName, Any] = {}
        self.is_shared = False
        self._listings_expire = False
        self._table_options: dict[FullName, ScanOptions] = {}
        self._tables: dict[TableName, ParquetTable | None] = {}
        self._settings: dict[str, str] = {}
        self._lock = threading.Lock()
        self._version = 0
        self._changes_under_way = 0
        self._unplanned: weakref.WeakSet[LateDataFrame] = weakref.WeakSet()

    @property
    def version(self) -> int | None:
        """The version of the catalog; None while it changes."""
        with self._lock:
            return None if self._changes_under_way else self._version

    def is_now(self, version: int | None) -> bool:
        """Whether names still mean what they meant in a version."""
        return version is not None and version == self.version

    @contextmanager
    def changing(self) -> Iterator[None]:
        """A block in which names, functions or settings may come to mean something else."""
        with self._lock:
            unplanned = list(self._unplanned)
            self._unplanned.clear()
        for frame in unplanned:
            _ = frame.df
        with self._lock:
            self._changes_under_way += 1
        try:
            yield
        finally:
            self.change()
            with self._lock:
                self._changes_under_way -= 1

    def change(self) -> None:
        """Notes that names, functions or settings may mean something else from now on."""
        with self._lock:
            self._version += 1
            self._tables, self.checked_views, self._settings = {}, {}, {}

    def plan_before_changes(self, frame: LateDataFrame) -> None:
        """Remembers a frame that is not planned yet: it has to be, before names change."""
        with self._lock:
            self._unplanned.add(frame)

    def share(self) -> None:
        """Marks the catalog as shared: names may change without a call of this session."""
        self.is_shared = True
        self._tables = {}

    def list_every_time(self) -> None:
        """Marks DataFusion's file listings as expiring: they are read at each use."""
        self._listings_expire = True
        self._tables = {}

    @property
    def can_keep_plans(self) -> bool:
        """Whether a plan stays right for as long as the version and the files stay."""
        return not self.is_shared and not self._listings_expire

    def shared_with(self, context: datafusion.SessionContext) -> SessionCatalog:
        """The catalog of another session over the same names."""
        other = SessionCatalog(context)
        other.user_functions = self.user_functions
        other._table_options = self._table_options
        other.stores = self.stores
        other._listings_expire = self._listings_expire
        self.share()
        other.share()
        return other

    def setting(self, name: str) -> str:
        """The value of a setting of the session; empty if DataFusion does not show it."""
        if name not in self._settings:
            # The session's print has all settings. Asking in SQL would load the information
            # schema, 10 MB.
            found = re.search(rf"^\s*{re.escape(name)} = (.*)$", repr(self.context), re.MULTILINE)
            self._settings[name] = found[1] if found else ""
        return self._settings[name]

    @property
    def target_partitions(self) -> int:
        """How many partitions the session plans for; one keeps rows in order."""
        found = self.setting("datafusion.execution.target_partitions")
        return int(found) if found.isdecimal() else 1

    def full_name(self, name: TableName) -> FullName:
        """A name with the session's default catalog and schema, where these are missing."""
        words = ("default_catalog", "default_schema")[: 3 - len(name)]
        parts = [self.setting(f"datafusion.catalog.{word}") for word in words]
        catalog_name, schema, table = (*parts, *name)
        return catalog_name, schema, table

    def set_options(self, name: str, options: ScanOptions | None) -> None:
        """Sets how one table is scanned; None: as the session is."""
        full = self.full_name(parse_name(name))
        self._table_options.pop(full, None)
        if options is not None:
            self._table_options[full] = options

    def options_of(self, name: TableName) -> ScanOptions | None:
        """How one table is scanned, if it was given options of its own."""
        return self._table_options.get(self.full_name(name))

    def parquet_table(
        self, name: TableName, source: DataFrame | None = None
    ) -> ParquetTable | None:
        """The files behind a name that our scan can read; None if it is anything else.

        A scan without a name is of `source`.
        """
        if name == (ANONYMOUS,):
            return None if source is None else self._listed(name, source)
        if name in self._tables and self.can_keep_plans:
            known = self._tables[name]
            if known is None or known.is_current:
                return known
        try:
            found = self._listed(name, self.context.table(dotted(name)))
        except Exception:  # noqa: BLE001 a table that cannot be asked is left to DataFusion
            found = None
        self._tables[name] = found
        return found

    def _listed(self, name: TableName, frame: DataFrame) -> ParquetTable | None:
        """The Parquet files that an unfiltered frame over one table reads."""
        schema = frame.schema()
        if not schema.names:
            return None
        # One column is enough to see the files, and planning all of 105 takes milliseconds.
        narrow = frame.select(datafusion.col(quote_identifier(schema.names[0])))
        with datasets_asked() as asked:
            plan = narrow.execution_plan()
        if len(asked) == 1 and is_plain_scan(frame):
            return DatasetTable.of(name, asked[0].late, schema)
        (files,) = scanned_files(plan, self.context, self.stores)
        if files is None:
            return None
        store = next((url for url in self.stores if files[0].path.startswith(f"{url}/")), None)
        if store is not None:
            return StoreTable.of(name, files, schema, self.stores[store])
        return ParquetTable.listed(name, files, schema)

    def has_files_of(
        self, frame: DataFrame, scans: Mapping[TableName, Sequence[Any]], source: DataFrame | None
    ) -> bool:
        """Whether a frame reads just the files that the names it scans mean now.

        A frame holds on to the tables that names meant when it was planned.
        """
        with datasets_asked() as asked:
            bound = scanned_files(frame.execution_plan(), self.context, self.stores)
        tables = {name: self.parquet_table(name, source) for name in scans}
        found = [table for name, table in tables.items() if table for _ in scans[name]]
        named = [table.files for table in found if table.has_native_reader]
        own = [id(table.late) for table in found if isinstance(table, DatasetTable)]
        if bound.count(None) != len(own) or sorted(own) != sorted(id(d.late) for d in asked):
            return False
        return sorted(map(sorted, named)) == sorted(
            sorted(files) for files in bound if files is not None
        )

    def calls_user_function(self, printed: str) -> bool:
        """Whether a function of the user's is called in a plan, as DataFusion prints it."""
        names = [re.escape(name) or r"\w+" for name in list(self.user_functions)]
        called = rf"(?:{'|'.join(names)})\("
        return bool(names) and re.search(called, printed, re.IGNORECASE) is not None
