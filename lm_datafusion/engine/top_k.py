"""The first rows of an order, found in two phases.

In: an optimized plan. Out: a `TopK`, if the plan is one: rows of one table that meet filters, in
some order, the first few.

`SELECT * ... WHERE ... ORDER BY k LIMIT 10` needs all columns of ten rows. A reader that cannot
know which ten decodes all columns of all rows that pass. So first a narrow query asks for the
`k`s of the first rows only; then the query itself runs over the rows that have one of those `k`s.

Invariant: the rows with one of those `k`s hold every row the query can give, ties included: of the
rows before the last `k` all are among the first, and of those that have the last `k` all are taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lm_datafusion.engine.failing import can_fail
from lm_datafusion.engine.plan_scans import to_conjuncts
from lm_datafusion.predicate import evaluator
from lm_datafusion.predicate.literals import literal_sql, quote_identifier

if TYPE_CHECKING:
    from collections.abc import Collection

    from datafusion import Expr, LogicalPlan

    from lm_datafusion.engine.tables import TableName

# More rows than these are no longer a few.
MOST_ROWS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopK:
    """The first rows of an order.

    Attributes:
        table: The table.
        key: The column that the order begins with.
        order: How it is ordered by that column, in SQL.
        filters: What rows have to meet, in SQL.
        filter_columns: Columns of those.
        row_count: How many rows, with those that OFFSET passes over.
    """

    table: TableName
    key: str
    order: str
    filters: tuple[str, ...]
    filter_columns: tuple[str, ...]
    row_count: int

    def narrow_query(self, own_name: str) -> str:
        """A query for the keys of the first rows, and no more: DataFusion skips what is behind."""
        key = quote_identifier(self.key)
        where = " AND ".join(self.filters) or "TRUE"
        return (
            f"SELECT {key} FROM {quote_identifier(own_name)} WHERE {where}"
            f" ORDER BY {key} {self.order} LIMIT {self.row_count}"
        )

    def source(self, own_name: str, keys: pa.Array) -> str:
        """What to read instead of the table, in SQL, given what the narrow query found."""
        own, key = quote_identifier(own_name), quote_identifier(self.key)
        tests = ["FALSE"]
        # Not by PyArrow's `unique`, which makes an empty text of a NULL among views.
        values = dict.fromkeys(literal_sql(value) for value in keys if value.is_valid)
        if values:
            tests.append(f"{key} IN ({', '.join(values)})")
        if keys.null_count:
            tests.append(f"{key} IS NULL")
        return f"(SELECT * FROM {own} WHERE {' OR '.join(tests)})"


def find_top_k(plan: LogicalPlan, schemas: dict[TableName, pa.Schema]) -> TopK | None:
    """The top-k that a plan is, if it is nothing else.

    Args:
        plan: As DataFusion optimized it.
        schemas: Those of the tables that can be read in two phases.
    """
    chain = _chain(plan)
    kinds = [type(node).__name__ for node in chain]
    if "Sort" not in kinds or kinds[-1] != "TableScan":
        return None
    place = kinds.index("Sort")
    above, below = set(kinds[:place]), set(kinds[place + 1 : -1])
    if above - {"Limit", "Projection"} or below - {"SubqueryAlias", "Projection", "Filter"}:
        return None
    scan = chain[-1]
    name = tuple(part for part in scan.fqn() if part is not None)
    row_count = chain[place].get_fetch_val()
    key, order = _first_key(chain[place], chain[place + 1 :])
    if name not in schemas or key is None or not row_count or row_count > MOST_ROWS:
        return None
    schema = schemas[name]
    if not _can_be_listed(schema.field(key).type):
        return None
    filters = _filters(chain, {name[-1], ".".join(name)}, schema)
    if filters is None or _could_fail(chain[place + 1 :], schema):
        return None
    texts, columns = filters
    return TopK(
        table=name,
        key=key,
        order=order,
        filters=texts,
        filter_columns=columns,
        row_count=row_count,
    )


def _chain(plan: LogicalPlan) -> list[Any]:
    """The nodes of a plan without branches, from the top; nothing of any other."""
    nodes = [plan.to_variant()]
    while inputs := plan.inputs():
        if len(inputs) > 1:
            return []
        (plan,) = inputs
        nodes.append(plan.to_variant())
    return nodes


def _first_key(sort: Any, below: list[Any]) -> tuple[str | None, str]:
    """The table's column that comes first in an order, and how it is ordered."""
    first = sort.sort_exprs()[0]
    order = "ASC" if first.ascending() else "DESC"
    nulls = "FIRST" if first.nulls_first() else "LAST"
    return _column_below(first.expr(), below), f"{order} NULLS {nulls}"


def _column_below(expression: Expr, nodes: list[Any]) -> str | None:
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


def _could_fail(below: list[Any], schema: pa.Schema) -> bool:
    """Whether an expression that DataFusion evaluates for every row may fail on one of them."""
    outputs = [
        e for node in below if type(node).__name__ == "Projection" for e in node.projections()
    ]
    computed = [output for output in outputs if _plain_column(output) is None]
    try:
        return can_fail(computed, schema)
    except KeyError:
        return True  # a name that a projection further down gives


def _filters(
    chain: list[Any], names: Collection[str], schema: pa.Schema
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


def _can_be_listed(data_type: pa.DataType) -> bool:
    """Types whose values can be told apart and listed: not floats, for NaN and zeros."""
    types = pa.types
    return (
        types.is_integer(data_type)
        or types.is_temporal(data_type)
        or types.is_decimal(data_type)
        or types.is_string(data_type)
        or types.is_string_view(data_type)
    )
