"""Translates PyArrow expressions to conjuncts.

In: an expression, the schema of its columns, and whose semantics it has. Out: `Conjunct`s.

DataFusion pushes its filters into a dataset as PyArrow expressions, removes them from its plan and
expects its own semantics: NaN is the greatest number, `NOT IN` of a NULL is NULL. Such an
expression is turned back into SQL, which DataFusion evaluates. All other expressions (from a user,
DuckDB, Polars) have PyArrow's semantics, so PyArrow evaluates them, and the SQL is only used for
pruning, where both engines agree on its meaning.

Invariant: a conjunct with DataFusion's semantics is exact or keeps the expression.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import pyarrow as pa

from lm_datafusion.errors import LateError, UnsupportedFeatureError
from lm_datafusion.predicate.conjunct import Conjunct
from lm_datafusion.predicate.expression_tree import Call, ExpressionTree, Field, Literal, fields
from lm_datafusion.predicate.literals import literal_sql, quote_identifier, quote_string

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.compute as pc

    from lm_datafusion.predicate.expression_tree import Node

_INFIX = {
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "and_kleene": "AND",
    "or_kleene": "OR",
}
_CONNECTIVES = frozenset({"and_kleene", "or_kleene"})
# SetLookupOptions.null_matching_behavior
_MATCH_NULL, _SKIP_NULL = 0, 1


class Meaning(Enum):
    """Whose semantics an expression has."""

    DATAFUSION = "datafusion"
    PYARROW = "pyarrow"


def translate_expression(
    expression: pc.Expression, schema: pa.Schema, meaning: Meaning
) -> tuple[Conjunct, ...]:
    """Splits an expression into conjuncts.

    Args:
        expression: A boolean PyArrow expression.
        schema: The columns it may name.
        meaning: Whose semantics it has.

    Returns:
        The conjuncts, as ordered in the expression.
    """
    try:
        tree = ExpressionTree(expression)
        nodes = _split(tree.root)
        return tuple(_conjunct(node, tree, expression, schema, meaning) for node in nodes)
    except (UnsupportedFeatureError, RecursionError):
        # Evaluated whole, over all columns: slow but correct.
        return (
            Conjunct(text="", columns=tuple(schema.names), expression=expression, can_prune=False),
        )


def translate_for_pruning(expression: pc.Expression, schema: pa.Schema) -> tuple[Conjunct, ...]:
    """The conjuncts that mean the same to both engines, and so prune for either.

    Args:
        expression: A boolean PyArrow expression.
        schema: The columns it may name.

    Returns:
        Conjuncts with DataFusion's semantics, without those whose meaning differs.
    """
    conjuncts = translate_expression(expression, schema, Meaning.DATAFUSION)
    try:
        nodes = list(_split(ExpressionTree(expression).root))
    except (UnsupportedFeatureError, RecursionError):
        return ()
    return tuple(
        conjunct
        for conjunct, node in zip(conjuncts, nodes, strict=True)
        if conjunct.expression is None
        and _engines_agree(node, schema)
        and not _has_null_in_list(node)
        and not (_has_call(node, "invert") and _has_call(node, "is_in"))
    )


def _split(node: Node) -> Iterator[Node]:
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Call) and node.function == "and_kleene":
            waiting += reversed(node.arguments)
        else:
            yield node


def _conjunct(
    node: Node, tree: ExpressionTree, whole: pc.Expression, schema: pa.Schema, meaning: Meaning
) -> Conjunct:
    columns = tuple(dict.fromkeys(field.path[0] for field in fields(node)))
    try:
        text = _sql(node, meaning)
    except LateError:
        text = ""
    if meaning is Meaning.DATAFUSION and text:
        return Conjunct(text=text, columns=columns)
    part = tree.subexpression(node) if isinstance(node, Call) else _leaf_expression(node, whole)
    can_prune = bool(text) and _engines_agree(node, schema)
    return Conjunct(text=text, columns=columns, expression=part, can_prune=can_prune)


def _leaf_expression(node: Node, whole: pc.Expression) -> pc.Expression:
    import pyarrow.compute as pc

    if isinstance(node, Field):
        return pc.field(*node.path)
    return pc.scalar(node.value) if isinstance(node, Literal) else whole


def _sql(node: Node, meaning: Meaning) -> str:
    match node:
        case Field(path):
            first, *rest = path
            return quote_identifier(first) + "".join(f"[{quote_string(name)}]" for name in rest)
        case Literal(value):
            return literal_sql(value)
        case Call(function, arguments) if function in _INFIX and len(arguments) == 2:  # noqa: PLR2004 infix
            left, right = (_sql(argument, meaning) for argument in arguments)
            return f"({left} {_INFIX[function]} {right})"
        case Call("invert", (argument,)):
            return f"(NOT {_sql(argument, meaning)})"
        case Call("is_valid", (argument,)):
            return f"({_sql(argument, meaning)} IS NOT NULL)"
        case Call("is_null", (argument,), options):
            if options is not None and options["nan_is_null"].as_py():
                raise UnsupportedFeatureError("NaN as null")
            return f"({_sql(argument, meaning)} IS NULL)"
        case Call("is_in", (argument,), options) if options is not None:
            return _in_list_sql(_sql(argument, meaning), options, meaning)
        case _:
            raise UnsupportedFeatureError("not a function that SQL text is made for")


def _in_list_sql(operand: str, options: pa.Scalar, meaning: Meaning) -> str:
    values = options["value_set"].values
    present = [literal_sql(value) for value in values.drop_null()]
    found = f"{operand} IN ({', '.join(present)})" if present else f"({operand} <> {operand})"
    has_null = len(present) < len(values)
    if meaning is Meaning.DATAFUSION:
        return f"({found} OR NULL)" if has_null else f"({found})"
    behaviour = options["null_matching_behavior"].as_py()
    if has_null and behaviour == _MATCH_NULL:
        return f"({operand} IS NULL OR {found})"
    if behaviour in (_MATCH_NULL, _SKIP_NULL):
        return f"({operand} IS NOT NULL AND {found})"
    raise UnsupportedFeatureError("nulls that emit nulls")


def _engines_agree(node: Node, schema: pa.Schema) -> bool:
    """Whether a node that means one thing to DataFusion may prune for PyArrow.

    They differ where NaN is negated, and where comparisons coerce types.
    """
    if _has_call(node, "invert") and any(
        pa.types.is_floating(_field_type(field, schema)) for field in fields(node)
    ):
        return False
    return _types_agree(node, schema)


def _has_call(node: Node, function: str) -> bool:
    return isinstance(node, Call) and (
        node.function == function or any(_has_call(child, function) for child in node.arguments)
    )


def _has_null_in_list(node: Node) -> bool:
    """Whether a list holds null, which matches nulls in PyArrow and nothing in DataFusion."""
    match node:
        case Call("is_in", _, options) if options is not None:
            return bool(options["value_set"].values.null_count)
        case Call(_, arguments):
            return any(map(_has_null_in_list, arguments))
        case _:
            return False


def _types_agree(node: Node, schema: pa.Schema) -> bool:
    if not isinstance(node, Call):
        return True
    if node.function in _INFIX and node.function not in _CONNECTIVES:
        left, right = (_node_type(argument, schema) for argument in node.arguments)
        return left is not None and right is not None and _same_order(left, right)
    if node.function == "is_in" and node.options is not None:
        operand = _node_type(node.arguments[0], schema)
        return operand is not None and _same_order(
            operand, node.options["value_set"].type.value_type
        )
    return all(_types_agree(argument, schema) for argument in node.arguments)


def _node_type(node: Node, schema: pa.Schema) -> pa.DataType | None:
    match node:
        case Field():
            return _field_type(node, schema)
        case Literal(value):
            return value.type
        case _:
            return None


def _field_type(field: Field, schema: pa.Schema) -> pa.DataType:
    index = schema.get_field_index(field.path[0])
    data_type = schema.field(index).type if index >= 0 else pa.null()
    for name in field.path[1:]:
        data_type = data_type.field(name).type if pa.types.is_struct(data_type) else pa.null()
    return data_type


def _same_order(left: pa.DataType, right: pa.DataType) -> bool:
    both_signed = pa.types.is_signed_integer(left) and pa.types.is_signed_integer(right)
    return left == right or both_signed
