"""What DataFusion's optimizer wants of each table: its own proof of what may be filtered early.

In: an optimized logical plan. Out: per table the filters and columns of its scans.

DataFusion pushes a conjunct down to a table scan only where it holds for every row the reference
contributes: through aliases, views, CTEs, subqueries and joins of every kind. So each reference
gets a table name of its own, the query is planned with those names, and what arrives at a scan
is what that reference may filter by. No rule of ours has to be right about joins.

Invariant: a filter is kept only if its SQL text, parsed and folded again, is the same expression.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lm_datafusion.errors import LateError
from lm_datafusion.predicate import evaluator
from lm_datafusion.predicate.conjunct import Conjunct
from lm_datafusion.predicate.fold import literal_value
from lm_datafusion.predicate.literals import literal_sql, quote_identifier, quote_string

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from datafusion import Expr, LogicalPlan

_SCAN_LINE = re.compile(r"^\s*TableScan: ", re.MULTILINE)
_OUTER_JOIN = re.compile(r"(?:Left|Right|Full) Join: ")
_NARROWING = re.compile(r"Filter: |Sort: .*, fetch=\d+$", re.DOTALL)
_SUFFIX_TESTS = {
    "IsNull": "IS NULL",
    "IsNotNull": "IS NOT NULL",
    "IsTrue": "IS TRUE",
    "IsFalse": "IS FALSE",
    "IsNotTrue": "IS NOT TRUE",
    "IsNotFalse": "IS NOT FALSE",
}
_PLAIN_OPERATORS = frozenset(
    {
        "=",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "AND",
        "OR",
        "+",
        "-",
        "*",
        "/",
        "%",
        "||",
        "~",
        "~*",
        "!~",
        "!~*",
        "IS DISTINCT FROM",
        "IS NOT DISTINCT FROM",
        "&",
        "|",
        "^",
        "<<",
        ">>",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedScan:
    """What a plan asks of one table: rows that meet `filters`, and some columns."""

    filters: tuple[Expr, ...]
    columns: tuple[str, ...]


def planned_scans(plan: LogicalPlan) -> dict[tuple[str, ...], list[PlannedScan]]:
    """The scans of a plan by table name; a CTE that is used twice is scanned twice.

    Returns:
        Nothing if a scan is where Python cannot look (a subquery inside an expression): then no
        filter is known to hold for all scans of a table.
    """
    scans: dict[tuple[str, ...], list[PlannedScan]] = {}
    for variant in _variants(plan):
        if type(variant).__name__ == "TableScan":
            name = tuple(part for part in variant.fqn() if part is not None)
            scan = PlannedScan(
                filters=tuple(variant.filters()),
                columns=tuple(column for _, column in variant.projection()),
            )
            scans.setdefault(name, []).append(scan)
    shown = len(_SCAN_LINE.findall(plan.display_indent()))
    return scans if shown == sum(map(len, scans.values())) else {}


def has_join(plan: LogicalPlan) -> bool:
    """Whether rows of two tables meet in a plan."""
    return any(type(variant).__name__ == "Join" for variant in _variants(plan))


def narrows_outer_join(plan: LogicalPlan) -> bool:
    """Whether the rows of an outer join are filtered, or sorted for the first few, above it."""
    waiting = [(plan, False)]
    while waiting:
        node, is_narrowed = waiting.pop()
        line = node.display()
        if is_narrowed and _OUTER_JOIN.match(line):
            return True
        is_narrowed = is_narrowed or _NARROWING.match(line) is not None
        waiting += [(below, is_narrowed) for below in node.inputs()]
    return False


def _variants(plan: LogicalPlan) -> Iterator[Any]:
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        yield node.to_variant()
        waiting += node.inputs()


def common_filters(scans: list[PlannedScan]) -> list[Expr]:
    """Filters that every scan of a table has."""
    first, *others = scans
    if not others:
        return list(first.filters)
    shared = set(map(str, first.filters)).intersection(*(map(str, o.filters) for o in others))
    return [e for e in first.filters if str(e) in shared and prints_exactly(str(e))]


def prints_exactly(printed: str) -> bool:
    """Whether what DataFusion prints tells expressions and plans apart: NaN has no sign there."""
    return "NaN" not in printed


def scanned_columns(scans: list[PlannedScan]) -> tuple[str, ...]:
    """Columns that scans of a table ask for."""
    return tuple(dict.fromkeys(name for scan in scans for name in scan.columns))


def to_conjuncts(
    expressions: Sequence[Expr], names: Collection[str], schema: pa.Schema
) -> tuple[Conjunct, ...]:
    """Filters of a table scan as conjuncts, without those whose text is not surely the same.

    Args:
        expressions: The filters.
        names: What the plan may call the table.
        schema: The table's columns.
    """
    sayable = [(expression, text) for expression in expressions if (text := _text(expression))]
    texts = [text for _, text in sayable]
    narrow = pa.schema([f for f in schema if any(quote_identifier(f.name) in t for t in texts)])
    try:
        folded = evaluator.fold(texts, narrow)
    except LateError:
        if len(expressions) == 1:
            return ()
        return tuple(c for e in expressions for c in to_conjuncts([e], names, schema))
    return tuple(
        Conjunct(
            text=text,
            columns=tuple(name for name in narrow.names if quote_identifier(name) in text),
        )
        for (expression, text), again in zip(sayable, folded, strict=True)
        if _unqualified(str(again), ["?table?"]) == _unqualified(str(expression), names)
    )


def _text(expression: Expr) -> str | None:
    try:
        return _sql(expression)
    except _NotSayableError:
        return None


class _NotSayableError(Exception):
    """An expression without a rule below."""


def _unqualified(printed: str, names: Collection[str]) -> str:
    for name in sorted(names, key=len, reverse=True):
        printed = printed.replace(f"{name}.", "")
    return printed


def _sql(expression: Expr) -> str:
    variant = expression.variant_name()
    if variant == "Column":
        return quote_identifier(expression.to_variant().name())
    if variant == "Literal":
        return literal_sql(literal_value(expression))
    if variant in _SUFFIX_TESTS:
        return f"({_sql(expression.to_variant().expr())} {_SUFFIX_TESTS[variant]})"
    if variant == "Not":
        return f"(NOT {_sql(expression.to_variant().expr())})"
    if variant == "BinaryExpr":
        return _binary_sql(expression)
    if variant == "InList":
        return _in_list_sql(expression)
    if variant == "Like":
        return _like_sql(expression)
    if variant == "ScalarFunction":
        return _function_sql(expression)
    if variant == "Cast":
        return _cast_sql(expression)
    raise _NotSayableError(variant)


def _binary_sql(expression: Expr) -> str:
    operator = expression.rex_call_operator()
    if operator not in _PLAIN_OPERATORS:
        raise _NotSayableError(operator)
    left, right = expression.rex_call_operands()
    return f"({_sql(left)} {operator} {_sql(right)})"


def _in_list_sql(expression: Expr) -> str:
    in_list = expression.to_variant()
    items = ", ".join(_sql(item) for item in in_list.list())
    word = "NOT IN" if in_list.negated() else "IN"
    return f"({_sql(in_list.expr())} {word} ({items}))"


def _like_sql(expression: Expr) -> str:
    like = expression.to_variant()
    if like.escape_char() is not None:
        raise _NotSayableError("ESCAPE")
    word = "ILIKE" if " ILIKE " in str(expression) else "LIKE"
    negation = "NOT " if like.negated() else ""
    return f"({_sql(like.expr())} {negation}{word} {_sql(like.pattern())})"


def _function_sql(expression: Expr) -> str:
    name = str(expression).removeprefix("Expr(").partition("(")[0]
    if not name.isidentifier():
        raise _NotSayableError(name)
    arguments = ", ".join(_sql(operand) for operand in expression.rex_call_operands())
    return f"{name}({arguments})"


def _cast_sql(expression: Expr) -> str:
    # Python is told the type in DataFusion's print only: CAST(... AS Decimal128(9, 2)).
    printed = str(expression).removeprefix("Expr(CAST(").removesuffix("))")
    data_type = printed.rpartition(" AS ")[2]
    (operand,) = expression.rex_call_operands()
    return f"arrow_cast({_sql(operand)}, {quote_string(data_type)})"


def is_named(column: str, text: str) -> bool:
    """Whether a column is named in the text of an expression."""
    return re.search(rf"\b{re.escape(column)}\b", text) is not None
