"""What DataFusion's optimizer wants of each table: its own proof of what may be filtered early.

In: an optimized logical plan. Out: per table the filters and columns of its scans.

DataFusion pushes a conjunct down to a table scan only where it holds for every row the reference
contributes: through aliases, views, CTEs, subqueries and joins of every kind. So each reference
gets a table name of its own, the query is planned with those names, and what arrives at a scan
is what that reference may filter by. No rule of ours has to be right about joins.

Invariant: a filter is kept only if its SQL text, parsed and folded again, is the same expression.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lm_datafusion.errors import LateError
from lm_datafusion.predicate import evaluator
from lm_datafusion.predicate.conjunct import Conjunct
from lm_datafusion.predicate.fold import literal_value
from lm_datafusion.predicate.literals import literal_sql, quote_identifier

if TYPE_CHECKING:
    import pyarrow as pa
    from datafusion import Expr, LogicalPlan

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


def planned_scans(plan: LogicalPlan) -> dict[str, list[PlannedScan]]:
    """The scans of a plan by table name; a CTE that is used twice is scanned twice."""
    scans: dict[str, list[PlannedScan]] = {}
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        variant = node.to_variant()
        if type(variant).__name__ == "TableScan":
            columns = tuple(name for _, name in variant.projection())
            scan = PlannedScan(filters=tuple(variant.filters()), columns=columns)
            scans.setdefault(variant.table_name(), []).append(scan)
        waiting += node.inputs()
    return scans


def has_join(plan: LogicalPlan) -> bool:
    """Whether rows of two tables meet in a plan."""
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        if type(node.to_variant()).__name__ == "Join":
            return True
        waiting += node.inputs()
    return False


def common_filters(scans: list[PlannedScan]) -> list[Expr]:
    """Filters that every scan of a table has."""
    first, *others = scans
    shared = set(map(str, first.filters)).intersection(*(map(str, o.filters) for o in others))
    return [expression for expression in first.filters if str(expression) in shared]


def to_conjunct(expression: Expr, table: str, schema: pa.Schema) -> Conjunct | None:
    """A filter of a table scan as a conjunct; None if its text is not surely the same."""
    try:
        text = _sql(expression)
        (folded,) = evaluator.fold([text], schema)
    except (LateError, _NotSayableError):
        return None
    if _unqualified(str(folded), "?table?") != _unqualified(str(expression), table):
        return None
    columns = tuple(name for name in schema.names if quote_identifier(name) in text)
    return Conjunct(text=text, columns=columns)


class _NotSayableError(Exception):
    """An expression without a rule below."""


def _unqualified(printed: str, table: str) -> str:
    return printed.replace(f"{table}.", "")


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
