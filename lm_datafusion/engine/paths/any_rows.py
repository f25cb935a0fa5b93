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
from lm_datafusion.engine.paths.one_table import offer_for_one_table, open_dataset
from lm_datafusion.engine.shape import are_filters_exact, can_fail_below, limit_of

if TYPE_CHECKING:
    from lm_datafusion.engine.query import Query, TableUse

NAME = "any_rows"


def offer(query: Query) -> Offer | Declined:
    """Our scan, up to the last row that is needed."""
    mismatch = "the query is not some rows of one table, in any order"
    return offer_for_one_table(NAME, query, _limit, _offer, mismatch)


def _offer(_: Query, use: TableUse, limit: int) -> Offer | Declined:
    if not use.filters and use.table.has_native_reader:
        return Declined(NAME, "without a filter DataFusion stops as early")
    from lm_datafusion.dataset.extent import Extent

    cost = scan_cost(use, may_sample=False)
    # Both readers stop after the same rows; until then ours decodes fewer values of each.
    share = min(1.0, limit / max(cost.rows * cost.kept_share, 1.0))
    tested = column_sizes(use, {name for c in use.conjuncts for name in c.columns})
    narrow_s = cost.rows * share * row_ns(tested, tested) * 1e-9
    reason = f"any {limit:,} rows that pass will do, and other columns are read for those only"
    late = open_dataset(use).with_extent(Extent(limit=limit, is_any_order=True))
    return Offer(
        name=NAME,
        seconds=fixed_s(0) + min(cost.late_s * share, narrow_s) if share < 1 else cost.late_s,
        native_s=cost.native_s * share,
        reason=reason,
        tables=(TableAccess(use=use, path="late", reason=reason, late=late),),
        is_guess=cost.is_guess,
    )


def _limit(query: Query, use: TableUse) -> int | None:
    """The rows that are needed, with those that OFFSET skips; None if the query is another."""
    shape = query.shape
    kinds = shape.kinds
    if kinds.count("Limit") != 1 or kinds[-1] != "TableScan":
        return None
    index = kinds.index("Limit")
    above, below = set(kinds[:index]), set(kinds[index + 1 : -1])
    if above - {"Projection", "SubqueryAlias"} or below - {"Projection", "SubqueryAlias", "Filter"}:
        return None
    schema = use.table.schema
    is_exact = are_filters_exact(shape.nodes, use.table.printed_names, schema)
    if not is_exact or can_fail_below(shape.nodes, schema):
        return None
    return limit_of(shape.nodes[index]) or None
