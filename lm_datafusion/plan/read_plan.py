"""Everything a scan needs, frozen and picklable."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from lm_datafusion.options import ScanOptions
    from lm_datafusion.plan.access_plan import RowGroupAccess
    from lm_datafusion.plan.ordering import BestKey, FirstRows
    from lm_datafusion.plan.row_filter import RowFilter
    from lm_datafusion.predicate.conjunct import BoundConjunct
    from lm_datafusion.storage import FileVersion, Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlan:
    """One file: which of its columns are which of the table's, and what it does not store.

    Attributes:
        place: Its place among the files of the table.
        version: The file the plan was made for.
        columns: Table column to top-level column of the file.
        constants: Table columns with one value for the whole file: partitions, and null for
            columns the file does not have.
    """

    place: int
    version: FileVersion
    columns: Mapping[str, int]
    constants: Mapping[str, pa.Scalar]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroupTask:
    """One row group to scan.

    Attributes:
        file: The file it is in.
        access: The rows left of it.
        best: The best sort key it can hold, where first rows of an order are wanted.
        rows: The range of its rows that the task is for; None for all.
        is_part: Whether another task has rows of the same row group, and counts its pages.
    """

    file: FilePlan
    access: RowGroupAccess
    best: BestKey | None = None
    rows: tuple[int, int] | None = None
    is_part: bool = False

    @property
    def row_count(self) -> int:
        """Rows that the task is for, matching or not."""
        return self.access.row_count if self.rows is None else self.rows[1] - self.rows[0]

    @property
    def rows_left(self) -> int:
        """Rows that the task is for and that are not ruled out."""
        access = self.access if self.rows is None else self.access.with_range(*self.rows)
        return access.selection.row_count


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPart:
    """Some tasks of a plan, for a scan that asks the same of them, or something else.

    Attributes:
        tasks: Row groups in the order of the table, each as far as the plan has pruned it.
        row_filter: The conjuncts that they were pruned by.
    """

    tasks: tuple[RowGroupTask, ...]
    row_filter: RowFilter

    @property
    def versions(self) -> dict[int, FileVersion]:
        """The version of each file, by its place in the table: a path may be there twice."""
        return {task.file.place: task.file.version for task in self.tasks}

    @property
    def row_groups(self) -> dict[int, frozenset[int]]:
        """The row groups of each file, by its place in the table."""
        found: dict[int, set[int]] = {}
        for task in self.tasks:
            found.setdefault(task.file.place, set()).add(task.access.row_group)
        return {place: frozenset(row_groups) for place, row_groups in found.items()}

    def is_pruned_by(self, conjuncts: Sequence[BoundConjunct]) -> bool:
        """Whether the tasks were pruned by just these conjuncts, in this order."""
        own = sorted(self.row_filter.steps, key=lambda step: step.index)
        return len(own) == len(conjuncts) and all(
            step.conjunct.conjunct.is_same(other.conjunct)
            for step, other in zip(own, conjuncts, strict=True)
        )


@dataclass(frozen=True, kw_only=True)
class ReadPlan:
    """The row groups left after pruning by statistics, and what to do in each.

    Attributes:
        storage: Where the files are.
        schema: The result: columns and types, in order.
        filter_schema: Columns and types that conjuncts are bound to.
        row_filter: The filter chain.
        tasks: Row groups, in the order of the result.
        options: How to scan.
        is_reverse: Whether rows come from the last to the first.
        limit: After how many rows the scan stops.
        first: Of the rows that match, those that can be among the first of an order.
    """

    storage: Storage
    schema: pa.Schema
    filter_schema: pa.Schema
    row_filter: RowFilter
    tasks: tuple[RowGroupTask, ...]
    options: ScanOptions
    is_reverse: bool = False
    limit: int | None = None
    first: FirstRows | None = None

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """The columns of the result."""
        return tuple(self.schema.names)
