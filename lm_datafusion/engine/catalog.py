"""What names of a session mean: Parquet files, views, anything else.

In: a name, as a statement or a plan has it. Out: the files DataFusion would read for it, or the
table itself.

Nothing is recorded about how a table came to be: `register_parquet`, `CREATE EXTERNAL TABLE`, a
catalog or another library may have made it. DataFusion's own plan of the table is asked.

A catalog has a version. Every method of the session that can change the meaning of a name, a
function or a setting moves it on. A frame that was planned in an older version means what names
meant then, so only DataFusion can run it.

Invariant: what is cached here is of the current version; a `ParquetTable` is given out only while
its files and their folders are as they were when it was listed.
"""

from __future__ import annotations

import re
import threading
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import datafusion

from lm_datafusion.engine.dataset_table import DatasetTable, datasets_asked, is_plain_scan
from lm_datafusion.engine.listing import scanned_files
from lm_datafusion.engine.parquet_table import ParquetTable
from lm_datafusion.engine.settings import setting
from lm_datafusion.predicate.literals import quote_identifier

if TYPE_CHECKING:
    from collections.abc import Iterator

    from datafusion import DataFrame, catalog

    from lm_datafusion.engine.frame import LateDataFrame
    from lm_datafusion.engine.parquet_table import TableName
    from lm_datafusion.options import ScanOptions

# A name with catalog and schema.
FullName = tuple[str, str, str]
# What DataFusion calls a table that has no name, as that of `read_parquet`.
ANONYMOUS = "?table?"
_PARTS = re.compile(r'("(?:[^"]|"")*"|[^".\s]+)(?:\.|$)')


class SessionCatalog:
    """The catalog of one session, and its version.

    Args:
        context: The session, with DataFusion's own methods.
    """

    def __init__(self, context: datafusion.SessionContext) -> None:
        self.context = context
        # Functions that are not DataFusion's own; an empty name stands for any.
        self.user_functions: set[str] = set()
        self._table_options: dict[FullName, ScanOptions] = {}
        self._tables: dict[TableName, ParquetTable | None] = {}
        # Views as Substrait, checked to be what they were.
        self.checked_views: dict[FullName, Any] = {}
        self._defaults: tuple[str, str] | None = None
        self._partitions: int | None = None
        self._lock = threading.Lock()
        self._version = 0
        self._changes_under_way = 0
        self._unplanned: weakref.WeakSet[LateDataFrame] = weakref.WeakSet()
        self.is_shared = False
        self._listings_expire = False

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
            self._version += 1
            self._changes_under_way += 1
        try:
            yield
        finally:
            with self._lock:
                self._version += 1
                self._changes_under_way -= 1
                self._tables = {}
                self.checked_views = {}
                self._defaults = self._partitions = None

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
        other._listings_expire = self._listings_expire
        self.share()
        other.share()
        return other

    def full_name(self, name: TableName) -> FullName:
        """A name with the session's default catalog and schema, where these are missing."""
        if self._defaults is None:
            self._defaults = (
                setting(self.context, "datafusion.catalog.default_catalog"),
                setting(self.context, "datafusion.catalog.default_schema"),
            )
        catalog_name, schema, table = (*self._defaults[: 3 - len(name)], *name)
        return catalog_name, schema, table

    @property
    def target_partitions(self) -> int:
        """How many partitions the session plans for; one keeps rows in order."""
        if self._partitions is None:
            found = setting(self.context, "datafusion.execution.target_partitions")
            self._partitions = int(found) if found.isdecimal() else 1
        return self._partitions

    def set_options(self, name: str, options: ScanOptions | None) -> None:
        """Sets how one table is scanned; None: as the session is."""
        full = self.full_name(parse_name(name))
        self._table_options.pop(full, None)
        if options is not None:
            self._table_options[full] = options

    def options_of(self, name: TableName) -> ScanOptions | None:
        """How one table is scanned, if it was given options of its own."""
        return self._table_options.get(self.full_name(name))

    def parquet_table(self, name: TableName) -> ParquetTable | None:
        """The files behind a name that our scan can read; None if it is anything else."""
        if name in self._tables and not self.is_shared and not self._listings_expire:
            known = self._tables[name]
            if known is None or known.is_current:
                return known
        try:
            found = self.listed(name, self.context.table(dotted(name)))
        except Exception:  # noqa: BLE001 a table that cannot be asked is left to DataFusion
            found = None
        self._tables[name] = found
        return found

    def listed(self, name: TableName, frame: DataFrame) -> ParquetTable | None:
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
        (files,) = scanned_files(plan, self.context)
        if files is None:
            return None
        return ParquetTable.listed(name, files, schema)

    def provider(self, name: FullName) -> catalog.Table:
        """The table itself, as it is in the catalog."""
        return self.context.table_provider(dotted(name))

    def calls_user_function(self, printed: str) -> bool:
        """Whether a function of the user's is called in a plan, as DataFusion prints it."""
        names = [re.escape(name) or r"\w+" for name in list(self.user_functions)]
        called = rf"(?:{'|'.join(names)})\("
        return bool(names) and re.search(called, printed, re.IGNORECASE) is not None


def parse_name(text: str) -> TableName:
    """A table's name as DataFusion's methods read it: parts in quotes keep their case."""
    parts = _PARTS.findall(text)
    if not 0 < len(parts) <= 3 or _PARTS.sub("", text):  # noqa: PLR2004 catalog, schema, table
        return (text,)
    return tuple(
        part[1:-1].replace('""', '"') if part.startswith('"') else part.lower() for part in parts
    )


def dotted(name: TableName) -> str:
    """A name as SQL."""
    return ".".join(quote_identifier(part) for part in name)
