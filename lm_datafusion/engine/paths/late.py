"""Our own scan: the columns of filters first, the others for the rows that pass.

In: a query. Out: an offer in which every table that our scan reads at a lower cost is a dataset;
the others stay with DataFusion.

What our scan knows of a file beyond its footer (page indexes, where pages begin) it reads once, and
that takes as long as a short query. So a short query is DataFusion's the first time it runs. The
second time a few pages are read to learn how many rows pass.

Under a join or a top-k DataFusion narrows its own scans while they run (dynamic filters), and none
of that reaches ours. There the filters of the table itself have to be selective enough.

Invariant: a dataset is filtered by what DataFusion pushed down to every scan of the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lm_datafusion.engine.cost import SAMPLE_S, ScanCost, scan_cost
from lm_datafusion.engine.offer import Declined, Offer, TableAccess, native_access
from lm_datafusion.engine.paths.one_table import open_dataset, why_not
from lm_datafusion.errors import LateError

if TYPE_CHECKING:
    from lm_datafusion.engine.query import Query, TableUse

NAME = "late"
# The share of DataFusion's cost that our scan may have where dynamic filters could narrow its scan.
DYNAMIC_FILTERS = 0.5
NO_FILTER = "no filter to apply early"
NO_NATIVE_READER = "DataFusion has no reader of the format"
FIRST_RUN = "a short query that runs for the first time: nothing is known of its filters"


def offer(query: Query) -> Offer | Declined:
    """Our scan, for the tables where it pays."""
    found = [_access(query, use) for use in query.uses]
    if all(access.late is None for access, _ in found):
        reasons = "; ".join(dict.fromkeys(access.reason for access, _ in found))
        is_guess = any(cost is not None and cost.is_guess for _, cost in found)
        return Declined(NAME, reasons, is_guess=is_guess)
    considered = [cost for _, cost in found if cost is not None]
    costs = [cost for access, cost in found if access.late is not None and cost is not None]
    return Offer(
        name=NAME,
        seconds=sum(cost.late_s for cost in costs),
        native_s=sum(cost.native_s for cost in costs),
        reason="; ".join(access.reason for access, _ in found if access.late is not None),
        tables=tuple(access for access, _ in found),
        # A table that is DataFusion's only for a first run may be ours the next time.
        is_guess=any(cost.is_guess for cost in (costs if not query.is_new else considered)),
    )


def _access(query: Query, use: TableUse) -> tuple[TableAccess, ScanCost | None]:
    has_choice = use.table.has_native_reader
    reason = why_not(use) or ("" if use.filters or not has_choice else NO_FILTER)
    if reason:
        return native_access(use, reason), None
    try:
        if not use.conjuncts and has_choice:
            return native_access(use, "no filter that our scan can apply"), None
        is_auto = use.options.path == "auto" and has_choice
        cost = scan_cost(use, may_sample=is_auto, is_new=query.is_new)
        if is_auto and query.is_new and cost.is_guess and cost.native_s < SAMPLE_S:
            return native_access(use, FIRST_RUN), cost
        if is_auto and not _pays(query, cost):
            return native_access(use, _words(cost)), cost
        reason = f"path={use.options.path}" if use.options.path != "auto" else _words(cost)
        reason = reason if has_choice else NO_NATIVE_READER
        late = open_dataset(use)
    except LateError as error:
        return native_access(use, str(error)), None
    return TableAccess(use=use, path="late", reason=reason, late=late), cost


def _pays(query: Query, cost: ScanCost) -> bool:
    if not query.shape.has_dynamic_filters:
        return cost.late_pays
    return cost.late_s <= DYNAMIC_FILTERS * cost.native_s


def _words(cost: ScanCost) -> str:
    share = f"{cost.kept_share:.1%} of {cost.rows:,} rows pass"
    how = "at a guess" if cost.is_guess else "as measured"
    times = f"{cost.late_s * 1e3:,.1f} ms here, {cost.native_s * 1e3:,.1f} ms in DataFusion"
    return f"{share}, {how}: {times}"
