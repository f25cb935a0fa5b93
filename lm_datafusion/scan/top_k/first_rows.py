"""Finds the first rows of an order without reading all rows.

In: a plan with `first`. Out: every matching row that can be among the first, including ties with
the last of them, in table order.

1. Containers are visited in the order of their best key (`best_first`). Only the columns of the
   filter and the key are read. The n-th best key so far is the threshold; once there is one, the
   key is read first, and worse rows are never filtered.
2. The walk ends when no remaining container can hold a row as good as the threshold.
3. The other columns are fetched for the final candidates, page by page.

On a file sorted by the key this is a scan from the better end that stops at the n-th row; on an
unsorted file it still skips pages that cannot beat the rows found.

Why bounds alone: a declared order, or one that a footer claims, may be wrong, and then an early
stop loses rows. Bounds prove what the stop needs, container by container.

Invariant: the answer is right where there are bounds; without bounds everything is read.
"""

from __future__ import annotations

import dataclasses
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from lm_datafusion.errors import GaveUpError
from lm_datafusion.plan import RowFilter
from lm_datafusion.plan.ordering import UNKNOWN_KEY
from lm_datafusion.predicate.tree import And, ColumnReference, Comparison, Operator
from lm_datafusion.scan.keys.best_keys import best_keys
from lm_datafusion.scan.keys.sort_values import from_sort_value, to_sort_values
from lm_datafusion.scan.reading.limit import RowBudget
from lm_datafusion.scan.reading.windows import WindowWalk, count_windows, page_edges, shared_edges
from lm_datafusion.scan.top_k.best_first import BestFirst
from lm_datafusion.scan.top_k.candidates import Candidates, Part, good_enough
from lm_datafusion.scan.top_k.crew import run_crew
from lm_datafusion.selection import RowSelection
from lm_datafusion.selection.values import without_views

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from lm_datafusion.metrics import ScanMetrics
    from lm_datafusion.plan import BestKey, FirstRows, ReadPlan, RowGroupAccess, RowGroupTask
    from lm_datafusion.predicate.tree import Predicate
    from lm_datafusion.scan.reading.row_group import RowGroupReader
    from lm_datafusion.scan.top_k.best_first import Visit
    from lm_datafusion.scan.top_k.candidates import Threshold

    Values: TypeAlias = pa.Array | pa.ChunkedArray

# Fewer rows are not worth a second worker.
ROWS_WORTH_A_TASK = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The rows that were found, in the order of the table.

    Attributes:
        indexes: The indexes in the plan of the row groups that hold them.
        tasks: The same row groups, with exactly these rows selected.
        carried: Their columns that the walk has already read, by name.
        row_count: The number of rows.
    """

    indexes: tuple[int, ...]
    tasks: tuple[RowGroupTask, ...]
    carried: dict[str, pa.ChunkedArray]
    row_count: int


class FirstRowsWalk:
    """Finds the first rows of a plan, once."""

    def __init__(
        self, plan: ReadPlan, open_reader: Callable[[int], RowGroupReader], metrics: ScanMetrics
    ) -> None:
        assert plan.first is not None
        self._plan = plan
        self._first: FirstRows = plan.first
        self._open_reader = open_reader
        self._metrics = metrics
        self._carried = carried_columns(plan)
        self._key_steps = [
            step
            for step in plan.row_filter.steps
            if step.conjunct.columns == (self._first.column,) and not step.conjunct.can_fail
        ]
        self._readers: dict[int, RowGroupReader] = {}
        self._candidates = Candidates(self._first)
        self._order = BestFirst(
            [task.best or UNKNOWN_KEY for task in plan.tasks],
            [task.access.selection.row_count for task in plan.tasks],
            self._first,
            self._candidates.can_hold,
        )
        self._budget = RowBudget(self._first.row_count, [0], has_filter=bool(plan.row_filter.steps))
        self._last_rows = 0
        self._beyond_rows = 0
        self._is_stopped = False
        self._condition: tuple[Threshold, Predicate] | None = None
        self._changed = threading.Condition()

    def run(self) -> Found:
        """Walks on its own threads, and waits for them."""
        workers = min(self._plan.options.worker_count, max(1, len(self._plan.tasks)))
        try:
            run_crew(self._work, self._stop, workers=workers)
            for index, reader in self._readers.items():
                ahead = self._order.never_visited(index)
                if ahead is not None:
                    reader.early_stop(ahead, self._walked_columns(reader))
            self._metrics.add(row_groups_pruned_early_stop=self._order.never_opened)
            found = _found(self._candidates.finish(), self._plan, self._carried)
            return dataclasses.replace(found, tasks=self._split(found))
        finally:
            for reader in self._readers.values():
                reader.finish()

    def _split(self, found: Found) -> tuple[RowGroupTask, ...]:
        """Splits row groups that are a large part of the work, so that all workers share it."""
        names = [name for name in self._plan.schema.names if name not in found.carried]
        share = max(ROWS_WORTH_A_TASK, found.row_count // self._plan.options.worker_count)
        tasks: list[RowGroupTask] = []
        for index, task in zip(found.indexes, found.tasks, strict=True):
            reader, rows = self._readers[index], task.access.selection
            if rows.row_count < 2 * share or self._plan.options.worker_count == 1:
                tasks.append(task)
                continue
            edges = shared_edges(rows.total_rows, reader.chunks(names), reader.index_file)
            walk = WindowWalk(rows, edges)
            parts: list[RowGroupTask] = []
            while (part := walk.next_window(share)) is not None:
                access = dataclasses.replace(task.access, selection=part)
                parts.append(dataclasses.replace(task, access=access, is_part=bool(parts)))
            tasks += parts
        return tuple(tasks)

    def _stop(self) -> None:
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def _work(self) -> None:
        while (visit := self._next_visit()) is not None:
            try:
                if visit.window is None:
                    self._open(visit.index)
                else:
                    with self._readers[visit.index].blamed():
                        self._scan(visit)
            finally:
                self._done(visit)

    def _next_visit(self) -> Visit | None:
        """Waits for something worth doing; None when nothing is left."""
        with self._changed:
            while not self._is_stopped:
                visit = self._order.next_visit(self._window_rows)
                if visit is not None:
                    if visit.window is not None:
                        self._last_rows = visit.row_count
                        if self._candidates.threshold is not None:
                            self._beyond_rows = visit.row_count
                    # There may be another visit for another worker.
                    self._changed.notify()
                    return visit
                if self._order.is_idle:
                    break
                self._changed.wait()
            self._changed.notify_all()
            return None

    def _done(self, visit: Visit) -> None:
        with self._changed:
            self._order.done(visit)
            self._changed.notify_all()

    def _window_rows(self, rows_before: int) -> int:
        if self._candidates.threshold is not None:
            # Starts small again: as the threshold improves, fewer pages are left.
            return max(1, 2 * self._beyond_rows)
        rows = self._budget.window_rows_after(rows_before, self._last_rows)
        if rows or rows_before:
            return rows
        # There are enough rows, but some are null and values sort before them: scan on.
        return max(1, 2 * self._last_rows)

    def _open(self, index: int) -> None:
        """Prunes a row group and finds its containers."""
        reader = self._open_reader(index)
        with self._changed:
            self._readers[index] = reader
        with reader.blamed():
            self._find_containers(index, reader)

    def _find_containers(self, index: int, reader: RowGroupReader) -> None:
        access = reader.open([self._first.column])
        names = self._walked_columns(reader)
        pages = self._containers(access, reader)
        reader.note_pages(names)
        chunks = reader.chunks(names)
        edges = shared_edges(access.row_count, chunks, reader.index_file)
        window_bytes = self._plan.options.window_bytes
        size = max((chunk.uncompressed_bytes for chunk in chunks), default=0)
        count = count_windows(access.row_count, size, window_bytes=window_bytes)
        reader.check_read()
        with self._changed:
            self._order.open(
                index,
                access.selection,
                pages,
                most_rows=access.row_count // count + 1,
                is_shared=bool(np.isin(pages[0], edges).all()),
            )

    def _walked_columns(self, reader: RowGroupReader) -> list[str]:
        names = reader.filter_columns()
        return list(dict.fromkeys([*names, self._first.column, *self._carried]))

    def _containers(
        self, access: RowGroupAccess, reader: RowGroupReader
    ) -> tuple[npt.NDArray[np.int64], Sequence[BestKey]]:
        """First rows and best keys of the pages of a row group.

        Pages without bounds share the best key of the row group; they are still separate, since a
        window need not be the whole row group.
        """
        context = reader.context
        column = self._first.column
        if access.is_skipped:
            return np.zeros(0, dtype=np.int64), []
        if context.options.prune_page_index:
            try:
                statistics = context.facts.page_bounds(
                    access.row_group,
                    [(column,)],
                    reader.index_file,
                    context.file_plan.constants,
                )
            except Exception:  # noqa: BLE001 fails open, as all pruning does
                self._metrics.add(predicate_evaluation_errors=1)
            else:
                if statistics.has_pages:
                    data_type = self._plan.filter_schema.field(column).type
                    keys = best_keys(statistics, self._first, data_type, self._metrics)
                    return statistics.starts, keys
        chunks = reader.chunks(self._walked_columns(reader))
        starts = page_edges(access.row_count, chunks, reader.index_file)[:-1]
        return starts, [reader.task.best or UNKNOWN_KEY] * len(starts)

    def _scan(self, visit: Visit) -> None:
        """Finds the candidates of a window."""
        owner = self._readers[visit.index]
        reader = owner.fork() if visit.is_shared else owner
        window = visit.window
        assert window is not None
        selection, decided = self._narrow_by_key(reader, window)
        if selection.selects_any():
            selection = reader.filter(selection, decided)
        part = None
        if selection.selects_any():
            names = list(dict.fromkeys([*self._carried, self._first.column]))
            values = dict(zip(names, reader.read(names, selection), strict=True))
            part = Part(
                index=visit.index,
                rows=selection.to_indices(),
                keys=to_sort_values(values[self._first.column]),
                carried=tuple(without_views(values[name]) for name in self._carried),
            )
        reader.check_unchanged()
        reader.release()
        with self._changed:
            if visit.is_shared:
                owner.join(reader)
            self._budget.note(0, visited=window.row_count, found=selection.row_count)
            if part is not None:
                self._candidates.add(part)
                self._check_ties()

    def _check_ties(self) -> None:
        """Gives up as soon as too many rows tie.

        Raises:
            GaveUpError: Reading them all would cost more than the walk saves.
        """
        most, count = self._first.most_rows_found, self._candidates.row_count
        if most is not None and count > most:
            raise GaveUpError(f"{count:,} rows tie for the first by {self._first}")

    def _narrow_by_key(
        self, reader: RowGroupReader, window: RowSelection
    ) -> tuple[RowSelection, frozenset[int]]:
        """The rows of a window whose key is good enough, once there is a threshold.

        Also the filter steps that those rows are known to pass.
        """
        threshold = self._candidates.threshold
        if threshold is None:
            return window, frozenset()
        column = self._first.column
        condition = self._key_condition(threshold)
        if condition is not None:
            found = reader.test(column, condition, window)
            if found is not None:
                return found, frozenset(step.index for step in self._key_steps)
        (values,) = reader.read([column], window)
        mask = good_enough(to_sort_values(values), threshold, descending=self._first.descending)
        reader.hold(column, window, values)
        rows = window if mask is None else window.and_then(RowSelection.from_mask(mask))
        return rows, frozenset()

    def _key_condition(self, threshold: Threshold) -> Predicate | None:
        """The condition on the key of a good enough row; None if no comparison expresses it.

        It includes conjuncts on the key alone: the column is read once for all of them.
        """
        if threshold.scalar is None or threshold.takes_nulls:
            return None
        data_type = self._plan.filter_schema.field(self._first.column).type
        if pa.types.is_floating(data_type) or pa.types.is_boolean(data_type):
            return None
        if self._condition is None or self._condition[0] is not threshold:
            operator = Operator.GE if self._first.descending else Operator.LE
            try:
                literal = from_sort_value(threshold.scalar, data_type)
            except (pa.ArrowException, ValueError):
                return None
            key = Comparison(ColumnReference((self._first.column,)), operator, literal)
            filters = [step.conjunct.tree for step in self._key_steps]
            self._condition = threshold, And((key, *filters)) if filters else key
        return self._condition[1]


def carried_columns(plan: ReadPlan) -> list[str]:
    """Columns of the result that the walk reads anyway, so they need not be read again."""
    assert plan.first is not None
    read = {
        name
        for step in plan.row_filter.steps
        if any(task.access.is_undecided(step.index) for task in plan.tasks)
        for name in step.conjunct.columns
    }
    read.add(plan.first.column)
    return [
        field.name
        for field in plan.schema
        if field.name in read
        and not pa.types.is_nested(field.type)
        and not pa.types.is_dictionary(field.type)
        and not isinstance(field.type, pa.BaseExtensionType)
    ]


def plan_fetch(plan: ReadPlan, found: Found) -> ReadPlan:
    """A plan for the remaining columns of the rows that were found."""
    fields = [field for field in plan.schema if field.name not in found.carried]
    return dataclasses.replace(
        plan,
        schema=pa.schema(fields),
        row_filter=RowFilter(steps=()),
        tasks=found.tasks,
        limit=None,
        first=None,
    )


def _found(parts: Sequence[Part], plan: ReadPlan, carried: Sequence[str]) -> Found:
    """Sorts the candidates of all windows into table order."""
    empty = np.zeros(0, dtype=np.int64)
    rows = np.concatenate([empty, *(part.rows for part in parts)])
    indexes = np.repeat([part.index for part in parts], [len(part.rows) for part in parts])
    order = np.lexsort((rows, indexes))
    rows, indexes = rows[order], indexes[order]
    tasks = []
    held = tuple(np.unique(indexes).tolist())
    for index in held:
        task = plan.tasks[index]
        selection = RowSelection.from_indices(rows[indexes == index], task.access.row_count)
        access = dataclasses.replace(task.access, selection=selection, undecided=())
        tasks.append(dataclasses.replace(task, access=access))
    columns = {}
    for index, name in enumerate(carried):
        chunks = [chunk for part in parts for chunk in _chunks(part.carried[index])]
        plain = without_views(pa.array([], plan.schema.field(name).type)).type
        together = pa.chunked_array(chunks, plain).take(pa.array(order))
        columns[name] = together.cast(plan.schema.field(name).type)
    return Found(indexes=held, tasks=tuple(tasks), carried=columns, row_count=len(rows))


def _chunks(values: Values) -> list[pa.Array]:
    return list(values.chunks) if isinstance(values, pa.ChunkedArray) else [values]
