"""`ORDER BY k LIMIT n`: our scan reads the pages that can hold the first rows, best first.

In: a query. Out: an offer, if it asks for the first rows of one table by a column.

The scan reads `k` and the columns of filters, page by page in the order of the best key that a page
can hold, until no page left can hold a better row; the other columns are read for the rows found.
Where bounds do not help, that is every page of those columns and no more. If too many rows tie, the
scan gives up before it has returned a row, and DataFusion's own reader runs instead.

The newest 10 of 10 million rows take a fifteenth of DataFusion's time, and less
(`tests/benchmark/bench_reverse.py`).

Invariant: the scan gives every row that the query can give, ties included: DataFusion sorts them
and takes the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lm_datafusion.engine.cost import SELECT_NS, TEST_NS, column_sizes, fixed_s, row_ns, scan_cost
from lm_datafusion.engine.offer import Declined, Offer, TableAccess
from lm_datafusion.engine.shape import column_below
from lm_datafusion.plan import FirstRows
from lm_datafusion.scan.keys.sort_values import has_sort_values
from lm_datafusion.scan.planning.visit_estimate import estimate_visits

if TYPE_CHECKING:
    from lm_datafusion.engine.query import Query, TableUse

NAME = "top_k"
# Rows that tie with the last of the first rows are all read: more than these are too many.
MOST_TIES = 1 << 17


def offer(query: Query) -> Offer | Declined:
    """Our scan, best pages first."""
    found = query.over_one_table("Sort", {"Limit", "Projection"})
    if found is not None:
        row_count = found.node.get_fetch_val()
        sort = found.node.sort_exprs()[0]
        key = column_below(sort.expr(), found.below)
        if key and row_count and has_sort_values(found.use.table.schema.field(key).type):
            first = FirstRows(
                column=key,
                descending=not sort.ascending(),
                nulls_first=sort.nulls_first(),
                row_count=row_count,
                most_rows_found=row_count + MOST_TIES if query.can_repeat else None,
            )
            return _offer(found.use, first)
    return Declined(NAME, "the query is not the first rows of one table by a column")


def _offer(use: TableUse, first: FirstRows) -> Offer:
    from lm_datafusion.dataset.extent import Extent

    cost = scan_cost(use, may_sample=False)
    visits = estimate_visits(use.table.as_table(), use.conjuncts, first, use.options)
    narrow = {first.column, *use.filter_columns}
    sizes = column_sizes(use, {*use.columns, *narrow})
    seen, groups, native_rows = cost.rows, 0, cost.rows
    reason = f"only {first.column} and the filters are read of all {cost.rows:,} rows"
    if visits is not None:
        seen, groups = visits.rows_by_pages, visits.row_groups
        native_rows = visits.rows_by_row_groups
        reason = (
            f"bounds of {first.column} lead to the first rows: about {seen:,} of {cost.rows:,} rows"
            " are in pages to read"
        )
    tested_ns = sum(TEST_NS + sizes[name].decompress_ns for name in narrow)
    kept_share = cost.kept_share if use.conjuncts else 1.0
    narrow_ns = seen * (tested_ns + kept_share * sizes[first.column].decode_ns)
    fetch_ns = first.row_count * (
        SELECT_NS + row_ns(sizes[name] for name in {*use.columns} - narrow)
    )
    return Offer(
        name=NAME,
        seconds=fixed_s(groups) + (narrow_ns + fetch_ns) * 1e-9,
        native_s=cost.native_s * native_rows / max(cost.rows, 1),
        reason=reason,
        tables=(TableAccess(use, reason, use.open_dataset().with_extent(Extent(first=first))),),
        is_guess=cost.is_guess,
        most_rows=first.most_rows_found,
    )
