"""Filters of a DataFusion plan become conjuncts of a scan.

In: expressions that DataFusion's optimizer pushed to a table scan. Out: conjuncts with their SQL.

Invariant: a filter is kept only if its SQL, parsed and folded again, is the same expression.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lm_datafusion.errors import LateError
from lm_datafusion.predicate import evaluator
from lm_datafusion.predicate.conjunct import Conjunct
from lm_datafusion.predicate.fold import literal_value
from lm_datafusion.predicate.literals import literal_sql, quote_identifier, quote_string

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from datafusion import Expr

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


def to_conjuncts(
    expressions: Sequence[Expr], names: Collection[str], schema: pa.Schema
) -> tuple[Conjunct, ...]:
    """Filters of a table scan as conjuncts, without those whose text is not surely the same.

    Args:
        expressions: The filters.
        names: What the plan may call the table.
        schema: The table's columns.
    """
    with_sql = [(expression, text) for expression in expressions if (text := to_sql(expression))]
    texts = [text for _, text in with_sql]
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
        for (expression, text), again in zip(with_sql, folded, strict=True)
        if _unqualified(str(again), ["?table?"]) == _unqualified(str(expression), names)
    )


def to_sql(expression: Expr) -> str | None:
    """An expression over the columns of one table as SQL; None if there is no rule for it."""
    try:
        return _sql(expression)
    except _NoSqlError:
        return None


class _NoSqlError(Exception):
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
    raise _NoSqlError(variant)


def _binary_sql(expression: Expr) -> str:
    operator = expression.rex_call_operator()
    if operator not in _PLAIN_OPERATORS:
        raise _NoSqlError(operator)
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
        raise _NoSqlError("ESCAPE")
    word = "ILIKE" if " ILIKE " in str(expression) else "LIKE"
    negation = "NOT " if like.negated() else ""
    return f"({_sql(like.expr())} {negation}{word} {_sql(like.pattern())})"


def _function_sql(expression: Expr) -> str:
    name = str(expression).removeprefix("Expr(").partition("(")[0]
    if not name.isidentifier():
        raise _NoSqlError(name)
    arguments = ", ".join(_sql(operand) for operand in expression.rex_call_operands())
    return f"{name}({arguments})"


def _cast_sql(expression: Expr) -> str:
    # Python sees the type only in what DataFusion prints: CAST(... AS Decimal128(9, 2)).
    printed = str(expression).removeprefix("Expr(CAST(").removesuffix("))")
    data_type = printed.rpartition(" AS ")[2]
    (operand,) = expression.rex_call_operands()
    return f"arrow_cast({_sql(operand)}, {quote_string(data_type)})"
