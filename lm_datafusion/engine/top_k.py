"""The first rows of an order, found in two phases.

In: an optimized plan. Out: a `TopK`, if the plan is one: rows of one table that meet filters, in
some order, the first few.

`SELECT * ... WHERE ... ORDER BY k LIMIT 10` needs all columns of ten rows. A reader that cannot
know which ten decodes all columns of all rows that pass. So first a narrow query asks for the
`k`s of the first rows only; then the query itself runs over the rows that have one of those `k`s.
Where bounds tell which pages can hold them, our own scan finds and reads them (`first`).

Invariant: the rows with one of those `k`s hold every row the query can give, ties included: of the
rows before the last `k` all are among the first, and of those that have the last `k` all are taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lm_datafusion.engine.plan_chain import (
    can_be_listed,
    chain_of,
    column_below,
    could_fail,
    filters_of,
    kinds_of,
    table_of,
)
from lm_datafusion.plan import FirstRows
from lm_datafusion.predicate.literals import literal_sql, quote_identifier
from lm_datafusion.scan.keys.sort_values import has_sort_values

if TYPE_CHECKING:
    import pyarrow as pa
    from datafusion import LogicalPlan

    from lm_datafusion.engine.tables import TableName

# Keys of more rows than these are not listed.
MOST_ROWS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopK:
    """The first rows of an order.

    Attributes:
        table: The table.
        key: The column that the order begins with.
        descending: Whether large values of it come first.
        nulls_first: Whether nulls of it come before all values.
        filters: What rows have to meet, in SQL.
        filter_columns: Columns of those.
        row_count: How many rows, with those that OFFSET passes over.
        can_list_keys: Whether the keys of so many rows can be told apart and listed.
    """

    table: TableName
    key: str
    descending: bool
    nulls_first: bool
    can_list_keys: bool
    filters: tuple[str, ...]
    filter_columns: tuple[str, ...]
    row_count: int

    @property
    def first(self) -> FirstRows:
        """What our own scan would be asked for."""
        return FirstRows(
            column=self.key,
            descending=self.descending,
            nulls_first=self.nulls_first,
            row_count=self.row_count,
        )

    def narrow_query(self, own_name: str) -> str:
        """A query for the keys of the first rows, and no more: DataFusion skips what is behind."""
        key = quote_identifier(self.key)
        where = " AND ".join(self.filters) or "TRUE"
        return (
            f"SELECT {key} FROM {quote_identifier(own_name)} WHERE {where}"
            f" ORDER BY {key} {'DESC' if self.descending else 'ASC'}"
            f" NULLS {'FIRST' if self.nulls_first else 'LAST'} LIMIT {self.row_count}"
        )

    def source(self, own_name: str, found: pa.Table) -> str:
        """What to read instead of the table, in SQL, given what the narrow query found."""
        test = is_one_of(self.key, found.column(0))
        return f"(SELECT * FROM {quote_identifier(own_name)} WHERE {test})"


def is_one_of(column: str, values: pa.ChunkedArray) -> str:
    """A condition, in SQL, that a column has one of these values."""
    name = quote_identifier(column)
    tests = ["FALSE"]
    # Not by PyArrow's `unique`, which makes an empty text of a NULL among views.
    texts = dict.fromkeys(literal_sql(value) for value in values if value.is_valid)
    if texts:
        tests.append(f"{name} IN ({', '.join(texts)})")
    if values.null_count:
        tests.append(f"{name} IS NULL")
    return " OR ".join(tests)


def find_top_k(plan: LogicalPlan, schemas: dict[TableName, pa.Schema]) -> TopK | None:
    """The top-k that a plan is, if it is nothing else.

    Args:
        plan: As DataFusion optimized it.
        schemas: Those of the tables that can be read in two phases.
    """
    chain = chain_of(plan)
    kinds = kinds_of(chain)
    if "Sort" not in kinds or kinds[-1] != "TableScan":
        return None
    place = kinds.index("Sort")
    above, below = set(kinds[:place]), set(kinds[place + 1 : -1])
    if above - {"Limit", "Projection"} or below - {"SubqueryAlias", "Projection", "Filter"}:
        return None
    name = table_of(chain)
    row_count = chain[place].get_fetch_val()
    sort = chain[place].sort_exprs()[0]
    key = column_below(sort.expr(), chain[place + 1 :])
    if name not in schemas or key is None or not row_count:
        return None
    schema = schemas[name]
    if not has_sort_values(schema.field(key).type):
        return None
    filters = filters_of(chain, {name[-1], ".".join(name)}, schema)
    if filters is None or could_fail(chain[place + 1 :], schema):
        return None
    texts, columns = filters
    return TopK(
        table=name,
        key=key,
        descending=not sort.ascending(),
        nulls_first=sort.nulls_first(),
        can_list_keys=row_count <= MOST_ROWS and can_be_listed(schema.field(key).type),
        filters=texts,
        filter_columns=columns,
        row_count=row_count,
    )
