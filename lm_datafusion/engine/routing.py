"""From a query to the reader of each of its tables.

In: a frame as DataFusion planned it. Out: a `RoutedQuery`: per table reference a path and its
reason, and the query's text over tables of its own.

1. DataFusion's optimized plan says which tables are scanned, with which filters and columns.
2. A path is chosen for each table. If DataFusion's own reader is to serve all of them, that is
   all: the text is not even parsed.
3. Otherwise each reference to a Parquet table gets a name of its own in the user's text, through
   views, and its filters are those that DataFusion's optimizer pushes down to that name.

Invariant: a reference is filtered only by what DataFusion pushed down to each of its scans.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from lm_datafusion.engine.any_rows import find_any_rows
from lm_datafusion.engine.choice import PUSHDOWN_BUG, choose_path
from lm_datafusion.engine.failing import can_fail
from lm_datafusion.engine.plan_scans import (
    common_filters,
    has_join,
    narrows_outer_join,
    planned_scans,
    prints_exactly,
    scanned_columns,
    to_conjuncts,
)
from lm_datafusion.engine.tables import as_exact_table, dotted
from lm_datafusion.engine.top_k import TopK
from lm_datafusion.engine.two_phases import find_two_phases
from lm_datafusion.errors import LateError
from lm_datafusion.predicate import evaluator
from lm_datafusion.predicate.literals import quote_identifier
from lm_datafusion.predicate.volatility import STABLE_FUNCTIONS, VOLATILE_FUNCTIONS
from lm_datafusion.sql.statement import parse_query
from lm_datafusion.sql.where import find_conditions, without

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from datafusion import Expr, LogicalPlan

    from lm_datafusion.dataset import LateDataset
    from lm_datafusion.engine.any_rows import AnyRows
    from lm_datafusion.engine.plan_scans import PlannedScan
    from lm_datafusion.engine.tables import ParquetTable, TableName, Tables
    from lm_datafusion.engine.two_phases import TwoPhases
    from lm_datafusion.options import AccessPath, ScanOptions
    from lm_datafusion.plan import FirstRows
    from lm_datafusion.sql.statement import Query
    from lm_datafusion.sql.where import Condition

    Scans = dict[TableName, list[PlannedScan]]
    PlanOver = Callable[[str, Mapping[str, ParquetTable]], LogicalPlan]

_numbers = itertools.count()
# Names that nobody else has: a number drawn when the process starts is in each of them.
_MARK = f"__lm_{secrets.token_hex(6)}"
_OWN_NAME = re.compile(rf"{_MARK}_\d+(_\d+)")
CHANGES_BY_ITSELF = re.compile(
    rf"\b(?:{'|'.join(STABLE_FUNCTIONS | VOLATILE_FUNCTIONS)})\b", re.IGNORECASE
)
TELLS_TIME = re.compile(rf"\b(?:{'|'.join(STABLE_FUNCTIONS)})\b", re.IGNORECASE)
NO_TEXT = "no SQL is known that surely means the frame"
# Which side becomes the left one depends on what it knows of the tables' sizes.
_OUTER_JOIN_BUG = "DataFusion 55 may filter the wrong side of an outer join whose sides it swaps"


def _next_prefix() -> str:
    return f"{_MARK}_{next(_numbers)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Which reader serves a table.

    Attributes:
        path: The reader.
        reason: Why.
        options: How it scans.
        first: On our own path: only these rows are wanted.
        limit: So many rows, whichever, are enough; our own scan stops then.
        is_for_once: Whether to choose anew the next time.
    """

    path: AccessPath
    reason: str
    options: ScanOptions
    first: FirstRows | None = None
    limit: int | None = None
    is_for_once: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedReference:
    """One reference to a Parquet table.

    Attributes:
        alias: What the query calls the table.
        table: What it is.
        route: Which reader serves it.
        columns: Columns the query needs of it.
        filters: What all its rows have to meet, as DataFusion says it.
        own_name: The name it has in the routed text; empty if the text was left as it is.
        late: The dataset that serves it, on the late path.
    """

    alias: str
    table: ParquetTable
    route: Route
    columns: tuple[str, ...] = ()
    filters: tuple[Expr, ...] = ()
    own_name: str = ""
    late: LateDataset | None = None

    def as_native(self, reason: str) -> RoutedReference:
        """The same reference, read by DataFusion after all."""
        reason = self.route.reason if self.route.path == "native" else reason
        route = Route(path="native", reason=reason, options=self.route.options)
        return dataclasses.replace(self, route=route, own_name="", late=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedQuery:
    """A query and the readers of its tables; without a text, DataFusion's own frame serves."""

    text: str | None
    references: tuple[RoutedReference, ...]
    phases: TwoPhases | None = None

    @property
    def is_for_once(self) -> bool:
        """Whether to choose anew the next time."""
        return any(reference.route.is_for_once for reference in self.references)

    @property
    def is_read_by_datafusion(self) -> bool:
        """Whether DataFusion does all of it."""
        return self.phases is None and all(r.late is None for r in self.references)

    @property
    def may_give_up(self) -> bool:
        """Whether a scan of ours has to show first that it was the right choice."""
        firsts = [reference.route.first for reference in self.references]
        return any(first is not None and first.most_rows_seen is not None for first in firsts)

    def as_native(self, reason: str) -> RoutedQuery:
        """The same query, read by DataFusion after all."""
        references = tuple(reference.as_native(reason) for reference in self.references)
        return RoutedQuery(text=None, references=references)

    def because(self, reason: str) -> RoutedQuery:
        """The same query, with another reason for its routes."""
        return dataclasses.replace(
            self,
            references=tuple(
                dataclasses.replace(r, route=dataclasses.replace(r.route, reason=reason))
                for r in self.references
            ),
        )

    def renamed(self) -> RoutedQuery:
        """The same, with other names of their own: two runs at a time keep apart."""
        prefix = _next_prefix()
        return RoutedQuery(
            text=None if self.text is None else _OWN_NAME.sub(rf"{prefix}\1", self.text),
            references=tuple(
                dataclasses.replace(r, own_name=_OWN_NAME.sub(rf"{prefix}\1", r.own_name))
                for r in self.references
            ),
            phases=self.phases,
        )


@dataclass(slots=True)
class _Expansion:
    """References found while views are replaced by their queries."""

    tables: Mapping[TableName, ParquetTable]
    prefix: str = field(default_factory=_next_prefix)
    found: dict[str, tuple[str, TableName]] = field(default_factory=dict)

    def own_name(self, alias: str, name: TableName) -> str:
        own = f"{self.prefix}_{len(self.found)}"
        self.found[own] = (alias, name)
        return own


class Router:
    """Chooses readers for the queries of one session.

    Args:
        tables: The session's catalog.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def route(
        self,
        plan: LogicalPlan,
        text: str | None,
        options_of: Callable[[TableName], ScanOptions],
        plan_over: PlanOver,
    ) -> RoutedQuery:
        """Chooses.

        Args:
            plan: The query as DataFusion optimized it.
            text: The query; None if it is not known.
            options_of: How each table is scanned.
            plan_over: Plans a text in which names of their own stand for tables.
        """
        scans = planned_scans(plan)
        tables = {name: table for name in scans if (table := self._tables.known_table(name))}
        schemas = {name: table.schema for name, table in tables.items()}
        phases = find_two_phases(plan, schemas)
        some = None if phases is not None else find_any_rows(plan, schemas)
        routes = {
            name: _careful(
                _route(table, scans[name], options_of(name), plan, phases, some),
                scans[name],
                table,
                plan,
            )
            for name, table in tables.items()
        }
        if all(route.path == "native" for route in routes.values()):
            return _native(tables, routes, scans)
        if text is None:
            return _native(tables, routes, scans).as_native(NO_TEXT)
        # What is to be read is listed anew; what is left to DataFusion, DataFusion lists.
        tables = {name: table for name in tables if (table := self._tables.find_table(name))}
        try:
            routed = self._routed(text, scans, tables, routes, plan_over)
        except _UnclearError as unclear:
            left = {
                name: Route(path="native", reason=str(unclear), options=route.options)
                for name, route in routes.items()
            }
            return _native(tables, left, scans)
        is_two_phase = any(r.route.path == "row_fetch" for r in routed.references)
        return dataclasses.replace(routed, phases=phases if is_two_phase else None)

    def route_table(
        self,
        table: ParquetTable,
        scans: list[PlannedScan],
        options: ScanOptions,
        plan: LogicalPlan,
    ) -> RoutedReference:
        """Chooses the reader of one table, of which a plan has these scans."""
        own_name = f"{_next_prefix()}_0"
        route = _careful(_route(table, scans, options, plan), scans, table, plan)
        return _reference(table.name[-1], own_name, table, route, scans)

    def is_current(self, routed: RoutedQuery) -> bool:
        """Whether a query routed earlier would be routed the same now, in an unchanged catalog."""
        if routed.text is None:
            return all(reference.table.is_unchanged for reference in routed.references)
        tables = {reference.table.name: reference.table for reference in routed.references}
        return all(self._tables.find_table(name) == table for name, table in tables.items())

    def _routed(
        self,
        text: str,
        scans: Scans,
        tables: dict[TableName, ParquetTable],
        routes: dict[TableName, Route],
        plan_over: PlanOver,
    ) -> RoutedQuery:
        query = parse_query(text)
        if query is None:
            raise _UnclearError("the statement is not understood well enough to be changed")
        expansion = _Expansion(tables)
        text = self._expanded(query, expansion)
        if TELLS_TIME.search(text):
            # Two plans of it would be of two times.
            raise _UnclearError("the statement asks for the time")
        own = _own_scans(text, expansion, scans, plan_over)
        references = tuple(
            _reference(alias, own_name, tables[name], routes[name], own.get((own_name,), []))
            for own_name, (alias, name) in expansion.found.items()
        )
        if not references:
            raise _UnclearError("a view that DataFusion cannot write as SQL")
        if all(reference.route.path == "native" for reference in references):
            return RoutedQuery(text=None, references=references)
        return RoutedQuery(text=_without_applied(text, references), references=references)

    def _expanded(self, query: Query, expansion: _Expansion) -> str:
        """The query's text with names of their own, and views replaced by their queries."""
        sources = {}
        for index, reference in enumerate(query.references):
            if reference.name in expansion.tables:
                own = expansion.own_name(reference.alias, reference.name)
                sources[index] = quote_identifier(own)
                continue
            view = self._view(reference.name, expansion)
            if view is not None:
                sources[index] = f"(\n{self._expanded(view, expansion)}\n)"
        return query.spliced(sources)

    def _view(self, name: TableName, expansion: _Expansion) -> Query | None:
        """The query of a view that reads Parquet tables and nothing else."""
        if self._tables.kind(name) != "view":
            return None
        view = self._tables.find_view(name)
        if view is None:
            return None
        is_whole = all(
            inner.name in expansion.tables or self._view(inner.name, expansion)
            for inner in view.references
        )
        return view if is_whole else None


def _own_scans(text: str, expansion: _Expansion, scans: Scans, plan_over: PlanOver) -> Scans:
    """The scans of each name of its own."""
    names = [name for _, name in expansion.found.values()]
    if any(name not in scans for name in names):
        raise _UnclearError("a table of the statement is not in DataFusion's plan of it")
    if all(names.count(name) == 1 for name in expansion.tables):
        return {(own,): scans[name] for own, (_, name) in expansion.found.items()}
    tables = {own: expansion.tables[name] for own, (_, name) in expansion.found.items()}
    return planned_scans(plan_over(text, tables))


class _UnclearError(Exception):
    """A query that is left to DataFusion; the text says why."""


def _route(
    table: ParquetTable,
    scans: list[PlannedScan],
    options: ScanOptions,
    plan: LogicalPlan,
    phases: TwoPhases | None = None,
    some: AnyRows | None = None,
) -> Route:
    limit = None if some is None else some.row_count
    if options.path == "auto":
        can_push = not has_join(plan)
        choice = choose_path(table, scans, phases or some, options, can_push=can_push)
        return Route(
            path=choice.path,
            reason=choice.reason,
            options=options,
            first=choice.first,
            limit=limit,
            is_for_once=choice.is_for_once,
        )
    path, reason, first = options.path, f"path={options.path}", None
    if path == "row_fetch":
        if isinstance(phases, TopK) and not phases.can_list_keys:
            path, first = "late", phases.first
        elif phases is None:
            path, reason = "native", "neither the first rows of an order of one table nor groups"
    elif path == "late" and isinstance(phases, TopK):
        first = phases.first
    elif path != "native" and not common_filters(scans):
        path, reason = "native", "no filter to apply early"
    elif path == "native_pushdown" and has_join(plan):
        path, reason = "native", PUSHDOWN_BUG
    return Route(path=path, reason=reason, options=options, first=first, limit=limit)


def _careful(
    route: Route, scans: list[PlannedScan], table: ParquetTable, plan: LogicalPlan
) -> Route:
    """A route, unless it could show in the answer that DataFusion does not read the table."""
    if route.path == "native":
        return route
    filters = [expression for scan in scans for expression in scan.filters]
    if can_fail(filters, table.schema):
        reason = "a condition that can fail on a value is left to DataFusion"
    elif narrows_outer_join(plan):
        reason = _OUTER_JOIN_BUG
    else:
        return route
    return Route(path="native", reason=reason, options=route.options)


def _native(
    tables: Mapping[TableName, ParquetTable], routes: Mapping[TableName, Route], scans: Scans
) -> RoutedQuery:
    references = tuple(
        RoutedReference(
            alias=dotted(name).replace('"', ""),
            table=table,
            route=routes[name],
            columns=scanned_columns(scans[name]),
            filters=tuple(common_filters(scans[name])),
        )
        for name, table in tables.items()
    )
    return RoutedQuery(text=None, references=references)


def _reference(
    alias: str, own_name: str, table: ParquetTable, route: Route, scans: list[PlannedScan]
) -> RoutedReference:
    late = None
    if route.path == "late":
        late, reason = _late_dataset(own_name, table, route, scans)
        if late is None:
            route = Route(path="native", reason=reason, options=route.options)
    return RoutedReference(
        alias=alias,
        table=table,
        route=route,
        columns=scanned_columns(scans),
        filters=tuple(common_filters(scans)) if scans else (),
        own_name=own_name,
        late=late,
    )


def _late_dataset(
    own_name: str, table: ParquetTable, route: Route, scans: list[PlannedScan]
) -> tuple[LateDataset | None, str]:
    # Here, as most statements are answered without a dataset, and PyArrow's take 9 MB.
    from lm_datafusion.dataset import LateDataset
    from lm_datafusion.dataset.extent import Extent

    if not scans:
        return None, "DataFusion needs no row of it"
    try:
        late = LateDataset(as_exact_table(table, route.options), options=route.options)
    except LateError as error:
        return None, str(error)
    names = {own_name, *table.printed_names}
    conjuncts = to_conjuncts(common_filters(scans), names, late.schema)
    late = late.with_conjuncts(conjuncts)
    is_exact = len(conjuncts) == len(common_filters(scans))
    if route.first is not None and is_exact:
        return late.with_extent(Extent(first=route.first)), ""
    if route.limit is not None and conjuncts and is_exact:
        return late.with_extent(Extent(limit=route.limit, is_any_order=True)), ""
    return (late, "") if conjuncts else (None, "no filter that can be applied early")


def _without_applied(text: str, references: Sequence[RoutedReference]) -> str:
    """The text without the conditions that datasets apply, so that no column is read for them."""
    conditions = find_conditions(text)
    applied = [
        condition
        for reference in references
        if reference.late is not None
        for condition in _applied(
            [c for c in conditions if c.table == reference.own_name], reference.late
        )
    ]
    return without(text, applied)


def _applied(conditions: list[Condition], late: LateDataset) -> list[Condition]:
    """Those of the conditions that every row of a dataset meets."""
    asked = [condition.text for condition in conditions]
    told = [conjunct.text for conjunct in late.conjuncts]
    everything = " ".join([*asked, *told]).lower()
    schema = pa.schema([field for field in late.schema if field.name.lower() in everything])
    try:
        folded = evaluator.fold([*asked, *told], schema)
    except LateError:
        if len(conditions) <= 1:
            return []
        return [found for condition in conditions for found in _applied([condition], late)]
    said = set(map(str, folded[len(asked) :]))
    return [
        condition
        for condition, whole in zip(conditions, folded, strict=False)
        if all(
            str(part) in said and prints_exactly(str(part))
            for part in evaluator.operands_of("AND", whole)
        )
    ]
