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

from lm_datafusion.engine.cost import PAYS, SHORT_S, ScanCost, scan_cost
from lm_datafusion.engine.offer import Declined, Offer, TableAccess
from lm_datafusion.errors import LateError

if TYPE_CHECKING:
    from lm_datafusion.engine.query import Query, TableUse

NAME = "late"
# The share of DataFusion's cost that our scan may have where dynamic filters could narrow its scan.
DYNAMIC_FILTERS = 0.5
NO_FILTER = "no filter to apply early"
NO_NATIVE_READER = "DataFusion has no reader of the format"
IN_A_STORE = "in an object store our scan reads ahead, in rounds, and fewer bytes"
FIRST_RUN = "a short query that runs for the first time: nothing is known of its filters"


def offer(query: Query) -> Offer | Declined:
    """Our scan, for the tables where it pays; if it pays for none, what it would cost."""
    found = [_access(query, use) for use in query.uses]
    tables = tuple(access for access, _ in found)
    costs = [cost for _, cost in found if cost is not None]
    late = [(access, cost) for access, cost in found if access.late is not None and cost]
    reasons = "; ".join(dict.fromkeys(a.reason for a in ([a for a, _ in late] or tables)))
    is_guess = any(cost.is_guess for cost in costs)
    if not late and (not costs or FIRST_RUN in reasons):
        return Declined(NAME, reasons, is_guess=is_guess)
    counted = [cost for _, cost in late] or costs
    return Offer(
        name=NAME,
        seconds=sum(cost.late_s for cost in counted),
        native_s=sum(cost.native_s for cost in counted),
        reason=reasons,
        tables=tables,
        # A table that is DataFusion's only for a first run may be ours the next time.
        is_guess=is_guess if query.is_new else any(cost.is_guess for cost in counted),
    )


def _access(query: Query, use: TableUse) -> tuple[TableAccess, ScanCost | None]:
    has_choice = use.table.has_native_reader
    reason = use.why_native or ("" if use.filters or not has_choice else NO_FILTER)
    if reason:
        return TableAccess(use, reason), None
    try:
        if not use.conjuncts and has_choice:
            return TableAccess(use, "no filter that our scan can apply"), None
        is_auto = use.options.path == "auto" and has_choice and not use.table.is_remote
        cost = scan_cost(use, may_sample=is_auto, is_new=query.is_new)
        if is_auto and query.is_new and cost.is_guess and cost.native_s < SHORT_S:
            return TableAccess(use, FIRST_RUN), cost
        most = DYNAMIC_FILTERS if query.shape.has_dynamic_filters else PAYS
        if is_auto and cost.late_s > most * cost.native_s:
            return TableAccess(use, _words(cost)), cost
        reason = _words(cost) if is_auto else f"path={use.options.path}"
        reason = IN_A_STORE if use.table.is_remote and use.options.path == "auto" else reason
        reason = reason if has_choice else NO_NATIVE_READER
        return TableAccess(use, reason, use.open_dataset()), cost
    except LateError as error:
        return TableAccess(use, str(error)), None


def _words(cost: ScanCost) -> str:
    share = f"{cost.kept_share:.1%} of {cost.rows:,} rows pass"
    how = "at a guess" if cost.is_guess else "as measured"
    times = f"{cost.late_s * 1e3:,.1f} ms here, {cost.native_s * 1e3:,.1f} ms in DataFusion"
    return f"{share}, {how}: {times}"
