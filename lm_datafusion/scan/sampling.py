"""Samples a scan to estimate its filter steps.

In: a read plan. Out: how many rows each of its filter steps keeps: measured by earlier scans of
these files, or else on the first pages of the first, the middle and the last row group.

The steps run as in a scan, each on the rows that the earlier ones kept. Measurements are kept for
later scans and samples (`scan.memory.step_history`).

Invariant: advice only; what cannot be evaluated is unknown.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pyarrow as pa

from lm_datafusion.metrics import ScanMetrics
from lm_datafusion.scan.memory.step_history import FEWEST_ROWS, STEPS, file_versions, step_keys
from lm_datafusion.scan.reading.windows import WindowWalk, page_edges
from lm_datafusion.scan.run import ScanRun

if TYPE_CHECKING:
    from lm_datafusion.plan import ReadPlan
    from lm_datafusion.scan.memory.step_history import Measured
    from lm_datafusion.scan.reading.row_group import RowGroupReader

# Per row group: enough to tell 1 % from 10 %, few enough to decode in a millisecond.
_ROWS = 8_192


def known_steps(plan: ReadPlan) -> dict[int, Measured]:
    """What earlier scans or samples have measured, by step."""
    return STEPS.recall(file_versions(plan), step_keys(plan))


def sample_steps(plan: ReadPlan) -> dict[int, Measured]:
    """What a few pages tell about the steps; reads them."""
    indexes = {0, len(plan.tasks) // 2, len(plan.tasks) - 1} if plan.tasks else set()
    tasks = tuple(plan.tasks[index] for index in sorted(indexes))
    options = plan.options.with_changes(condition_cache_bytes=0)
    part = dataclasses.replace(
        plan, tasks=tasks, schema=pa.schema([]), options=options, first=None, limit=None
    )
    # Measurements of too few rows are not kept.
    row_count = max(_ROWS, FEWEST_ROWS // max(1, len(tasks)))
    try:
        run = ScanRun(part, ScanMetrics())
        try:
            for index in range(len(tasks)):
                _look(run.open_reader(index), row_count)
        finally:
            run.close()
    except Exception:  # noqa: BLE001 advice must not stop a query
        return {}
    return {index: found for index, found in run.measured().items() if found.rows_in}


def _look(reader: RowGroupReader, row_count: int) -> None:
    access = reader.open()
    if access.is_skipped:
        return
    edges = page_edges(access.row_count, reader.chunks(reader.filter_columns()), reader.index_file)
    walk = WindowWalk(access.selection, edges)
    window = walk.next_window(row_count)
    if window is not None:
        reader.filter(window)
