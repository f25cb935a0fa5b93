"""Conditions that can fail on a value: a division by zero, a text that is no number.

In: the filters of a table's scans. Out: whether evaluating one of them may raise.

Why: DataFusion evaluates the conditions of a WHERE together, on batches of its own; whether such
a condition meets the value it fails on depends on the rows the others have left. A reader that
evaluates them in another order would answer where DataFusion fails, or fail where it answers.

Invariant: what is not known to be safe can fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lm_datafusion.predicate.fold import literal_value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from datafusion import Expr

_SAFE = frozenset(
    {
        "Alias",
        "Between",
        "Case",
        "InList",
        "IsFalse",
        "IsNotFalse",
        "IsNotNull",
        "IsNotTrue",
        "IsNotUnknown",
        "IsNull",
        "IsTrue",
        "IsUnknown",
        "Like",
        "Not",
        "TryCast",
    }
)
_SAFE_FUNCTIONS = frozenset(
    {
        "array_element",
        "array_has",
        "array_length",
        "ascii",
        "bit_length",
        "btrim",
        "ceil",
        "character_length",
        "coalesce",
        "concat",
        "concat_ws",
        "contains",
        "date_part",
        "date_trunc",
        "ends_with",
        "exp",
        "floor",
        "get_field",
        "greatest",
        "initcap",
        "isnan",
        "iszero",
        "least",
        "left",
        "ln",
        "lower",
        "ltrim",
        "md5",
        "nullif",
        "nvl",
        "octet_length",
        "replace",
        "reverse",
        "right",
        "rtrim",
        "signum",
        "sqrt",
        "starts_with",
        "strpos",
        "substr",
        "translate",
        "trim",
        "upper",
    }
)
_ARITHMETIC = frozenset({"+", "-", "*"})
_DIVISION = frozenset({"/", "%"})
_REGULAR = frozenset({"~", "~*", "!~", "!~*"})
_COMPARING = frozenset(
    {
        "=",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "||",
        "IS DISTINCT FROM",
        "IS NOT DISTINCT FROM",
    }
)
_TEXTS = frozenset({"Utf8", "LargeUtf8", "Utf8View"})
# What holds every value of a type, besides texts.
_WIDER = {
    "Int8": frozenset({"Int16", "Int32", "Int64", "Float32", "Float64", "Date32"}),
    "Int16": frozenset({"Int32", "Int64", "Float32", "Float64", "Date32"}),
    "Int32": frozenset({"Int64", "Float64", "Date32"}),
    "Int64": frozenset({"Float64"}),
    "UInt8": frozenset({"UInt16", "UInt32", "UInt64", "Int16", "Int32", "Int64", "Float64"}),
    "UInt16": frozenset({"UInt32", "UInt64", "Int32", "Int64", "Float64"}),
    "UInt32": frozenset({"UInt64", "Int64", "Float64"}),
    "UInt64": frozenset({"Float64"}),
    "Float32": frozenset({"Float64"}),
}


def can_fail(filters: Iterable[Expr], schema: pa.Schema) -> bool:
    """Whether one of the filters may raise on some value of the columns of a schema."""
    waiting = list(filters)
    if any(expression.variant_name() == "Literal" for expression in waiting):
        return True  # DataFusion fails to hand a NULL to a dataset.
    while waiting:
        expression = waiting.pop()
        kind = expression.variant_name()
        if kind in ("Column", "Literal"):
            continue
        if not _is_safe(expression, kind, schema):
            return True
        waiting += expression.rex_call_operands()
    return False


def _is_safe(expression: Expr, kind: str, schema: pa.Schema) -> bool:
    """Whether this expression itself cannot fail; its operands are another matter."""
    if kind == "BinaryExpr":
        return _is_safe_operator(expression, schema)
    if kind == "ScalarFunction":
        name = str(expression).removeprefix("Expr(").partition("(")[0]
        return name in _SAFE_FUNCTIONS and (name != "substr" or _has_lengths(expression))
    if kind == "Cast":
        (operand,) = expression.rex_call_operands()
        return _is_safe_cast(_type_name(operand, schema), _type_name(expression, schema))
    return kind in _SAFE


def _is_safe_cast(before: str, after: str) -> bool:
    return before == after or (before in _WIDER and after in _TEXTS | _WIDER[before])


def _type_name(expression: Expr, schema: pa.Schema) -> str:
    """The type of a column or a cast as DataFusion prints it; empty where it is not known."""
    kind = expression.variant_name()
    if kind == "Column":
        return (
            str(schema.field(expression.to_variant().name()).type)
            .replace("u", "U")
            .replace("int", "Int")
            .replace("double", "Float64")
            .replace("float", "Float32")
        )
    if kind == "Cast":
        return str(expression).removesuffix(")").removesuffix(")").rpartition(" AS ")[2]
    return ""


def _is_safe_operator(expression: Expr, schema: pa.Schema) -> bool:
    operator = expression.rex_call_operator()
    _, right = expression.rex_call_operands()
    if operator in ("AND", "OR"):
        # x <> x is `x IS NULL AND NULL`, and again there is a NULL to hand to a dataset.
        operands = expression.rex_call_operands()
        return all(operand.variant_name() != "Literal" for operand in operands)
    if operator in _ARITHMETIC:
        # Integers wrap around; decimals and times overflow.
        types = _types(expression.rex_call_operands(), schema)
        return all(pa.types.is_integer(t) or pa.types.is_floating(t) for t in types)
    if operator in _DIVISION:
        return right.variant_name() == "Literal" and _value(right) not in (None, 0, -1)
    if operator in _REGULAR:
        # A pattern of the query was compiled when it was planned.
        return right.variant_name() == "Literal"
    return operator in _COMPARING


def _has_lengths(expression: Expr) -> bool:
    """Whether start and length of a substr are numbers of the query; it takes none below 0."""
    _, *numbers = expression.rex_call_operands()
    values = [_value(e) if e.variant_name() == "Literal" else None for e in numbers]
    return all(isinstance(value, int) and value >= 0 for value in values)


def _value(literal: Expr) -> object:
    return literal_value(literal).as_py()


def _types(expressions: list[Expr], schema: pa.Schema) -> list[pa.DataType]:
    """The types of the columns in expressions."""
    found, waiting = [], list(expressions)
    while waiting:
        expression = waiting.pop()
        kind = expression.variant_name()
        if kind == "Column":
            found.append(schema.field(expression.to_variant().name()).type)
        elif kind != "Literal":
            waiting += expression.rex_call_operands()
    return found
