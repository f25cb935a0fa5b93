"""What a scan would do, found out on a part of it.

In: a read plan. Out: how many rows each of its filter steps keeps: measured by earlier scans of
these files, else on the first pages of row groups at its beginning, in its middle and at its end.
And how long all of it would take, by the time of two of its row groups.

The steps run as in a scan, each on what the ones before it left. What is found out is kept for
later scans and samples (`scan.memory.step_history`).

Invariant: advice only; what cannot be evaluated is not known.
"""

from __future__ import annotations

import dataclasses
import math
import time
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

# Of each row group: enough to tell 1 % from 10 %, few enough to be decoded in a millisecond.
_ROWS = 8_192


def known_steps(plan: ReadPlan) -> dict[int, Measured]:
    """What earlier scans or samples have measured, by step."""
    return STEPS.recall(file_versions(plan), step_keys(plan))


def sample_steps(plan: ReadPlan) -> dict[int, Measured]:
    """What a few pages tell of the steps; reads them."""
    places = {0, len(plan.tasks) // 2, len(plan.tasks) - 1} if plan.tasks else set()
    tasks = tuple(plan.tasks[place] for place in sorted(places))
    options = plan.options.with_changes(condition_cache_bytes=0)
    part = dataclasses.replace(
        plan, tasks=tasks, schema=pa.schema([]), options=options, first=None, limit=None
    )
    # What is kept has to have seen some rows.
    row_count = max(_ROWS, FEWEST_ROWS // max(1, len(tasks)))
    try:
        run = ScanRun(part, ScanMetrics())
        try:
            for place in range(len(tasks)):
                _look(run.open_reader(place), row_count)
        finally:
            run.close()
    except Exception:  # noqa: BLE001 advice must not stop a query
        return {}
    return {index: found for index, found in run.measured().items() if found.rows_in}


def sample_seconds(plan: ReadPlan) -> float:
    """How long a plan would take one core: two row groups are read; infinity if that fails."""
    if not plan.tasks:
        return 0.0
    places = {len(plan.tasks) // 3, 2 * len(plan.tasks) // 3}
    rows = sum(task.access.selection.row_count for task in plan.tasks)
    try:
        # The faster one: the other may have waited for what is loaded or made room for once.
        return rows * min(_seconds_per_row(plan, place) for place in sorted(places))
    except Exception:  # noqa: BLE001 advice must not stop a query
        return math.inf


def _seconds_per_row(plan: ReadPlan, place: int) -> float:
    task = plan.tasks[place]
    options = plan.options.with_changes(condition_cache_bytes=0, threads=1)
    part = dataclasses.replace(plan, tasks=(task,), options=options, first=None, limit=None)
    started = time.perf_counter()
    for _ in ScanRun(part, ScanMetrics()).batches():
        pass
    return (time.perf_counter() - started) / max(1, task.access.selection.row_count)


def _look(reader: RowGroupReader, row_count: int) -> None:
    access = reader.open()
    if access.is_skipped:
        return
    edges = page_edges(access.row_count, reader.chunks(reader.filter_columns()), reader.index_file)
    walk = WindowWalk(access.selection, edges)
    window = walk.next_window(row_count)
    if window is not None:
        reader.filter(window)
