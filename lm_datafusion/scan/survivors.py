"""The row groups in which a row may match, after every kind of pruning.

In: a table and conjuncts. Out: a `Survivor` per row group left, in the order of the table.

For readers other than ours: what bloom filters and dictionaries rule out, such a reader may not
know how to ask, and what is left can be spread over its workers.

Invariant: a row group that is missing holds no matching row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lm_datafusion.errors import CorruptFileError
from lm_datafusion.formats.parquet.cache import FACTS
from lm_datafusion.metrics import ScanMetrics
from lm_datafusion.plan import ScanRequest
from lm_datafusion.scan.planning.planner import plan_scan
from lm_datafusion.scan.pruning.conjunction import Conjunction
from lm_datafusion.scan.pruning.prune import PruningContext, prune_row_group

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lm_datafusion.formats.parquet.footer import FileFacts
    from lm_datafusion.options import ScanOptions
    from lm_datafusion.plan import FilePlan, ReadPlan, RowGroupTask, Table
    from lm_datafusion.predicate.conjunct import Conjunct
    from lm_datafusion.storage import OpenFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Survivor:
    """A row group that may hold matching rows.

    Attributes:
        path: Its file.
        row_group: Its number in the file.
        start: Where its first column chunk begins, as other readers find it.
        rows_left: Rows that the page index does not rule out.
    """

    path: str
    row_group: int
    start: int
    rows_left: int


def find_survivors(
    table: Table, conjuncts: Sequence[Conjunct], options: ScanOptions
) -> list[Survivor]:
    """Prunes a table; reads footers, indexes, bloom filters and dictionaries, no data.

    Raises:
        CorruptFileError: A file in which it is not clear where row groups begin.
    """
    metrics = ScanMetrics()
    plan = plan_scan(table, ScanRequest(conjuncts=tuple(conjuncts)), options, metrics)
    found: list[Survivor] = []
    for tasks in _by_file(plan):
        with table.storage.open(tasks[0].file.version) as file:
            context = _context(plan, tasks[0].file, file, metrics)
            found += [s for task in tasks if (s := _survivor(task, context, file))]
    return found


def _by_file(plan: ReadPlan) -> Iterator[list[RowGroupTask]]:
    by_place: dict[int, list[RowGroupTask]] = {}
    for task in plan.tasks:
        by_place.setdefault(task.file.place, []).append(task)
    yield from by_place.values()


def _context(
    plan: ReadPlan, file_plan: FilePlan, file: OpenFile, metrics: ScanMetrics
) -> PruningContext:
    steps = sorted(plan.row_filter.steps, key=lambda step: step.index)
    return PruningContext(
        facts=FACTS.load(file, limit_bytes=plan.options.metadata_cache_bytes),
        file_plan=file_plan,
        conjunction=Conjunction(tuple(step.conjunct for step in steps), plan.filter_schema),
        options=plan.options,
        metrics=metrics,
    )


def _survivor(task: RowGroupTask, context: PruningContext, file: OpenFile) -> Survivor | None:
    access = prune_row_group(task.access, context, file, {})
    if access.is_skipped:
        return None
    return Survivor(
        path=task.file.version.path,
        row_group=access.row_group,
        start=_first_page(context.facts, access.row_group),
        rows_left=access.selection.row_count,
    )


def _first_page(facts: FileFacts, row_group: int) -> int:
    metadata = facts.chunks_of(row_group, 0)[0].metadata
    data, dictionary = metadata.data_page_offset, metadata.dictionary_page_offset
    if dictionary is None:
        return int(data)
    # Some writers put a zero there, or have the pages the other way round.
    if not 0 < dictionary < data:
        raise CorruptFileError(f"row group {row_group} begins nowhere", path=facts.version.path)
    return int(dictionary)
