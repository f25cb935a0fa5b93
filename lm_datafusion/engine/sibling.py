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

from lm_datafusion.engine.catalog import ANONYMOUS
from lm_datafusion.engine.shape import planned_scans
from lm_datafusion.errors import LateError
from lm_datafusion.sql.table_name import dotted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import datafusion
    from datafusion import DataFrame, LogicalPlan

    from lm_datafusion.engine.catalog import FullName, SessionCatalog
    from lm_datafusion.engine.frame import LateDataFrame
    from lm_datafusion.sql.table_name import TableName

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
    """One such session, in which some names of a catalog mean datasets."""

    def __init__(self, catalog: SessionCatalog, datasets: Mapping[TableName, Any]) -> None:
        self._catalog = catalog
        self._names = _Names(
            {
                catalog.full_name(name): found if isinstance(found, Table) else Table(found)
                for name, found in datasets.items()
            }
        )
        self._chosen = frozenset(self._names.tables)
        self._session = catalog.context.enable_url_table()
        self._session.register_catalog_provider_list(_CatalogList(self._names))

    def plan(self, frame: LateDataFrame, words: str = "") -> DataFrame:
        """The frame's query over the tables of this session; or an EXPLAIN of it, in `words`.

        Raises:
            Exception: It cannot be planned here; DataFusion has classes of its own.
        """
        statement = frame.statement
        if statement is not None:
            text = f"{words} {statement.text}" if words else statement.text
            return self._planned(lambda: statement.planned(self._session, text))
        native = frame.native
        # A view inside a frame is its plan under the view's name.
        if _ALIAS.search(native.logical_plan().display_indent()):
            self._check_files(native, frame.source)
        return self._over_datasets(self._checked_plan(native, frame.source), native)

    def _planned(self, plan: Callable[[], DataFrame]) -> DataFrame:
        tables, missing = self._names.tables, self._names.missing
        while True:
            missing.clear()
            try:
                return plan()
            except Exception:
                wanted = missing - tables.keys()
                if not wanted:
                    raise
            for name in wanted:
                tables[name] = self._loaded(name)

    def _loaded(self, name: FullName) -> Table:
        """A table that is not ours; of a view over ours, the same view over the dataset."""
        catalog = self._catalog
        provider = catalog.context.table_provider(dotted(name))
        if provider.kind != "view":
            return provider
        view = catalog.context.table(dotted(name))
        if self._chosen.isdisjoint(map(catalog.full_name, planned_scans(view.logical_plan()))):
            return provider
        if name not in catalog.checked_views or not catalog.can_keep_plans:
            self._check_files(view, None)
            catalog.checked_views[name] = self._checked_plan(view, None)
        return self._over_datasets(catalog.checked_views[name], view).into_view()

    def _checked_plan(self, frame: DataFrame, source: DataFrame | None) -> Any:
        """A frame as Substrait; a `LateError` if it is not the same when it is read back."""
        logical = frame.logical_plan()
        if _USER_FUNCTION.search(repr(logical)):
            raise LateError("Substrait has the name of a function only, and one is the user's")
        plan = substrait.Producer.to_substrait_plan(logical, self._catalog.context)
        if source is None:
            as_it_was = _consumed(plan, self._catalog.context)
        else:
            same = Sibling(self._catalog, {(ANONYMOUS,): source.into_view()})
            as_it_was = same._planned(lambda: _consumed(plan, same._session))
        if _fingerprint(as_it_was) != _fingerprint(frame):
            raise LateError("DataFusion does not read the query back from Substrait as it was")
        return plan

    def _over_datasets(self, plan: Any, frame: DataFrame) -> DataFrame:
        """A plan over the tables of this session."""
        made = self._planned(lambda: _consumed(plan, self._session))
        if not made.schema().equals(frame.schema(), check_metadata=True):
            raise LateError("Substrait changes the schema of the query")
        return made

    def _check_files(self, view: DataFrame, source: DataFrame | None) -> None:
        """Raises a `LateError` if a view is over tables that names do not mean any more."""
        scans = planned_scans(view.optimized_logical_plan())
        if not self._catalog.has_files_of(view, scans, source):
            raise LateError("a view is over tables that are not those of the catalog")


def _consumed(plan: Any, session: datafusion.SessionContext) -> DataFrame:
    logical: LogicalPlan = substrait.Consumer.from_substrait_plan(session, plan)
    return session.create_dataframe_from_logical_plan(logical)


def _fingerprint(frame: DataFrame) -> list[str]:
    """The nodes of a frame's plan: scans with their filters, other expressions without columns.

    Substrait carries no names of columns, so they print differently.
    """
    plan = frame.optimized_logical_plan()
    lines = plan.display_indent().splitlines()
    kept = [line.strip() for line in lines if not _RENAMING.match(line)]
    nodes = [
        _QUALIFIER.sub("", line) if line.startswith("TableScan: ") else line.partition(":")[0]
        for line in kept
    ]
    return [text.replace("Utf8View(", "Utf8(") for text in nodes + _DETAIL.findall(repr(plan))]


class _Names:
    """Names that mean our tables; and those that were asked for besides."""

    def __init__(self, tables: dict[FullName, Table]) -> None:
        self.tables = tables
        self.missing: set[FullName] = set()

    def below(self, *prefix: str) -> set[str]:
        """The next part of names that begin with these parts."""
        size = len(prefix)
        return {name[size] for name in self.tables if name[:size] == prefix}


class _CatalogList(CatalogProviderList):
    def __init__(self, names: _Names) -> None:
        self._names = names

    def catalog_names(self) -> set[str]:
        return self._names.below()

    def catalog(self, name: str) -> CatalogProvider:
        return _Catalog(self._names, name)


class _Catalog(CatalogProvider):
    def __init__(self, names: _Names, name: str) -> None:
        self._names = names
        self._name = name

    def schema_names(self) -> set[str]:
        return self._names.below(self._name)

    def schema(self, name: str) -> Any:
        return _Schema(self._names, self._name, name)


class _Schema(SchemaProvider):
    def __init__(self, names: _Names, *prefix: str) -> None:
        self._names = names
        self._prefix = prefix

    def table_names(self) -> set[str]:
        return self._names.below(*self._prefix)

    def table(self, name: str) -> Table | None:
        full: Any = (*self._prefix, name)
        if full not in self._names.tables:
            self._names.missing.add(full)
        return self._names.tables.get(full)

    def table_exist(self, name: str) -> bool:
        return name in self.table_names()
