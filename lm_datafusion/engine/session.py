"""`SessionContext`: DataFusion's, which chooses a reader for each Parquet table of a query.

In: SQL, or DataFusion's DataFrame methods. Out: DataFusion's own DataFrames.

DataFusion plans every statement as it is: its errors, schemas and side effects are the answer to
everything that is not a query. A query's frame is handed out as a `LateDataFrame`, which asks
`engine.server` what to run when it runs.

Invariant: a DataFrame is lazy: nothing is read for it before it runs.
"""

from __future__ import annotations

import functools
import re
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, cast

import datafusion

from lm_datafusion.engine.catalog import SessionCatalog
from lm_datafusion.engine.dataset_table import NamedDataset
from lm_datafusion.engine.factory import LateTableFactory, NamedTableFactory
from lm_datafusion.engine.footer_concurrency import with_footer_concurrency
from lm_datafusion.engine.frame import LateDataFrame, Statement
from lm_datafusion.engine.recovery import WatchedDataset
from lm_datafusion.engine.server import QueryServer
from lm_datafusion.engine.session_methods import reports_changes
from lm_datafusion.options import ScanOptions

if TYPE_CHECKING:
    import os
    import pathlib
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from datafusion import DataFrame, RuntimeEnvBuilder, SessionConfig, SQLOptions
    from datafusion.catalog import Catalog

    from lm_datafusion.engine.explanation import ScanExplanation
    from lm_datafusion.metrics import ScanReport

# What DataFusion leaves of a statement that has run already (DDL, SET, PREPARE) ...
_DONE = "EmptyRelation"
# ... and statements that are left to it as they are.
_OTHER = frozenset({"DmlStatement", "CopyTo", "DescribeTable", "Unparsed"})
# Settings of how long DataFusion keeps a list of a table's files; by default for ever.
_LISTING = "list_files_cache"
# Statements that change nothing when they are planned.
_QUERY = re.compile(
    r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*(?:SELECT|WITH|VALUES|EXPLAIN)\b", re.IGNORECASE | re.DOTALL
)


@reports_changes
class SessionContext(datafusion.SessionContext):
    """DataFusion's session; each Parquet table of a query is read by the path that suits it.

    Args:
        config: As for DataFusion.
        runtime: As for DataFusion.
        options: How tables are scanned; `path` says which reader serves them.
    """

    def __init__(
        self,
        config: SessionConfig | None = None,
        runtime: RuntimeEnvBuilder | None = None,
        *,
        options: ScanOptions | None = None,
    ) -> None:
        super().__init__(config, runtime)
        self._options = options or ScanOptions()
        self._server = QueryServer(SessionCatalog(_plain(self)), self._options)
        super().register_table_factory("LM_PARQUET", LateTableFactory(self._options))
        orc_tables = NamedTableFactory(self._options, self._server.errors)
        super().register_table_factory("ORC", orc_tables)

    @classmethod
    def global_ctx(cls) -> SessionContext:
        """As DataFusion's: one session for the whole process, which others may change."""
        made = cast("SessionContext", super().global_ctx())
        plain = _plain(made)
        return made._handle(plain, made._server.for_session(plain))  # noqa: SLF001 of this class

    def enable_url_table(self) -> SessionContext:
        """As DataFusion's: another session over this catalog, in which paths are tables."""
        plain = super().enable_url_table()
        return self._handle(plain, self._server.for_session(_plain(plain)))

    def _handle(self, made: datafusion.SessionContext, server: QueryServer) -> SessionContext:
        handle = type(self).__new__(type(self))
        vars(handle).update(ctx=made.ctx, _options=self._options, _server=server)
        return handle

    def register_parquet(
        self,
        name: str,
        path: str | pathlib.Path,
        *arguments: Any,
        options: ScanOptions | None = None,
        **settings: Any,
    ) -> None:
        """Registers Parquet files (a file, a folder, a glob) as a table.

        Args:
            name: The table's name.
            path: As for DataFusion.
            *arguments: As for DataFusion.
            options: How this table is scanned, if not as the session says.
            **settings: As for DataFusion.
        """
        with self._catalog.changing():
            session = with_footer_concurrency(_plain(self), path)
            session.register_parquet(name, path, *arguments, **settings)
            self._catalog.set_options(name, options)

    def register_orc(
        self,
        name: str,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        options: ScanOptions | None = None,
    ) -> None:
        """Registers ORC files (a file, a folder, a glob, a list) as a table.

        Args:
            name: The table's name.
            path: The files; `year=2024` in folder names becomes a column.
            options: How this table is scanned, if not as the session says.
        """
        made = self._orc_dataset(path, options)
        with self._catalog.changing():
            super().register_dataset(name, made)
            self._catalog.set_options(name, options)

    def read_orc(
        self,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        options: ScanOptions | None = None,
    ) -> DataFrame:
        """Reads ORC files as a DataFrame; arguments as for `register_orc`."""
        version = self._catalog.version
        made = super().read_table(datafusion.catalog.Table(self._orc_dataset(path, options)))
        return self._late(made, version, options=options, source=made)

    def _orc_dataset(
        self,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        options: ScanOptions | None,
    ) -> NamedDataset:
        from lm_datafusion.dataset import dataset

        opened = dataset(path, options=options or self._options)
        return NamedDataset(opened, None, self._server.errors)

    def register_listing_table(
        self, name: str, path: str | pathlib.Path, *arguments: Any, **settings: Any
    ) -> None:
        """Registers files as a table; arguments as for DataFusion."""
        with self._catalog.changing():
            session = with_footer_concurrency(_plain(self), path)
            session.register_listing_table(name, path, *arguments, **settings)

    def register_dataset(self, name: str, dataset: pa.dataset.Dataset) -> None:
        """Registers a PyArrow dataset as a table; local Parquet files in it are scanned late."""
        from lm_datafusion.dataset import late_form

        late = None if self._options.path == "native" else late_form(dataset, self._options)
        with self._catalog.changing():
            watched = dataset if late is None else WatchedDataset(late, None, self._server.errors)
            super().register_dataset(name, watched)

    def register_catalog_provider(self, *arguments: Any, **settings: Any) -> None:
        """As DataFusion's. Names may now change without a call of this session."""
        self._catalog.share()
        with self._catalog.changing():
            super().register_catalog_provider(*arguments, **settings)

    def register_catalog_provider_list(self, *arguments: Any, **settings: Any) -> None:
        """As DataFusion's. Names may now change without a call of this session."""
        self._catalog.share()
        with self._catalog.changing():
            super().register_catalog_provider_list(*arguments, **settings)

    def read_parquet(self, *arguments: Any, **settings: Any) -> DataFrame:
        """Reads Parquet files as a DataFrame; arguments as for DataFusion."""
        version = self._catalog.version
        made = super().read_parquet(*arguments, **settings)
        return self._late(made, version, source=made)

    def table(self, name: str) -> DataFrame:
        """A registered table as a DataFrame."""
        version = self._catalog.version
        return self._late(super().table(name), version)

    def catalog(self, name: str = "datafusion") -> Catalog:
        """As DataFusion's. Names may now change without a call of this session."""
        self._catalog.share()
        return super().catalog(name)

    def sql(
        self,
        query: str,
        options: SQLOptions | ScanOptions | None = None,
        param_values: dict[str, Any] | None = None,
        **named_params: Any,
    ) -> DataFrame:
        """A DataFrame for SQL text.

        Args:
            query: SQL.
            options: DataFusion's `SQLOptions`, or `ScanOptions` for the tables of this query.
            param_values: As for DataFusion.
            **named_params: As for DataFusion.
        """
        scan_options = options if isinstance(options, ScanOptions) else None
        checks = None if isinstance(options, ScanOptions) else options
        version = self._catalog.version
        is_plain = checks is None and not param_values and not named_params
        if is_plain and self._server.is_kept(query, scan_options):
            planned = functools.partial(super().sql, query)
            statement = Statement(text=query)
            frame = self._late(planned, version, options=scan_options, statement=statement)
            self._catalog.plan_before_changes(frame)
            return frame
        is_query = _QUERY.match(query) is not None
        if not is_query and _LISTING in query.lower():
            self._catalog.list_every_time()
        with nullcontext() if is_query else self._catalog.changing():
            native = super().sql(query, checks, param_values, **named_params)
        kind = _root(native)
        if kind == _DONE:
            with self._catalog.changing():  # SELECT ... INTO looked like a query
                pass
        has_frames = any(isinstance(value, datafusion.DataFrame) for value in named_params.values())
        if kind == _DONE or kind in _OTHER or has_frames:
            return native
        statement = Statement(text=query, param_values=param_values, named_params=named_params)
        return self._late(native, version, options=scan_options, statement=statement)

    def explain_scan(self, query: str, options: ScanOptions | None = None) -> ScanExplanation:
        """What a query would read, in which order, and why; nothing is run."""
        version = self._catalog.version
        native = super().sql(query)
        frame = self._late(native, version, options=options, statement=Statement(text=query))
        return self._server.explain(frame)

    def scan_reports(self) -> list[ScanReport]:
        """What this thread's last query did: a report per Parquet table."""
        return self._server.reports()

    def _late(
        self,
        native: DataFrame | Callable[[], DataFrame],
        version: int | None,
        *,
        options: ScanOptions | None = None,
        statement: Statement | None = None,
        source: DataFrame | None = None,
    ) -> LateDataFrame:
        return LateDataFrame(
            native,
            self._server,
            options=options,
            statement=statement,
            version=version,
            source=source,
        )

    @property
    def _catalog(self) -> SessionCatalog:
        return self._server.catalog


def _plain(context: datafusion.SessionContext) -> datafusion.SessionContext:
    """The same session, without the methods of ours."""
    plain = datafusion.SessionContext.__new__(datafusion.SessionContext)
    plain.ctx = context.ctx
    return plain


def _root(frame: DataFrame) -> str:
    """The kind of a plan's topmost node."""
    try:
        return type(frame.logical_plan().to_variant()).__name__
    except Exception:  # noqa: BLE001 a kind that DataFusion does not show to Python
        return "Unparsed"
