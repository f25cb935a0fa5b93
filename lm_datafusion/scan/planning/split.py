"""How many workers share a scan; row groups are cut into parts where there are fewer of them.

In: the tasks of a plan. Out: at least as many tasks as workers, where row groups are large enough.

A part is a range of rows. Kernels decode exactly those, so that a cut costs one page more per
column at most. Each part prunes its row group for itself, from what is cached of it.

Invariant: the parts of a row group hold each of its rows once, in order.
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

# Two workers that share Python's lock take turns; with less work each, one is as fast. (Queries of
# 80,000 to 122,000 rows in 3 row groups: 16 ms of processor time with one, 18 with two.)
ROWS_PER_WORKER: Final = 1 << 17
# More row groups than these are enough work for all.
FEW_TASKS: Final = 8
# A part has at least so many rows: two parts of fewer take longer than one thread on both.
FEWEST_ROWS: Final = 1 << 16


def worth_workers(plan: ReadPlan, workers: int) -> int:
    """How many workers are worth it: one for each `ROWS_PER_WORKER` rows that pruning leaves."""
    rows = expected_rows(plan) if len(plan.tasks) <= FEW_TASKS else None
    return workers if rows is None else max(1, min(workers, -(-rows // ROWS_PER_WORKER)))


def can_split(schema: pa.Schema) -> bool:
    """Whether rows of every column can be read without those before them.

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
