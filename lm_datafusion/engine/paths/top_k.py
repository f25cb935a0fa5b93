"""`ORDER BY k LIMIT n`: our scan reads the pages that can hold the first rows, best first.

In: a query. Out: an offer, if it asks for the first rows of one table by a column.

The scan reads `k` and the columns of filters, page by page in the order of the best key that a page
can hold, until no page left can hold a better row; the other columns are read for the rows found.
Where bounds do not help, that is every page of those columns and no more. If too many rows tie, the
scan gives up before it has returned a row, and DataFusion's own reader runs instead.

Invariant: the scan gives every row that the query can give, ties included: DataFusion sorts them
and takes the first.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from lm_datafusion.engine.cost import (
    SELECT_NS,
    TEST_NS,
    column_sizes,
    fixed_s,
    row_ns,
    scan_cost,
)
from lm_datafusion.engine.offer import Declined, Offer, TableAccess
from lm_datafusion.engine.paths.one_table import offer_for_one_table, open_dataset
from lm_datafusion.engine.shape import are_filters_exact, can_fail_below, column_below
from lm_datafusion.plan import FirstRows
from lm_datafusion.scan.keys.sort_values import has_sort_values
from lm_datafusion.scan.planning.visit_estimate import estimate_visits

if TYPE_CHECKING:
    from lm_datafusion.engine.query import Query, TableUse
    from lm_datafusion.scan.planning.visit_estimate import VisitEstimate

NAME = "top_k"
# Rows that tie with the last of the first rows are all read: more than these are too many.
MOST_TIES = 1 << 17


def offer(query: Query) -> Offer | Declined:
    """Our scan, best pages first."""
    mismatch = "the query is not the first rows of one table by a column"
    return offer_for_one_table(NAME, query, _first_rows, _offer, mismatch)


def _offer(query: Query, use: TableUse, first: FirstRows) -> Offer:
    from lm_datafusion.dataset.extent import Extent

    cost = scan_cost(use, may_sample=False)
    visits = estimate_visits(use.table.as_table(), use.conjuncts, first, use.options)
    narrow = {first.column, *(name for c in use.conjuncts for name in c.columns)}
    sizes = column_sizes(use, {*use.columns, *narrow})
    seen, groups = (cost.rows, 0) if visits is None else (visits.rows_by_pages, visits.row_groups)
    tested_ns = sum(TEST_NS + sizes[name].decompress_ns for name in narrow)
    kept_share = cost.kept_share if use.conjuncts else 1.0
    narrow_ns = seen * (tested_ns + kept_share * sizes[first.column].decode_ns)
    fetch_ns = first.row_count * (SELECT_NS + row_ns(sizes, set(use.columns) - narrow))
    native_rows = cost.rows if visits is None else visits.rows_by_row_groups
    most_rows = first.row_count + MOST_TIES if query.can_repeat else None
    bounded = dataclasses.replace(first, most_rows_found=most_rows)
    late = open_dataset(use).with_extent(Extent(first=bounded))
    reason = _words(first, seen, visits, cost.rows)
    return Offer(
        name=NAME,
        seconds=fixed_s(groups) + (narrow_ns + fetch_ns) * 1e-9,
        native_s=cost.native_s * native_rows / max(cost.rows, 1),
        reason=reason,
        tables=(TableAccess(use=use, path="late", reason=reason, late=late),),
        is_guess=cost.is_guess,
        most_rows=most_rows,
    )


def _words(first: FirstRows, seen: int, visits: VisitEstimate | None, rows: int) -> str:
    if visits is None:
        return f"only {first.column} and the filters are read of all {rows:,} rows"
    return (
        f"bounds of {first.column} lead to the first rows: about {seen:,} of {rows:,} rows are in"
        " pages to read"
    )


def _first_rows(query: Query, use: TableUse) -> FirstRows | None:
    """The first rows that a query asks for, if it asks for nothing else."""
    shape = query.shape
    kinds, nodes = shape.kinds, shape.nodes
    if "Sort" not in kinds or kinds[-1] != "TableScan":
        return None
    index = kinds.index("Sort")
    above, below = set(kinds[:index]), set(kinds[index + 1 : -1])
    if above - {"Limit", "Projection"} or below - {"SubqueryAlias", "Projection", "Filter"}:
        return None
    row_count = nodes[index].get_fetch_val()
    sort = nodes[index].sort_exprs()[0]
    key = column_below(sort.expr(), nodes[index + 1 :])
    if key is None or not row_count:
        return None
    schema = use.table.schema
    if not has_sort_values(schema.field(key).type):
        return None
    is_exact = are_filters_exact(nodes, use.table.printed_names, schema)
    if not is_exact or can_fail_below(nodes[index + 1 :], schema):
        return None
    return FirstRows(
        column=key,
        descending=not sort.ascending(),
        nulls_first=sort.nulls_first(),
        row_count=row_count,
    )
