"""Rows by position: a plan that reads only the pages they lie in.

In: a plan without a filter, and sorted positions in the table. Out: the plan cut down to them.
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
    """Cuts a plan down to rows.

    Args:
        plan: All row groups of a table, no filter.
        positions: Rows of the table, ascending, none twice. Those outside are ignored.
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
        own = positions[first:stop] - start_row + (0 if task.rows is None else task.rows[0])
        rows = RowSelection.from_indices(own, task.access.row_count)
        access = dataclasses.replace(task.access, selection=rows)
        tasks.append(dataclasses.replace(task, access=access))
    return dataclasses.replace(plan, tasks=tuple(tasks))
