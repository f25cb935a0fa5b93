"""A second session that plans the user's own query over tables of our choice.

In: a query (its text, or a frame), and datasets by the names of the tables they stand for. Out: a
frame over those.

`enable_url_table()` gives a session with the same runtime, functions and settings. A catalog list
of its own makes a name mean our dataset there, and only there: nothing is rewritten, and the
user's session shows no trace. Every other name is loaded from the user's catalog when planning
asks for it: a lookup during planning would start a runtime inside a runtime, so planning records
the names it misses, they are loaded, and it starts again.

A frame without a text, and a view over a table of ours, travel as Substrait, which names tables
instead of holding on to them. What comes back has to be the plan that went in (`_fingerprint`).

Invariant: a frame of a sibling reads what the user's frame reads, or planning raises.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from datafusion import substrait
from datafusion.catalog import CatalogProvider, CatalogProviderList, SchemaProvider, Table

from lm_datafusion.engine.catalog import ANONYMOUS, dotted
from lm_datafusion.engine.listing import scanned_files
from lm_datafusion.engine.shape import planned_scans
from lm_datafusion.errors import LateError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import datafusion
    from datafusion import DataFrame, LogicalPlan

    from lm_datafusion.engine.catalog import FullName, SessionCatalog
    from lm_datafusion.engine.frame import LateDataFrame

_QUALIFIER = re.compile(r'(?:"[^"]*"|[A-Za-z_?][\w?]*)\.(?=[\w"*])')
# Functions that are not built in, in a plan's debug print.
_USER_FUNCTION = re.compile(r"\b(?:Python|Foreign|Simple|MultiColumn)\w*(?:UDF|Udf)\b")
# Nodes that only rename do not tell plans apart.
_RENAMING = re.compile(r"\s*(?:SubqueryAlias|Projection): ")
_ALIAS = re.compile(r"^\s*SubqueryAlias: ", re.MULTILINE)
# What expressions consist of apart from columns, in a plan's debug print: functions, operators,
# literals, and all that Substrait, or DataFusion's reader of it, may forget.
_DETAIL = re.compile(
    r"\binner: (?!Schema)\w+|\bLiteral\([^,]*|\bwindow_frame: .*?is_causal: \w+"
    r"|\bnull_treatment: \w+(?:\(\w+\))?"
    r"|\b(?:asc|case_insensitive|distinct|filter|join_type|negated|null_equality|nulls_first|op)"
    r": \w+"
)


class Sibling:
    """One such session.

    Args:
        catalog: The user's catalog.
        datasets: What chosen names mean here.
    """

    def __init__(self, catalog: SessionCatalog, datasets: Mapping[FullName, Any]) -> None:
        self._catalog = catalog
        self._chosen = frozenset(datasets)
        self._tables = {
            name: found if isinstance(found, Table) else Table(found)
            for name, found in datasets.items()
        }
        self._missing: set[FullName] = set()
        self._session = catalog.context.enable_url_table()
        self._session.register_catalog_provider_list(_CatalogList(self._tables, self._missing))

    def plan(self, frame: LateDataFrame) -> DataFrame:
        """The frame's query over the tables of this session.

        Raises:
            Exception: It cannot be planned here; DataFusion has classes of its own.
        """
        statement = frame.statement
        if statement is not None:
            return self._planned(lambda: statement.planned(self._session))
        return self._by_substrait(frame.native, frame.source)

    def explain(self, frame: LateDataFrame, words: str) -> DataFrame:
        """DataFusion's explanation of a statement over the tables of this session."""
        statement = frame.statement
        assert statement is not None
        text = f"{words} {statement.text}"
        return self._planned(lambda: statement.planned(self._session, text))

    def _planned(self, plan: Callable[[], DataFrame]) -> DataFrame:
        while True:
            self._missing.clear()
            try:
                return plan()
            except Exception:
                missing = self._missing - self._tables.keys()
                if not missing:
                    raise
            for name in missing:
                self._tables[name] = self._loaded(name)

    def _loaded(self, name: FullName) -> Table:
        """A table that is not ours; of a view over ours, the same view over the dataset."""
        provider = self._catalog.provider(name)
        if provider.kind != "view":
            return provider
        view = self._catalog.context.table(dotted(name))
        scans = {self._catalog.full_name(n) for n in planned_scans(view.logical_plan())}
        if not scans & self._chosen:
            return provider
        checked = self._catalog.checked_views
        if name not in checked or not self._catalog.can_keep_plans:
            self._check_files(view, None)
            checked[name] = self._checked_plan(view, None)
        return self._over_datasets(checked[name], view).into_view()

    def _by_substrait(self, frame: DataFrame, source: DataFrame | None) -> DataFrame:
        # A view inside a frame is its plan under the view's name.
        if _ALIAS.search(frame.logical_plan().display_indent()):
            self._check_files(frame, source)
        return self._over_datasets(self._checked_plan(frame, source), frame)

    def _checked_plan(self, frame: DataFrame, source: DataFrame | None) -> Any:
        """A frame as Substrait.

        Raises:
            LateError: It is not the same when it is read back.
        """
        logical = frame.logical_plan()
        if _USER_FUNCTION.search(repr(logical)):
            raise LateError("Substrait has the name of a function only, and one is the user's")
        plan = substrait.Producer.to_substrait_plan(logical, self._catalog.context)
        if _fingerprint(self._as_it_was(plan, source)) != _fingerprint(frame):
            raise LateError("DataFusion does not read the query back from Substrait as it was")
        return plan

    def _over_datasets(self, plan: Any, frame: DataFrame) -> DataFrame:
        """A plan over the tables of this session."""
        made = self._planned(lambda: _consumed(plan, self._session))
        if not made.schema().equals(frame.schema(), check_metadata=True):
            raise LateError("Substrait changes the schema of the query")
        return made

    def _as_it_was(self, plan: Any, source: DataFrame | None) -> DataFrame:
        """A plan read back over the user's own tables."""
        if source is None:
            return _consumed(plan, self._catalog.context)
        anonymous = self._catalog.full_name((ANONYMOUS,))
        same = Sibling(self._catalog, {anonymous: source.into_view()})
        return same._planned(lambda: _consumed(plan, same._session))

    def _check_files(self, view: DataFrame, source: DataFrame | None) -> None:
        """A view holds on to the tables that names meant when it was made.

        Args:
            view: The view, or a frame that may have one in it.
            source: What a scan without a name is of.

        Raises:
            LateError: One of them means other files by now.
        """
        bound = scanned_files(view.execution_plan(), self._catalog.context)
        scans = planned_scans(view.optimized_logical_plan())
        tables = {
            name: self._catalog.parquet_table(name)
            if source is None or name != (ANONYMOUS,)
            else self._catalog.listed(name, source)
            for name in scans
        }
        named = [table.files for n, table in tables.items() if table for _ in scans[n]]
        if None in bound or sorted(map(sorted, filter(None, bound))) != sorted(map(sorted, named)):
            raise LateError("a view is over tables that are not those of the catalog")


def _consumed(plan: Any, session: datafusion.SessionContext) -> DataFrame:
    logical: LogicalPlan = substrait.Consumer.from_substrait_plan(session, plan)
    return session.create_dataframe_from_logical_plan(logical)


def _fingerprint(frame: DataFrame) -> list[str]:
    """The nodes of a frame's plan; of scans what they read, with which filters.

    Substrait carries no names of columns, so expressions elsewhere print differently: of those, it
    is all but the columns.
    """
    plan = frame.optimized_logical_plan()
    lines = plan.display_indent().splitlines()
    kept = [line.strip() for line in lines if not _RENAMING.match(line)]
    nodes = [
        _QUALIFIER.sub("", line) if line.startswith("TableScan: ") else line.partition(":")[0]
        for line in kept
    ]
    return [text.replace("Utf8View(", "Utf8(") for text in nodes + _DETAIL.findall(repr(plan))]


class _Schema(SchemaProvider):
    def __init__(
        self, prefix: tuple[str, str], tables: dict[FullName, Table], missing: set[FullName]
    ) -> None:
        self._prefix = prefix
        self._tables = tables
        self._missing = missing

    def _full(self, name: str) -> FullName:
        return (*self._prefix, name)

    def table_names(self) -> set[str]:
        return {name[2] for name in self._tables if name[:2] == self._prefix}

    def table(self, name: str) -> Table | None:
        found = self._tables.get(self._full(name))
        if found is None:
            self._missing.add(self._full(name))
        return found

    def table_exist(self, name: str) -> bool:
        return self._full(name) in self._tables

    def register_table(self, name: str, table: Any) -> None:
        raise NotImplementedError

    def deregister_table(self, name: str, cascade: bool) -> None:  # noqa: FBT001 DataFusion's
        raise NotImplementedError


class _Catalog(CatalogProvider):
    def __init__(self, name: str, tables: dict[FullName, Table], missing: set[FullName]) -> None:
        self._name = name
        self._tables = tables
        self._missing = missing

    def schema_names(self) -> set[str]:
        return {name[1] for name in self._tables if name[0] == self._name}

    def schema(self, name: str) -> Any:
        return _Schema((self._name, name), self._tables, self._missing)

    def register_schema(self, name: str, schema: Any) -> None:
        raise NotImplementedError

    def deregister_schema(self, name: str, cascade: bool) -> None:  # noqa: FBT001 DataFusion's
        raise NotImplementedError


class _CatalogList(CatalogProviderList):
    """Names that mean our tables; it remembers the others that were asked for."""

    def __init__(self, tables: dict[FullName, Table], missing: set[FullName]) -> None:
        self._tables = tables
        self._missing = missing

    def catalog_names(self) -> set[str]:
        return {name[0] for name in self._tables}

    def catalog(self, name: str) -> CatalogProvider:
        return _Catalog(name, self._tables, self._missing)

    def register_catalog(self, name: str, catalog: Any) -> None:
        raise NotImplementedError
