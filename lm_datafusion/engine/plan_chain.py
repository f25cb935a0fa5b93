"""Plans without branches: what stands between a query's result and the table it reads.

In: an optimized plan. Out: its nodes from the top; what columns, filters and expressions in them
mean to the table.

Invariant: what is not surely the table's own column, or cannot be said in SQL, is None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lm_datafusion.engine.failing import can_fail
from lm_datafusion.engine.plan_scans import to_conjuncts
from lm_datafusion.predicate import evaluator

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from datafusion import Expr, LogicalPlan

    from lm_datafusion.engine.tables import TableName


def chain_of(plan: LogicalPlan) -> list[Any]:
    """The nodes of a plan without branches, from the top; none of any other."""
    nodes = [plan.to_variant()]
    while inputs := plan.inputs():
        if len(inputs) > 1:
            return []
        (plan,) = inputs
        nodes.append(plan.to_variant())
    return nodes


def kinds_of(chain: Sequence[Any]) -> list[str]:
    """The kinds of nodes."""
    return [type(node).__name__ for node in chain]


def table_of(chain: Sequence[Any]) -> TableName:
    """The table that is scanned at the end."""
    return tuple(part for part in chain[-1].fqn() if part is not None)


def limit_of(node: Any) -> int:
    """How many rows a LIMIT needs, with those that OFFSET passes over; 0 if that is not clear."""
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
        if type(node).__name__ != "Projection":
            continue
        found = [_plain_column(output) for output in node.projections() if _named(output) == name]
        if len(found) != 1 or found[0] is None:
            return None
        name = found[0]
    return name


def _named(output: Expr) -> str:
    kind = output.variant_name()
    if kind == "Column":
        return output.to_variant().name()
    return output.to_variant().alias() if kind == "Alias" else output.schema_name()


def _plain_column(output: Expr) -> str | None:
    while output.variant_name() == "Alias":
        (output,) = output.rex_call_operands()
    return output.to_variant().name() if output.variant_name() == "Column" else None


def could_fail(below: Sequence[Any], schema: pa.Schema) -> bool:
    """Whether an expression that DataFusion evaluates for every row may fail on one of them."""
    outputs = [
        e for node in below if type(node).__name__ == "Projection" for e in node.projections()
    ]
    computed = [output for output in outputs if _plain_column(output) is None]
    try:
        return can_fail(computed, schema)
    except KeyError:
        return True  # a name that a projection further down gives


def filters_of(
    chain: Sequence[Any], names: Collection[str], schema: pa.Schema
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """What rows have to meet, and the columns of that; None if it cannot be said in SQL."""
    predicates = [node.predicate() for node in chain if type(node).__name__ == "Filter"]
    asked = [part for p in predicates for part in evaluator.operands_of("AND", p)]
    told = {str(expression) for expression in chain[-1].filters()}
    if not {str(part) for part in asked} <= told or len(told) != len(asked):
        return None
    conjuncts = to_conjuncts(asked, names, schema)
    if len(conjuncts) != len(asked):
        return None
    columns = dict.fromkeys(name for conjunct in conjuncts for name in conjunct.columns)
    return tuple(conjunct.text for conjunct in conjuncts), tuple(columns)


def can_be_listed(data_type: pa.DataType) -> bool:
    """Types whose values can be told apart and listed: not floats, for NaN and zeros."""
    types = pa.types
    return (
        types.is_integer(data_type)
        or types.is_temporal(data_type)
        or types.is_decimal(data_type)
        or types.is_string(data_type)
        or types.is_string_view(data_type)
    )
