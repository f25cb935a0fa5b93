"""Distributes the row groups of a scan: splits them into parts, or groups them into units.

In: the tasks of a plan. Out: at least as many tasks as workers, if row groups are large enough;
units of small row groups, if there are more than enough.

A part is a range of rows. Kernels decode exactly those rows, so a split costs at most one more page
per column. Each part prunes its row group separately, from cached metadata; the condition cache
learns from parts once it has them all.

A unit is a run of row groups of one file that one worker scans. Those that pruning leaves whole are
read as one.

Invariant: parts and units hold each row of the tasks once, in order.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lm_datafusion.scan.pruning.prune import expected_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lm_datafusion.plan import ReadPlan, RowGroupTask

# Two workers compete for the GIL; with less work each, one is as fast. (Queries of 80,000 to
# 122,000 rows in 3 row groups: 16 ms of CPU time with one, 18 with two.)
ROWS_PER_WORKER: Final = 1 << 17
# More row groups than this are enough work for all workers.
FEW_TASKS: Final = 8
# The fewest rows of a part: two smaller parts take longer than one thread on both.
FEWEST_ROWS: Final = 1 << 16
# The most rows of a unit, unless one row group has more.
UNIT_ROWS: Final = 1 << 20
# Enough units for each worker that all finish at about the same time.
UNITS_PER_WORKER: Final = 4


def worth_workers(plan: ReadPlan, workers: int) -> int:
    """The useful number of workers: one per `ROWS_PER_WORKER` rows that pruning leaves."""
    rows = expected_rows(plan) if len(plan.tasks) <= FEW_TASKS else None
    return workers if rows is None else max(1, min(workers, -(-rows // ROWS_PER_WORKER)))


def can_split(schema: pa.Schema) -> bool:
    """Whether the rows of every column can be read without those before them.

    Pages of nested columns need not begin with a row.
    """
    return not any(pa.types.is_nested(data_type) for data_type in schema.types)


def split_tasks(tasks: Sequence[RowGroupTask], workers: int) -> tuple[RowGroupTask, ...]:
    """The tasks, or parts of them if that keeps more workers busy."""
    if not tasks or len(tasks) >= workers:
        return tuple(tasks)
    pieces = -(-workers // len(tasks))
    return tuple(part for task in tasks for part in _parts(task, pieces))


def _parts(task: RowGroupTask, pieces: int) -> Iterator[RowGroupTask]:
    row_count = task.access.row_count
    pieces = min(pieces, row_count // FEWEST_ROWS)
    if pieces <= 1 or task.rows is not None or not task.access.selection.selects_all():
        yield task
        return
    edges = [-(-row_count * piece // pieces) for piece in range(pieces + 1)]
    for rows in itertools.pairwise(edges):
        yield dataclasses.replace(task, rows=rows, is_part=rows[0] > 0)


def plan_units(tasks: Sequence[RowGroupTask], workers: int) -> list[range]:
    """The task indexes of each unit.

    Args:
        tasks: The tasks of a plan, in its order.
        workers: How many threads share the units.
    """
    counts = [task.row_count for task in tasks]
    share = sum(counts) // (UNITS_PER_WORKER * workers)
    most_rows = UNIT_ROWS if workers == 1 else min(UNIT_ROWS, share)
    units: list[range] = []
    start = unit_rows = 0
    for index, (task, row_count) in enumerate(zip(tasks, counts, strict=True)):
        unit_rows += row_count
        if index > start and (unit_rows > most_rows or task.file.index != tasks[start].file.index):
            units.append(range(start, index))
            start, unit_rows = index, row_count
    if tasks:
        units.append(range(start, len(tasks)))
    return units
