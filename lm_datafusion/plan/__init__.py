"""What will be read: plans are frozen, picklable and touch no storage.

In: what a query wants (`ScanRequest`) and what pruning found. Out: `AccessPlan` (which rows may
match), `RowFilter` (in which order conjuncts are evaluated), `ReadPlan` (everything a scan needs).

Invariant: a plan is a value; a stage returns a refined copy.
"""

from __future__ import annotations

from lm_datafusion.plan.access_plan import RowGroupAccess
from lm_datafusion.plan.ordering import BestKey, ClaimedOrder, FirstRows, KnownOrder
from lm_datafusion.plan.read_plan import FilePlan, PlanPart, ReadPlan, RowGroupTask
from lm_datafusion.plan.request import ScanRequest
from lm_datafusion.plan.row_filter import FilterStep, RowFilter, plan_row_filter
from lm_datafusion.plan.table import Table, TableFile

__all__ = [
    "BestKey",
    "ClaimedOrder",
    "FilePlan",
    "FilterStep",
    "FirstRows",
    "KnownOrder",
    "PlanPart",
    "ReadPlan",
    "RowFilter",
    "RowGroupAccess",
    "RowGroupTask",
    "ScanRequest",
    "Table",
    "TableFile",
    "plan_row_filter",
]
