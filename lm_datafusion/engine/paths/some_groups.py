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

from lm_datafusion.engine.cost import column_sizes, row_ns, scan_cost
from lm_datafusion.engine.offer import Declined, Offer, TableAccess
from lm_datafusion.engine.shape import column_below, limit_of
from lm_datafusion.errors import GaveUpError
from lm_datafusion.predicate.fallible import can_fail
from lm_datafusion.predicate.literals import literal_sql, quote_identifier
from lm_datafusion.selection.values import without_views
from lm_datafusion.sql import parse_condition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lm_datafusion.dataset import LateDataset
    from lm_datafusion.engine.query import OneTable, Query

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
    found = query.over_one_table("Aggregate", {"Limit", "Projection"})
    wanted = None if found is None else _groups(query, found)
    if found is None or wanted is None:
        return Declined(NAME, "the query is not some groups of one table, in any order")
    use, (keys, row_count) = found.use, wanted
    cost = scan_cost(use, may_sample=False)
    if cost.kept_share < FEWEST_KEPT:
        return Declined(NAME, "the filters leave few rows to group")
    # Testing the keys of all rows; what comes after is of few.
    sizes = column_sizes(use, keys)
    late = use.open_dataset()
    reason = f"any {row_count} groups will do, so rows of others need not be grouped"
    return Offer(
        name=NAME,
        seconds=cost.rows * row_ns(sizes.values()) * 1e-9,
        native_s=cost.native_s + cost.rows * cost.kept_share * GROUP_NS * 1e-9,
        reason=reason,
        tables=(TableAccess(use, reason, late),),
        prepare=lambda: {use.name: _rows_of_groups(late, keys, row_count)},
        is_guess=cost.is_guess,
        most_rows=int(MOST_SHARE * cost.rows) if query.can_repeat else None,
    )


def _rows_of_groups(late: LateDataset, keys: Sequence[str], row_count: int) -> LateDataset:
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
    return late.with_conjuncts(parse_condition(condition, late.schema))


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


def _groups(query: Query, found: OneTable) -> tuple[tuple[str, ...], int] | None:
    """The keys and the number of groups that a query asks for, if it asks for nothing else."""
    limits = [node for node in query.shape.nodes if type(node).__name__ == "Limit"]
    row_count = limit_of(limits[0]) if len(limits) == 1 else 0
    keys = [column_below(key, found.below) for key in found.node.group_by_exprs()]
    columns = tuple(key for key in keys if key is not None)
    schema = found.use.table.schema
    is_listable = len(columns) == len(keys) > 0
    is_listable = is_listable and all(_can_be_listed(schema.field(c).type) for c in columns)
    if not is_listable or not 0 < row_count <= MOST_GROUPS or _can_fail(found.node, schema):
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
