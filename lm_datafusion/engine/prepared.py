"""Statements that run again: plans that are ready to run, over the row groups that can matter.

In: the frame that serves a statement. Out: a `PreparedStatement`, whose plans need no planning.

DataFusion plans a statement anew each time, cuts all files of a table into as many parts as there
are partitions, and rules row groups out when it opens them; what is left is often in one part, and
then one core works. A plan is serialised once, and

1. its scans get only the row groups that survive our pruning, each as a part of its own, so that
   partitions share them;
2. if filter pushdown could pay, there is a second plan with it. Which is faster is measured: both
   run, and the faster one goes on. The slower one gets another chance after 8, 16, 32, ... runs,
   unless it was far behind.

Only plans that come back from their serialised form as they were are used, of nodes that are known
to. Filters that DataFusion changes while it runs do not: such plans are not prepared.

Invariant: a prepared plan gives the rows that the frame gives, as long as its files stay the same.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from datafusion import ExecutionPlan

from lm_datafusion.engine.parquet_scan import (
    FileRange,
    group_count,
    is_parquet_scan,
    leaves_of,
    listed_files,
    over_ranges,
    without_statistics,
)
from lm_datafusion.engine.plan_scans import to_conjuncts
from lm_datafusion.engine.protobuf import replaced
from lm_datafusion.engine.tables import as_exact_table
from lm_datafusion.errors import LateError
from lm_datafusion.scan import load_facts
from lm_datafusion.scan.survivors import find_survivors
from lm_datafusion.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from datafusion import DataFrame, SessionContext

    from lm_datafusion.engine.routing import RoutedReference
    from lm_datafusion.scan.survivors import Survivor

_NODE = re.compile(r"^ *(\w+)", re.MULTILINE)
# Nodes that come back from their serialised form as they were.
_NODES = frozenset(
    {
        "AggregateExec",
        "CoalesceBatchesExec",
        "CoalescePartitionsExec",
        "CooperativeExec",
        "DataSourceExec",
        "FilterExec",
        "GlobalLimitExec",
        "LocalLimitExec",
        "PlaceholderRowExec",
        "ProjectionExec",
        "RepartitionExec",
        "SortExec",
        "SortPreservingMergeExec",
    }
)
# A scan of more parts spends its time opening them.
MOST_PARTS = 512
# The share of row groups up to which a scan gets parts of its own.
_NARROW = 0.5
# How many times slower a plan may have been to get another chance.
_FAR_BEHIND = 1.5
_FIRST_CHANCE = 8


@dataclass(slots=True, eq=False)
class PreparedPlan:
    """A plan that is ready to run.

    Attributes:
        serialised: The plan.
        references: The tables it reads, and how.
        best_s: Its shortest run so far.
    """

    serialised: bytes
    references: tuple[RoutedReference, ...]
    best_s: float = field(default=float("inf"))

    def collect(self, context: SessionContext) -> list[pa.RecordBatch]:
        """Runs it."""
        started = time.perf_counter()
        plan = ExecutionPlan.from_bytes(context, self.serialised)
        batches = [batch.to_pyarrow() for batch in context.execute(plan, 0)]
        self.best_s = min(self.best_s, time.perf_counter() - started)
        return batches


class PreparedStatement:
    """The plans of a statement.

    Args:
        plans: At least one; the one expected to be fastest first.
    """

    def __init__(self, plans: Sequence[PreparedPlan]) -> None:
        self._plans = plans
        self._runs = 0
        self._next_chance = _FIRST_CHANCE
        tables = {r.table for plan in plans for r in plan.references}
        self._tables = tuple(tables)
        self._folders = _folder_times(self._folder_names())

    @property
    def is_current(self) -> bool:
        """Whether its files are the ones it was prepared for, and no file came to their folders."""
        is_unchanged = all(table.is_unchanged for table in self._tables)
        return is_unchanged and self._folders == _folder_times(self._folder_names())

    def next_plan(self) -> PreparedPlan:
        """The plan to run now."""
        self._runs += 1
        for plan in self._plans:
            if plan.best_s == float("inf"):
                return plan
        best, *others = sorted(self._plans, key=lambda plan: plan.best_s)
        if others and self._runs >= self._next_chance:
            self._next_chance *= 2
            if others[0].best_s < _FAR_BEHIND * best.best_s:
                return others[0]
        return best

    def _folder_names(self) -> set[str]:
        """The folders of the files, and those between them and what they have in common."""
        parents = {os.path.dirname(file.path) for table in self._tables for file in table.files}
        if not parents:
            return set()
        root = os.path.commonpath(parents)
        found = {root}
        for folder in parents:
            while folder not in found:
                found.add(folder)
                folder = os.path.dirname(folder)  # noqa: PLW2901 upwards
        return found


def _folder_times(names: set[str]) -> dict[str, int] | None:
    try:
        return {name: os.stat(name).st_mtime_ns for name in names}
    except OSError:
        return None


def prepare(
    context: SessionContext, frame: DataFrame, references: tuple[RoutedReference, ...]
) -> PreparedPlan | None:
    """The plan of a frame, made ready; None for one that is not to be prepared.

    Args:
        context: The session.
        frame: What serves the statement; its tables are in the catalog.
        references: The tables it reads: all of them.
    """
    try:
        plan = frame.execution_plan()
        if not _can_be_prepared(plan):
            return None
        serialised = plan.to_bytes(context)
        again = ExecutionPlan.from_bytes(context, serialised)
        if again.display_indent() != plan.display_indent():
            return None
        for leaf in leaves_of(plan):
            if is_parquet_scan(leaf):
                old = leaf.to_bytes(context)
                new = _narrowed(old, _reference_of(old, references))
                serialised = replaced(serialised, old, new)
    except (ValueError, LateError):
        return None
    except Exception:  # noqa: BLE001 DataFusion says in classes of its own that it cannot
        return None
    return PreparedPlan(serialised, references)


def _can_be_prepared(plan: ExecutionPlan) -> bool:
    text = plan.display_indent()
    # Which rows a LIMIT takes should not depend on how often it was asked for.
    has_order = "AggregateExec" in text or "SortExec" in text or "PlaceholderRowExec" in text
    return (
        plan.partition_count == 1
        and has_order
        and set(_NODE.findall(text)) <= _NODES
        and all(_can_be_cut_loose(leaf) for leaf in leaves_of(plan))
    )


def _can_be_cut_loose(leaf: ExecutionPlan) -> bool:
    """Whether a leaf reads files, or nothing, whatever else runs and in whatever order."""
    said = leaf.display()
    if not is_parquet_scan(leaf):
        return said.startswith("PlaceholderRowExec")
    bonds = ("DynamicFilter", "output_ordering", "limit=", "sort_order_for_reorder")
    return not any(bond in said for bond in bonds)


def _reference_of(leaf: bytes, references: tuple[RoutedReference, ...]) -> RoutedReference | None:
    """The reference that a scan serves; None if that is not sure."""
    files = set(listed_files(leaf) or ())
    found = [r for r in references if set(r.table.files) == files]
    if not found:
        raise ValueError("a scan of other files")
    return found[0] if len(found) == 1 else None


def _narrowed(leaf: bytes, reference: RoutedReference | None) -> bytes:
    """A scan of the row groups that can matter, in parts that partitions can share."""
    if reference is None or not reference.filters:
        return without_statistics(leaf)
    try:
        survivors = _survivors(reference)
    except LateError:
        return without_statistics(leaf)
    if not _should_narrow(survivors, reference):
        return without_statistics(leaf)
    total = len(survivors)
    parts = [FileRange(s.path, s.start, s.start + 1) for s in survivors]
    partitions = group_count(leaf)
    edges = [total * place // partitions for place in range(partitions + 1)]
    return over_ranges(leaf, [parts[a:b] for a, b in itertools.pairwise(edges)])


def _survivors(reference: RoutedReference) -> list[Survivor]:
    table, options = reference.table, reference.route.options
    names = {reference.own_name or table.name[-1], *table.printed_names}
    conjuncts = to_conjuncts(reference.filters, names, table.schema)
    return find_survivors(as_exact_table(table, options), conjuncts, options)


def _should_narrow(survivors: Sequence[Survivor], reference: RoutedReference) -> bool:
    """Whether so much is ruled out that DataFusion's own parts would be uneven."""
    options = reference.route.options
    total = sum(
        load_facts(LocalStorage(), file.path, options).num_row_groups
        for file in reference.table.files
    )
    return len(survivors) <= min(MOST_PARTS, _NARROW * total)
