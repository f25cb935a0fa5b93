"""Some rows, whichever.

In: an optimized plan. Out: an `AnyRows`, if the plan is one: rows of one table that meet filters,
as many as a LIMIT says, in no order.

Our own scan then stops once it has them, and takes row groups that match as a whole first.
DataFusion's reader stops by itself.

Invariant: rows that a scan leaves out are not needed for the answer, and would not have failed it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lm_datafusion.engine.plan_chain import (
    chain_of,
    could_fail,
    filters_of,
    kinds_of,
    limit_of,
    table_of,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from datafusion import LogicalPlan

    from lm_datafusion.engine.tables import TableName


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyRows:
    """Some rows of a table; `row_count` of them, with those that OFFSET passes over."""

    table: TableName
    row_count: int


def find_any_rows(plan: LogicalPlan, schemas: dict[TableName, pa.Schema]) -> AnyRows | None:
    """The rows that a plan asks for, if it asks for nothing else.

    Args:
        plan: As DataFusion optimized it.
        schemas: Those of the tables that can be read so.
    """
    chain = chain_of(plan)
    kinds = kinds_of(chain)
    if kinds.count("Limit") != 1 or kinds[-1] != "TableScan":
        return None
    place = kinds.index("Limit")
    above, below = set(kinds[:place]), set(kinds[place + 1 : -1])
    if above - {"Projection", "SubqueryAlias"} or below - {"Projection", "SubqueryAlias", "Filter"}:
        return None
    name, limit = table_of(chain), chain[place]
    row_count = limit_of(limit)
    if name not in schemas or not row_count:
        return None
    schema = schemas[name]
    if filters_of(chain, {name[-1], ".".join(name)}, schema) is None or could_fail(chain, schema):
        return None
    return AnyRows(table=name, row_count=row_count)
