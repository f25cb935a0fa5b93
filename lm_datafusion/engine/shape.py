"""What a query asks of its tables: one look at DataFusion's optimized plan.

In: a frame's plans. Out: a `QueryShape`: per table the filters and columns of its scans, what the
plan does with them, and the nodes above the scan where the plan has no branches.

DataFusion pushes a conjunct down to a table scan only where it holds for every row that the scan
contributes: through aliases, views, CTEs, subqueries and joins of every kind. A table that is
scanned more than once is filtered by what all its scans have in common. No rule of ours has to be
right about joins.

Invariant: what Python cannot see of a plan, or what is not surely the table's own column, is left
out, and then nothing is filtered by it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from lm_datafusion.forks import cached_property
from lm_datafusion.predicate import evaluator
from lm_datafusion.predicate.fallible import can_fail
from lm_datafusion.predicate.pushed_filters import to_sql
from lm_datafusion.predicate.volatility import STABLE_FUNCTIONS, VOLATILE_FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from datafusion import DataFrame, Expr, LogicalPlan

    from lm_datafusion.sql.table_name import TableName

_SCAN_LINE = re.compile(r"^\s*TableScan: ", re.MULTILINE)
_OUTER_JOIN = re.compile(r"(?:Left|Right|Full) Join: ")
_NARROWING = re.compile(r"Filter: |Sort: .*, fetch=\d+$", re.DOTALL)
_CLOCK = re.compile(rf"\b(?:{'|'.join(STABLE_FUNCTIONS)})\b", re.IGNORECASE)
_UNSTEADY = re.compile(rf"\b(?:{'|'.join(STABLE_FUNCTIONS | VOLATILE_FUNCTIONS)})\b", re.IGNORECASE)


class PlannedScan(NamedTuple):
    """What one scan asks of its table: rows that meet `filters`, and some columns."""

    filters: tuple[Expr, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True)
class QueryShape:
    """A query's plan as it was written, and the same as DataFusion optimized it."""

    logical: LogicalPlan
    plan: LogicalPlan

    @classmethod
    def of(cls, frame: DataFrame) -> QueryShape:
        """The shape of a frame."""
        return cls(frame.logical_plan(), frame.optimized_logical_plan())

    @cached_property
    def scans(self) -> dict[TableName, list[PlannedScan]]:
        """The scans by table name; none if one is where Python cannot look."""
        return planned_scans(self.plan)

    @cached_property
    def nodes(self) -> list[Any]:
        """The nodes of a plan without branches, from the top; none of any other plan."""
        plan = self.plan
        found = [plan.to_variant()]
        while inputs := plan.inputs():
            if len(inputs) > 1:
                return []
            (plan,) = inputs
            found.append(plan.to_variant())
        return found

    @cached_property
    def kinds(self) -> list[str]:
        """The kinds of `nodes`."""
        return [_kind(node) for node in self.nodes]

    @cached_property
    def printed(self) -> str:
        """The query as it was written, printed."""
        return self.logical.display_indent()

    @cached_property
    def _everything(self) -> list[Any]:
        return [node.to_variant() for node in _nodes(self.plan)]

    @cached_property
    def has_dynamic_filters(self) -> bool:
        """Whether DataFusion may narrow its own scans while they run: by a join, or a top-k."""
        kinds = set(map(_kind, self._everything))
        is_top_k = any(_kind(n) == "Sort" and n.get_fetch_val() for n in self._everything)
        return "Join" in kinds or (is_top_k and "Aggregate" not in kinds)

    @cached_property
    def reads_every_row(self) -> bool:
        """Whether no scan has a filter, and the query is neither the first nor some of its rows."""
        if any(scan.filters for scans in self.scans.values() for scan in scans):
            return False
        if self._filters_over_scans:
            return False
        kinds = set(self.kinds)
        is_top_k = "Sort" in kinds and "Aggregate" not in kinds
        return bool(self.scans) and not is_top_k and ("Limit" not in kinds or "Sort" in kinds)

    @property
    def has_order(self) -> bool:
        """Whether rows are sorted anywhere."""
        return not {"Sort", "WindowExpr", "Window"}.isdisjoint(map(_kind, self._everything))

    @property
    def asks_for_time(self) -> bool:
        """Whether it calls `now()` and the like: a second plan would be of another moment."""
        return _CLOCK.search(self.printed) is not None

    @property
    def is_repeatable(self) -> bool:
        """Whether a plan that is kept means the same the next time."""
        return _UNSTEADY.search(self.printed) is None

    def narrows_outer_join(self) -> bool:
        """Whether rows of an outer join are filtered, or sorted for the first few, above it."""
        waiting = [(self.plan, False)]
        while waiting:
            node, is_narrowed = waiting.pop()
            line = node.display()
            if is_narrowed and _OUTER_JOIN.match(line):
                return True
            is_narrowed = is_narrowed or _NARROWING.match(line) is not None
            waiting += [(below, is_narrowed) for below in node.inputs()]
        return False

    def filters_of(self, name: TableName) -> list[Expr]:
        """Filters that every scan of a table has."""
        first, *others = self.scans[name]
        if not others:
            return list(first.filters)
        # Not as DataFusion prints them: a text that looks like a condition prints like one.
        texts = {text: e for e in first.filters if (text := to_sql(e))}
        shared = set(texts).intersection(*(map(to_sql, other.filters) for other in others))
        return [e for text, e in texts.items() if text in shared and prints_exactly(str(e))]

    def filters_over(self, name: TableName) -> list[Expr]:
        """What a filter right above the only scan of a table asks of its rows.

        A dataset is not offered all filters (LIKE, functions): they stay above its scan. Functions
        that give something else each time are left out.
        """
        if len(self.scans[name]) != 1:
            return []
        predicates = self._filters_over_scans.get(name, [])
        parts = [part for p in predicates for part in evaluator.operands_of("AND", p)]
        return [e for e in parts if prints_exactly(str(e)) and not _UNSTEADY.search(str(e))]

    @cached_property
    def _filters_over_scans(self) -> dict[TableName, list[Expr]]:
        """By table: the predicates of filters right above its scans."""
        found: dict[TableName, list[Expr]] = {}
        waiting = [self.plan]
        while waiting:
            node = waiting.pop()
            below = node.inputs()
            waiting += below
            variant = node.to_variant()
            if type(variant).__name__ == "Filter" and len(below) == 1:
                scan = below[0].to_variant()
                if type(scan).__name__ == "TableScan":
                    found.setdefault(_scanned_name(scan), []).append(variant.predicate())
        return found

    def columns_of(self, name: TableName) -> tuple[str, ...]:
        """Columns that scans of a table ask for."""
        return tuple(dict.fromkeys(c for scan in self.scans[name] for c in scan.columns))

    def alias_of(self, name: TableName) -> str:
        """What the query calls a table; its own name if it has none or several."""
        aliases = {
            node.to_variant().alias()
            for node in _nodes(self.logical)
            if _kind(node.to_variant()) == "SubqueryAlias"
            for below in node.inputs()
            if _kind(scan := below.to_variant()) == "TableScan" and _scanned_name(scan) == name
        }
        is_one = len(aliases) == 1 and len(self.scans[name]) == 1
        return aliases.pop() if is_one else ".".join(name)

    @property
    def scan_filters(self) -> str:
        """The filters of all scans, as DataFusion prints them."""
        lines = self.plan.display_indent().splitlines()
        return "\n".join(line for line in lines if "TableScan: " in line)


def planned_scans(plan: LogicalPlan) -> dict[TableName, list[PlannedScan]]:
    """The scans of a plan by table name; a CTE that is used twice is scanned twice.

    None at all if one is where Python cannot look (a subquery inside an expression): then no filter
    is known to hold for all scans of a table.
    """
    scans: dict[TableName, list[PlannedScan]] = {}
    for node in (n.to_variant() for n in _nodes(plan)):
        if _kind(node) == "TableScan":
            columns = tuple(column for _, column in node.projection())
            found = scans.setdefault(_scanned_name(node), [])
            found.append(PlannedScan(tuple(node.filters()), columns))
    shown = len(_SCAN_LINE.findall(plan.display_indent()))
    return scans if shown == sum(map(len, scans.values())) else {}


def prints_exactly(printed: str) -> bool:
    """Whether what DataFusion prints tells expressions apart: NaN has no sign there."""
    return "NaN" not in printed


def limit_of(node: Any) -> int:
    """How many rows a LIMIT needs, with those that OFFSET skips; 0 if that is not clear."""
    given = [node.fetch(), node.skip()]
    if given[0] is None or any(n is not None and n.variant_name() != "Literal" for n in given):
        return 0
    wanted, skipped = (0 if n is None else int(n.python_value()) for n in given)
    return wanted + skipped if wanted else 0


def column_below(expression: Expr, nodes: Sequence[Any]) -> str | None:
    """The table's own column that an expression is, unchanged, under projections."""
    if expression.variant_name() != "Column":
        return None
    name: str = expression.to_variant().name()
    for node in nodes:
        if _kind(node) != "Projection":
            continue
        found = [_plain_column(output) for output in node.projections() if _named(output) == name]
        if len(found) != 1 or found[0] is None:
            return None
        name = found[0]
    return name


def can_fail_below(nodes: Sequence[Any], schema: pa.Schema) -> bool:
    """Whether an expression that DataFusion evaluates for every row may fail on one of them."""
    outputs = [e for node in nodes if _kind(node) == "Projection" for e in node.projections()]
    try:
        return can_fail([output for output in outputs if _plain_column(output) is None], schema)
    except KeyError:
        return True  # a name that a projection further down gives


def _named(output: Expr) -> str:
    kind = output.variant_name()
    if kind == "Column":
        return output.to_variant().name()
    return output.to_variant().alias() if kind == "Alias" else output.schema_name()


def _plain_column(output: Expr) -> str | None:
    while output.variant_name() == "Alias":
        (output,) = output.rex_call_operands()
    return output.to_variant().name() if output.variant_name() == "Column" else None


def _kind(node: Any) -> str:
    return type(node).__name__


def _scanned_name(scan: Any) -> TableName:
    return tuple(part for part in scan.fqn() if part is not None)


def _nodes(plan: LogicalPlan) -> Iterator[LogicalPlan]:
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.inputs()
