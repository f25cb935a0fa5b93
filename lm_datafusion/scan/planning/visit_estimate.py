"""Estimates how much of a table must be read to find the first rows of an order.

In: a table, conjuncts and which rows come first. Out: a `VisitEstimate`: the rows that a walk by
page bounds would visit, and those that a reader of whole row groups would.

Containers are taken in the order of their best key until enough rows are expected to pass; the key
of the n-th row is interpolated between the bounds of the last container. Every container that
begins before that key has to be visited.

Invariant: an estimate of speed; no result depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from lm_datafusion.formats.cache import FACTS
from lm_datafusion.metrics import ScanMetrics
from lm_datafusion.plan import ScanRequest
from lm_datafusion.scan.keys.sort_values import bounds_to_sort_values
from lm_datafusion.scan.planning.planner import plan_scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from lm_datafusion.options import ScanOptions
    from lm_datafusion.plan import FirstRows, ReadPlan, RowGroupTask, Table
    from lm_datafusion.plan.ordering import KeyValue
    from lm_datafusion.predicate.conjunct import Conjunct
    from lm_datafusion.pruning import PruningStatistics

# Page indexes are read for this many of the best row groups.
_MOST_OPENED = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitEstimate:
    """What finding the first rows takes.

    Attributes:
        rows_total: Rows that statistics leave.
        rows_by_pages: Rows in pages that have to be visited.
        rows_by_row_groups: Rows in row groups that have to be visited.
        row_groups: The number of those row groups.
    """

    rows_total: int
    rows_by_pages: int
    rows_by_row_groups: int
    row_groups: int


class _Container(NamedTuple):
    """Rows with bounds as sort values; smaller is better."""

    best: KeyValue
    worst: KeyValue
    rows: int


def estimate_visits(
    table: Table, conjuncts: Sequence[Conjunct], first: FirstRows, options: ScanOptions
) -> VisitEstimate | None:
    """The estimate; None if bounds say nothing about the order."""
    request = ScanRequest(conjuncts=tuple(conjuncts), first=first)
    plan = plan_scan(table, request, options, ScanMetrics())
    share = 1.0
    for step in plan.row_filter.steps:
        share *= step.selectivity
    groups = [_row_group(task, plan, table) for task in plan.tasks]
    known = [group for group in groups if group is not None]
    if not known or len(known) < len(groups):
        return None
    rows_wanted = first.row_count / max(share, 1e-9)
    last = _nth_key(known, rows_wanted)
    opened = [
        task for task, group in zip(plan.tasks, known, strict=True) if _is_visited(group, last)
    ]
    pages = [page for task in opened[:_MOST_OPENED] for page in _pages(task, plan, table)]
    if len(opened) > _MOST_OPENED or not pages:
        pages = [group for group in known if _is_visited(group, last)]
    last_page = _nth_key(pages, rows_wanted)
    by_row_groups = [group.rows for group in known if _is_visited(group, last_page)]
    return VisitEstimate(
        rows_total=sum(group.rows for group in known),
        rows_by_pages=sum(page.rows for page in pages if _is_visited(page, last_page)),
        rows_by_row_groups=sum(by_row_groups),
        row_groups=len(by_row_groups),
    )


def _nth_key(containers: Iterable[_Container], rows_wanted: float) -> KeyValue | None:
    """The key of the n-th row, if rows are spread evenly; None if all have to be visited."""
    missing = rows_wanted
    for container in sorted(containers):
        if container.rows < missing:
            missing -= container.rows
            continue
        best, worst = container.best, container.worst
        if isinstance(best, bytes) or isinstance(worst, bytes):
            return worst
        return best + type(best)((worst - best) * int(missing) // max(container.rows, 1))
    return None


def _is_visited(container: _Container, last: KeyValue | None) -> bool:
    return last is None or container.best <= last  # type: ignore[operator]  # keys of one column


def _row_group(task: RowGroupTask, plan: ReadPlan, table: Table) -> _Container | None:
    with table.storage.open(task.file.version) as file:
        facts = FACTS.load(file, limit_bytes=plan.options.metadata_cache_bytes)
    statistics = facts.row_group_statistics([task.access.row_group], task.file.constants)
    found = _containers(statistics, plan)
    return found[0] if found else None


def _pages(task: RowGroupTask, plan: ReadPlan, table: Table) -> list[_Container]:
    assert plan.first is not None
    with table.storage.open(task.file.version) as file:
        facts = FACTS.load(file, limit_bytes=plan.options.metadata_cache_bytes)
        statistics = facts.page_bounds(
            task.access.row_group, [(plan.first.column,)], file, task.file.constants
        )
        return _containers(statistics, plan) if statistics.has_pages else []


def _containers(statistics: PruningStatistics, plan: ReadPlan) -> list[_Container]:
    """Containers with bounds; empty if one has none."""
    first = plan.first
    assert first is not None
    path, data_type = (first.column,), plan.filter_schema.field(first.column).type
    lower = _values(statistics.min_values(path), data_type)
    upper = _values(statistics.max_values(path), data_type)
    nulls = statistics.null_counts(path)
    is_unsure = first.nulls_first and (nulls is None or nulls.any())
    if is_unsure or any(value is None for value in (*lower, *upper)) or not lower or not upper:
        return []
    counts = statistics.row_counts().tolist()
    if not first.descending:
        return [_Container(*found) for found in zip(lower, upper, counts, strict=True)]
    found = [
        _Container(-high, -low, rows)
        for low, high, rows in zip(lower, upper, counts, strict=True)
        if not isinstance(low, bytes) and not isinstance(high, bytes)
    ]
    return found if len(found) == len(counts) else []  # no negative of a text


def _values(bounds: pa.Array | None, data_type: pa.DataType) -> list[KeyValue]:
    values = bounds_to_sort_values(bounds, data_type)
    return [] if values is None else values.to_pylist()
