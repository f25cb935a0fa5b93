"""Runs a `ReadPlan`: prune, fetch, decode, evaluate, narrow, project.

In: a read plan. Out: record batches, and counters in `ScanMetrics`.

Per row group: bloom filters, dictionaries and the page index first; then, window by window and
step by step, only the pages that the remaining rows touch; then the projected columns of the
survivors. Windows come in file order (`walk`), in reverse, or best sort key first (`first_rows`).

Invariant: the batches hold exactly the rows that meet every conjunct, in the order of the plan.
"""

from __future__ import annotations

from lm_datafusion.scan.memory.condition_cache import clear_condition_cache, condition_cache_bytes
from lm_datafusion.scan.planning.order import find_order
from lm_datafusion.scan.planning.planner import (
    bind_request,
    is_known,
    load_all_facts,
    load_facts,
    plan_scan,
)
from lm_datafusion.scan.planning.split import can_split, split_tasks, worth_workers
from lm_datafusion.scan.pruning.known_rows import CachedShare, cached_share
from lm_datafusion.scan.pruning.prune import expected_rows
from lm_datafusion.scan.run import ScanRun
from lm_datafusion.scan.sampling import known_steps, sample_steps

__all__ = [
    "CachedShare",
    "ScanRun",
    "bind_request",
    "cached_share",
    "can_split",
    "clear_condition_cache",
    "condition_cache_bytes",
    "expected_rows",
    "find_order",
    "is_known",
    "known_steps",
    "load_all_facts",
    "load_facts",
    "plan_scan",
    "sample_steps",
    "split_tasks",
    "worth_workers",
]
