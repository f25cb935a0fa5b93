"""`SessionContext`: DataFusion's, which chooses a reader for each Parquet table of a query.

In: SQL, or DataFusion's methods. Out: DataFusion's own DataFrames. It plans every statement as it
is; a query's frame is handed out as a `LateDataFrame`, which asks `engine.server` what to run.

Invariant: a DataFrame is lazy: nothing is read for it before it runs.
"""

from __future__ import annotations

import functools
import re
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, cast

import datafusion

from lm_datafusion.engine.catalog import SessionCatalog
from lm_datafusion.engine.dataset_table import NamedDataset, of_orc
from lm_datafusion.engine.explain import explain_frame
from lm_datafusion.engine.factory import LateTableFactory, NamedTableFactory
from lm_datafusion.engine.footer_concurrency import with_footer_concurrency
from lm_datafusion.engine.frame import LateDataFrame, Statement
from lm_datafusion.engine.server import QueryServer
from lm_datafusion.engine.session_methods import reports_changes
from lm_datafusion.engine.watch import WatchedDataset
from lm_datafusion.options import ScanOptions

if TYPE_CHECKING:
    import os
    import pathlib
    from collections.abc import Sequence

    import pyarrow as pa
    from datafusion import DataFrame, RuntimeEnvBuilder, SessionConfig, SQLOptions
    from datafusion.catalog import Catalog

    from lm_datafusion.metrics import ScanReport
    from lm_datafusion.metrics.explanation import ScanExplanation

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

    `options` say how tables are scanned, and `path` among them which reader serves them.
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
        self._register_factories()

    def _register_factories(self) -> None:
        super().register_table_factory("LM_PARQUET", LateTableFactory(self._options))
        orc_tables = NamedTableFactory(self._options, self._server.registered)
        super().register_table_factory("ORC", orc_tables)

    @classmethod
    def global_ctx(cls) -> SessionContext:
        """As DataFusion's: one session for the whole process, which others may change."""
        made = cast("SessionContext", super().global_ctx())
        plain = _plain(made)
        handle = made._handle(plain, made._server.for_session(plain))  # noqa: SLF001 of this class
        handle._register_factories()  # noqa: SLF001 the same
        return handle

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

        Arguments are as for DataFusion, and how this table is scanned, if not as the session says.
        """
        with self._catalog.changing():
            session = with_footer_concurrency(self._catalog, path)
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
        return LateDataFrame(made, self._server, options=options, version=version, source=made)

    def _orc_dataset(
        self,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        options: ScanOptions | None,
    ) -> NamedDataset:
        from lm_datafusion.dataset import dataset

        made = dataset(path, options=options or self._options)
        return NamedDataset(of_orc(made), self._server.registered)

    def register_listing_table(
        self, name: str, path: str | pathlib.Path, *arguments: Any, **settings: Any
    ) -> None:
        """Registers files as a table; arguments as for DataFusion."""
        with self._catalog.changing():
            session = with_footer_concurrency(self._catalog, path)
            session.register_listing_table(name, path, *arguments, **settings)

    def register_object_store(self, schema: str, store: Any, host: str | None = None) -> None:
        """Registers an object store for both readers, or for DataFusion's alone.

        Args:
            schema: Of its URLs, such as `s3://`.
            store: An obstore store; or one of DataFusion's, whose tables only DataFusion reads.
            host: The bucket or host of its URLs; that of the store by default.
        """
        from lm_datafusion.engine.object_stores import adapted, is_of_datafusion, store_url

        with self._catalog.changing():
            if is_of_datafusion(store):
                for url in [
                    u for u in self._catalog.stores if u.startswith(store_url(schema, host))
                ]:
                    del self._catalog.stores[url]
                super().register_object_store(schema, store, host)
                return
            own, storage, found = adapted(store)
            scheme = schema if "://" in schema else f"{schema}://"
            super().register_object_store(scheme, own, host or found)
            self._catalog.stores[store_url(schema, host or found)] = storage

    def deregister_object_store(self, schema: str, host: str | None = None) -> Any:
        """As DataFusion's; our reader forgets the store too."""
        from lm_datafusion.engine.object_stores import store_url

        with self._catalog.changing():
            self._catalog.stores.pop(store_url(schema, host), None)
            return super().deregister_object_store(schema, host)

    def register_dataset(self, name: str, dataset: pa.dataset.Dataset) -> None:
        """Registers a PyArrow dataset as a table; local Parquet files in it are scanned late."""
        from lm_datafusion.dataset import late_form

        late = None if self._options.path == "native" else late_form(dataset, self._options)
        with self._catalog.changing():
            watched = dataset if late is None else WatchedDataset(late, self._server.registered)
            super().register_dataset(name, watched)

    def read_parquet(self, *arguments: Any, **settings: Any) -> DataFrame:
        """Reads Parquet files as a DataFrame; arguments as for DataFusion."""
        version = self._catalog.version
        made = super().read_parquet(*arguments, **settings)
        return LateDataFrame(made, self._server, version=version, source=made)

    def table(self, name: str) -> DataFrame:
        """A registered table as a DataFrame."""
        version = self._catalog.version
        return LateDataFrame(super().table(name), self._server, version=version)

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
        """A DataFrame for SQL text; arguments as for DataFusion.

        `options` are DataFusion's `SQLOptions`, or `ScanOptions` for the tables of this query.
        """
        scan_options = options if isinstance(options, ScanOptions) else None
        checks = None if isinstance(options, ScanOptions) else options
        statement = Statement(text=query, param_values=param_values, named_params=named_params)
        made = functools.partial(
            LateDataFrame,
            server=self._server,
            options=scan_options,
            statement=statement,
            version=self._catalog.version,
        )
        is_plain = checks is None and not statement.has_params
        if is_plain and self._server.is_kept(query, scan_options):
            frame = made(functools.partial(super().sql, query))
            self._catalog.plan_before_changes(frame)
            return frame
        is_query = _QUERY.match(query) is not None
        if not is_query and _LISTING in query.lower():
            self._catalog.list_every_time()
        with nullcontext() if is_query else self._catalog.changing():
            native = super().sql(query, checks, param_values, **named_params)
        kind = _root(native)
        if kind == _DONE:  # SELECT ... INTO looked like a query
            self._catalog.change()
        has_frames = any(isinstance(value, datafusion.DataFrame) for value in named_params.values())
        return native if kind == _DONE or kind in _OTHER or has_frames else made(native)

    def explain_scan(self, query: str, options: ScanOptions | None = None) -> ScanExplanation:
        """What a query would read, in which order, and why; nothing is run."""
        version, statement = self._catalog.version, Statement(text=query)
        frame = LateDataFrame(
            super().sql(query), self._server, options=options, statement=statement, version=version
        )
        return explain_frame(frame, self._server)

    def scan_reports(self) -> list[ScanReport]:
        """What this thread's last query did: a report per Parquet table."""
        return self._server.reports()

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
