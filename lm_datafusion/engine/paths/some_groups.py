"""`GROUP BY k LIMIT n` without an order: our scan reads the rows of `n` groups only.

In: a query. Out: an offer, if any groups of one table will do.

Building every group and keeping ten costs time for every row. Instead, when the query runs, the
first rows of the table are read to find `n` groups, and the query runs over the rows of those. On
ClickBench's Q17 that takes 49 ms of processor time instead of 1,359.

Invariant: every row of a group that the query can give is read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lm_datafusion.engine.cost import ScanCost, column_sizes, scan_cost
from lm_datafusion.engine.fallible import can_fail
from lm_datafusion.engine.offer import Declined, Offer, TableAccess
from lm_datafusion.engine.paths.one_table import offer_for_one_table, open_dataset
from lm_datafusion.engine.shape import (
    are_filters_exact,
    can_fail_below,
    column_below,
    limit_of,
)
from lm_datafusion.errors import GaveUpError
from lm_datafusion.predicate.literals import literal_sql, quote_identifier
from lm_datafusion.selection.values import without_views
from lm_datafusion.sql import parse_condition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lm_datafusion.dataset import LateDataset
    from lm_datafusion.engine.parquet_table import TableName
    from lm_datafusion.engine.query import Query, TableUse

NAME = "some_groups"
# With more groups than these, the list of keys costs more than it saves.
MOST_GROUPS = 1_000
# Rows to find groups among: enough for some groups, few enough not to matter.
SAMPLE_ROWS = 65_536
# The share of those rows, and of all rows, that may be in the groups found.
MOST_SHARE = 0.1
# Finding the group of a row (1.1 s for 10 million rows of ClickBench's Q17).
GROUP_NS = 100.0
# With fewer rows left by the filters, grouping all of them is cheap.
FEWEST_KEPT = 0.05


def offer(query: Query) -> Offer | Declined:
    """Our scan, for the rows of some groups."""
    mismatch = "the query is not some groups of one table, in any order"
    return offer_for_one_table(NAME, query, _groups, _offer, mismatch)


def _offer(query: Query, use: TableUse, wanted: tuple[tuple[str, ...], int]) -> Offer | Declined:
    cost = scan_cost(use, may_sample=False)
    if cost.kept_share < FEWEST_KEPT:
        return Declined(NAME, "the filters leave few rows to group")
    late = open_dataset(use)
    keys, row_count = wanted
    reason = f"any {row_count} groups will do, so rows of others need not be grouped"
    return Offer(
        name=NAME,
        seconds=_seconds(use, keys, cost),
        native_s=cost.native_s + cost.rows * cost.kept_share * GROUP_NS * 1e-9,
        reason=reason,
        tables=(TableAccess(use=use, path="late", reason=reason, late=late),),
        prepare=lambda: _rows_of_groups(use.name, late, keys, row_count),
        is_guess=cost.is_guess,
        most_rows=int(MOST_SHARE * cost.rows) if query.can_repeat else None,
    )


def _seconds(use: TableUse, keys: Sequence[str], cost: ScanCost) -> float:
    """Testing the keys of all rows; what comes after is of few."""
    sizes = column_sizes(use, keys)
    return cost.rows * sum(size.decompress_ns + size.decode_ns for size in sizes.values()) * 1e-9


def _rows_of_groups(
    name: TableName, late: LateDataset, keys: Sequence[str], row_count: int
) -> dict[TableName, LateDataset]:
    """The dataset, narrowed to the rows of some groups.

    Raises:
        GaveUpError: There are too few groups, or they are too large, for this to pay.
    """
    late = late.pinned()
    sample = find_rows(late, keys)
    columns = [without_views(column) for column in sample.columns]
    counts = pa.table(columns, names=list(keys)).group_by(list(keys)).aggregate([([], "count_all")])
    if counts.num_rows < row_count:
        raise GaveUpError("the first rows of the table have too few groups")
    found = counts.slice(0, row_count)
    if pc.sum(found.column("count_all")).as_py() > MOST_SHARE * sample.num_rows:
        raise GaveUpError("the groups found are a large part of the table")
    # One key is enough: its rows hold all rows of their groups.
    key = max(keys, key=lambda name: pc.count_distinct(found.column(name), mode="all").as_py())
    condition = _is_one_of(key, found.column(key))
    return {name: late.with_conjuncts(parse_condition(condition, late.schema))}


def find_rows(late: LateDataset, keys: Sequence[str]) -> pa.Table:
    """The keys of the first rows."""
    return late.head(SAMPLE_ROWS, columns=list(keys))


def _is_one_of(column: str, values: pa.ChunkedArray) -> str:
    """A condition, in SQL, that a column has one of these values."""
    name = quote_identifier(column)
    texts = dict.fromkeys(literal_sql(value) for value in values if value.is_valid)
    tests = [f"{name} IN ({', '.join(texts)})"] if texts else []
    tests += [f"{name} IS NULL"] if values.null_count else []
    return " OR ".join(tests)


def _groups(query: Query, use: TableUse) -> tuple[tuple[str, ...], int] | None:
    """The keys and the number of groups that a query asks for, if it asks for nothing else."""
    kinds, nodes = query.shape.kinds, query.shape.nodes
    if kinds.count("Aggregate") != 1 or kinds[-1] != "TableScan":
        return None
    index = kinds.index("Aggregate")
    above, below = kinds[:index], kinds[index + 1 : -1]
    is_plain = set(above) <= {"Limit", "Projection"} and above.count("Limit") == 1
    if not is_plain or set(below) - {"SubqueryAlias", "Projection", "Filter"}:
        return None
    row_count = limit_of(nodes[kinds.index("Limit")])
    keys = [column_below(key, nodes[index + 1 :]) for key in nodes[index].group_by_exprs()]
    columns = tuple(key for key in keys if key is not None)
    schema = use.table.schema
    is_listable = bool(keys) and len(columns) == len(keys)
    is_listable = is_listable and all(_can_be_listed(schema.field(c).type) for c in columns)
    if not is_listable or not 0 < row_count <= MOST_GROUPS:
        return None
    if not are_filters_exact(nodes, use.table.printed_names, schema):
        return None
    if can_fail_below(nodes[index + 1 :], schema) or _can_fail(nodes[index], schema):
        return None
    return columns, row_count


def _can_be_listed(data_type: pa.DataType) -> bool:
    """Types whose distinct values can be listed: not floats, because of NaN and the two zeros."""
    types = pa.types
    return (
        types.is_integer(data_type)
        or types.is_temporal(data_type)
        or types.is_decimal(data_type)
        or types.is_string(data_type)
        or types.is_string_view(data_type)
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
