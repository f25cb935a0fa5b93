"""Everything a scan needs, frozen and picklable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lm_datafusion.forks import cached_property

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
    """One file: how its columns map to the table's, and the columns it does not store.

    Attributes:
        index: Its index among the files of the table.
        version: The file the plan was made for.
        columns: Table column to top-level column index in the file.
        constants: Table columns with one value for the whole file: partitions, and null for
            columns the file does not have.
    """

    index: int
    version: FileVersion
    columns: Mapping[str, int]
    constants: Mapping[str, pa.Scalar]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroupTask:
    """One row group to scan.

    Attributes:
        file: The file it is in.
        access: Its remaining rows.
        best: The best sort key it can hold, if the first rows of an order are wanted.
        rows: The range of its rows that the task covers; None for all.
        is_part: Whether another task covers the same row group and counts its pages.
    """

    file: FilePlan
    access: RowGroupAccess
    best: BestKey | None = None
    rows: tuple[int, int] | None = None
    is_part: bool = False

    @property
    def row_count(self) -> int:
        """Rows that the task covers, matching or not."""
        return self.access.row_count if self.rows is None else self.rows[1] - self.rows[0]

    def with_file(self, file: FilePlan) -> RowGroupTask:
        """The same row group, with other columns of its file."""
        # A statement has hundreds of tasks, too many for `dataclasses.replace`.
        return RowGroupTask(
            file=file, access=self.access, best=self.best, rows=self.rows, is_part=self.is_part
        )

    @property
    def rows_left(self) -> int:
        """Rows that the task covers and that are not ruled out."""
        access = self.access if self.rows is None else self.access.with_range(*self.rows)
        return access.selection.row_count


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPart:
    """Some tasks of a plan, for a scan with the same request or another one.

    Attributes:
        tasks: Row groups in table order, as the plan has pruned them.
        row_filter: The conjuncts that they were pruned by.
    """

    tasks: tuple[RowGroupTask, ...]
    row_filter: RowFilter

    @property
    def versions(self) -> dict[int, FileVersion]:
        """The version of each file, by its index in the table: a path may occur twice."""
        return {task.file.index: task.file.version for task in self.tasks}

    @property
    def row_groups(self) -> dict[int, frozenset[int]]:
        """The row groups of each file, by its index in the table."""
        found: dict[int, set[int]] = {}
        for task in self.tasks:
            found.setdefault(task.file.index, set()).add(task.access.row_group)
        return {index: frozenset(row_groups) for index, row_groups in found.items()}

    def is_pruned_by(self, conjuncts: Sequence[BoundConjunct]) -> bool:
        """Whether the tasks were pruned by exactly these conjuncts, in this order."""
        steps = sorted(self.row_filter.steps, key=lambda step: step.index)
        return len(steps) == len(conjuncts) and all(
            step.conjunct.conjunct.is_same(other.conjunct)
            for step, other in zip(steps, conjuncts, strict=True)
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
        limit: The number of rows after which the scan stops.
        first: Only matching rows that can be among the first of this order are returned.
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

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns of the result."""
        return tuple(self.schema.names)
