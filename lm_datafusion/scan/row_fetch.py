"""Rows by position: a plan that reads only the pages that hold them.

In: a plan without a filter, and sorted positions in the table. Out: the plan restricted to them.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from lm_datafusion.selection import RowSelection

if TYPE_CHECKING:
    import numpy.typing as npt

    from lm_datafusion.plan import ReadPlan


def plan_row_fetch(plan: ReadPlan, positions: npt.NDArray[np.int64]) -> ReadPlan:
    """Restricts a plan to some rows.

    Args:
        plan: All row groups of a table, no filter.
        positions: Rows of the table, strictly ascending. Out-of-range positions are ignored.
    """
    counts = np.array([task.row_count for task in plan.tasks], dtype=np.int64)
    stops = np.cumsum(counts)
    edges = np.searchsorted(positions, np.concatenate([[0], stops]))
    tasks = []
    for task, first, stop, start_row in zip(
        plan.tasks, edges[:-1], edges[1:], stops - counts, strict=True
    ):
        if first == stop:
            continue
        in_task = positions[first:stop] - start_row + (0 if task.rows is None else task.rows[0])
        rows = RowSelection.from_indices(in_task, task.access.row_count)
        access = dataclasses.replace(task.access, selection=rows)
        tasks.append(dataclasses.replace(task, access=access))
    return dataclasses.replace(plan, tasks=tuple(tasks))
