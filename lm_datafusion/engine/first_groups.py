"""Some groups, whichever: found in two phases.

In: an optimized plan. Out: a `FirstGroups`, if the plan is one: groups of the rows of one table
that meet filters, as many as a LIMIT says, in no order.

`SELECT k, count(*) ... GROUP BY k LIMIT 10` wants ten groups and is content with any. To make all
of them and throw away all but ten takes as long as there are rows. So first a narrow query finds
groups among a few rows; then the query itself runs over the rows of those only.

Invariant: every row of a group that the query can give is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from lm_datafusion.engine.failing import can_fail
from lm_datafusion.engine.plan_chain import (
    can_be_listed,
    chain_of,
    column_below,
    could_fail,
    filters_of,
    kinds_of,
    limit_of,
    table_of,
)
from lm_datafusion.engine.top_k import is_one_of
from lm_datafusion.errors import GaveUpError
from lm_datafusion.predicate.literals import quote_identifier

if TYPE_CHECKING:
    import pyarrow as pa
    from datafusion import LogicalPlan

    from lm_datafusion.engine.tables import TableName

# More groups than these are no longer some.
MOST_GROUPS = 1_000
# Rows to find groups among: enough for some groups, few enough not to matter.
ROWS_LOOKED_AT = 65_536
# The share of the rows looked at that may be in the groups found.
_SMALL_SHARE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstGroups:
    """Some groups.

    Attributes:
        table: The table.
        keys: The columns that make groups.
        filters: What rows have to meet, in SQL.
        filter_columns: Columns of those.
        row_count: How many groups, with those that OFFSET passes over.
    """

    table: TableName
    keys: tuple[str, ...]
    filters: tuple[str, ...]
    filter_columns: tuple[str, ...]
    row_count: int

    def narrow_query(self, own_name: str) -> str:
        """A query for some groups among a few rows, with the rows that each has there."""
        keys = ", ".join(map(quote_identifier, self.keys))
        names = dict.fromkeys((*self.keys, *self.filter_columns))
        columns = ", ".join(map(quote_identifier, names))
        where = " AND ".join(self.filters) or "TRUE"
        return (
            f"SELECT {keys}, count(*) FROM (SELECT {columns} FROM {quote_identifier(own_name)}"
            f" LIMIT {ROWS_LOOKED_AT}) WHERE {where} GROUP BY {keys} LIMIT {self.row_count}"
        )

    def source(self, own_name: str, found: pa.Table) -> str:
        """What to read instead of the table, in SQL, given what the narrow query found.

        Raises:
            GaveUpError: There are too few groups, or they are too large, for this to pay.
        """
        if found.num_rows < self.row_count:
            raise GaveUpError("the first rows of the table have too few groups")
        *columns, counts = found.columns
        if pc.sum(counts).as_py() > _SMALL_SHARE * ROWS_LOOKED_AT:
            raise GaveUpError("the groups found are a large part of the table")
        # One key is enough: its rows hold all rows of their groups.
        distinct = [len(set(column.to_pylist())) for column in columns]
        place = distinct.index(max(distinct))
        test = is_one_of(self.keys[place], columns[place])
        return f"(SELECT * FROM {quote_identifier(own_name)} WHERE {test})"


def find_first_groups(plan: LogicalPlan, schemas: dict[TableName, pa.Schema]) -> FirstGroups | None:
    """The groups that a plan asks for, if it asks for nothing else.

    Args:
        plan: As DataFusion optimized it.
        schemas: Those of the tables that can be read in two phases.
    """
    chain = chain_of(plan)
    kinds = kinds_of(chain)
    if kinds.count("Aggregate") != 1 or kinds[-1] != "TableScan":
        return None
    place = kinds.index("Aggregate")
    above, below = kinds[:place], kinds[place + 1 : -1]
    is_plain = set(above) <= {"Limit", "Projection"} and above.count("Limit") == 1
    if not is_plain or set(below) - {"SubqueryAlias", "Projection", "Filter"}:
        return None
    name, limit = table_of(chain), chain[kinds.index("Limit")]
    row_count = limit_of(limit)
    if name not in schemas or not 0 < row_count <= MOST_GROUPS:
        return None
    schema, aggregate = schemas[name], chain[place]
    keys = [column_below(key, chain[place + 1 :]) for key in aggregate.group_by_exprs()]
    columns = tuple(key for key in keys if key is not None)
    if not keys or len(columns) < len(keys):
        return None
    if not all(can_be_listed(schema.field(column).type) for column in columns):
        return None
    filters = filters_of(chain, {name[-1], ".".join(name)}, schema)
    if filters is None or could_fail(chain[place + 1 :], schema) or _can_fail(aggregate, schema):
        return None
    texts, filter_columns = filters
    return FirstGroups(
        table=name,
        keys=columns,
        filters=texts,
        filter_columns=filter_columns,
        row_count=row_count,
    )


def _can_fail(aggregate: Any, schema: pa.Schema) -> bool:
    """Whether what is aggregated may fail on a row of a group that is not read."""
    functions = aggregate.aggregate_exprs()
    if any(re.search(r"\b(?:FILTER|ORDER BY)\b", str(function)) for function in functions):
        return True
    given = [part for function in functions for part in aggregate.aggregation_arguments(function)]
    try:
        return can_fail([part for part in given if part.variant_name() != "Literal"], schema)
    except KeyError:
        return True  # a name that a projection gives
