"""`LIMIT n` without an order: our scan stops once it has `n` rows.

In: a query. Out: an offer, if any rows of one table will do.

Our scan takes row groups that match as a whole first, and reads other columns only of rows that
pass. DataFusion's reader stops by itself as well, but decodes every column of what it has read.

`SELECT * ... WHERE "URL" LIKE '%google%' LIMIT 10` over ten million rows of ClickBench takes 122 ms
of processor time instead of 249. As an ordinary late scan, which reads ahead, it would take 294.

Invariant: rows that the scan leaves out are not needed, and would not have made the query fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lm_datafusion.engine.cost import column_sizes, fixed_s, row_ns, scan_cost
from lm_datafusion.engine.offer import Declined, Offer, TableAccess
from lm_datafusion.engine.shape import can_fail_below, limit_of

if TYPE_CHECKING:
    from lm_datafusion.engine.query import Query, TableUse

NAME = "any_rows"


def offer(query: Query) -> Offer | Declined:
    """Our scan, up to the last row that is needed."""
    found = query.over_one_table("Limit", {"Projection", "SubqueryAlias"})
    # With the rows that OFFSET skips.
    limit = 0 if found is None else limit_of(found.node)
    if found is None or not limit or can_fail_below(query.shape.nodes, found.use.table.schema):
        return Declined(NAME, "the query is not some rows of one table, in any order")
    if not found.use.filters and found.use.table.has_native_reader:
        return Declined(NAME, "without a filter DataFusion stops as early")
    return _offer(found.use, limit)


def _offer(use: TableUse, limit: int) -> Offer:
    from lm_datafusion.dataset.extent import Extent

    cost = scan_cost(use, may_sample=False)
    # Both readers stop after the same rows; until then ours decodes fewer values of each.
    share = min(1.0, limit / max(cost.rows * cost.kept_share, 1.0))
    tested = column_sizes(use, use.filter_columns)
    narrow_s = cost.rows * share * row_ns(tested.values()) * 1e-9
    reason = f"any {limit:,} rows that pass will do, and other columns are read for those only"
    late = use.open_dataset().with_extent(Extent(limit=limit, is_any_order=True))
    return Offer(
        name=NAME,
        seconds=fixed_s(0) + min(cost.late_s * share, narrow_s) if share < 1 else cost.late_s,
        native_s=cost.native_s * share,
        reason=reason,
        tables=(TableAccess(use, reason, late),),
        is_guess=cost.is_guess,
    )
