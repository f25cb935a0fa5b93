"""Runs a scan.

In: a `ReadPlan`. Out: record batches; afterwards a report.

Invariant: when the iterator ends or is closed, every file is closed and every thread has ended.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections import Counter
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa

from lm_datafusion.formats.cache import FACTS
from lm_datafusion.kernels import warn_if_missing
from lm_datafusion.scan.exit import ERA
from lm_datafusion.scan.memory.condition_cache import CONDITIONS
from lm_datafusion.scan.memory.step_history import STEPS, file_versions, step_keys
from lm_datafusion.scan.planning.split import can_split, plan_units, split_tasks
from lm_datafusion.scan.pruning.conjunction import Conjunction
from lm_datafusion.scan.pruning.prune import PruningContext
from lm_datafusion.scan.reading.adaptive_order import AdaptiveOrder
from lm_datafusion.scan.reading.batches import BatchMaker, batches_of, counted_batches
from lm_datafusion.scan.reading.fetching import FetchBudget, UnitFetch
from lm_datafusion.scan.reading.limit import RowBudget
from lm_datafusion.scan.reading.pool import OrderedPool
from lm_datafusion.scan.reading.row_group import RowGroupReader
from lm_datafusion.scan.reading.row_group_state import RowGroupState, group_states
from lm_datafusion.scan.reading.scan_file import ScanFile
from lm_datafusion.scan.reading.walk import RowGroupScan
from lm_datafusion.scan.top_k.first_rows import FirstRowsWalk, plan_fetch
from lm_datafusion.storage import IO, LazyFile, MeteredFile, Round

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from lm_datafusion.metrics import ScanMetrics
    from lm_datafusion.plan import FilePlan, ReadPlan
    from lm_datafusion.scan.memory.step_history import Measured
    from lm_datafusion.scan.top_k.first_rows import Found
    from lm_datafusion.storage import FileVersion

    Pool: TypeAlias = OrderedPool[range, pa.RecordBatch]

# A scan of a store has at least so many units, if it has as many row groups.
FEWEST_UNITS: Final = 8


class ScanRun:
    """Runs one plan, once."""

    def __init__(self, plan: ReadPlan, metrics: ScanMetrics) -> None:
        warn_if_missing()
        self._era = ERA.begin()
        is_remote = plan.storage.is_remote
        plan = _without_dictionaries(plan) if is_remote else _split(plan)
        self._plan = plan
        self._fetch_budget = _fetch_budget(plan) if is_remote else None
        self._metrics = metrics
        self._versions = file_versions(plan)
        self._keys = step_keys(plan)
        self._order = AdaptiveOrder(
            plan.row_filter,
            reorder=plan.options.reorder_filters,
            recalled=STEPS.recall(self._versions, self._keys),
        )
        self._handles = _Handles(plan, metrics)
        steps = sorted(plan.row_filter.steps, key=lambda step: step.index)
        self._conjunction = Conjunction(tuple(step.conjunct for step in steps), plan.filter_schema)
        self._files: dict[FileVersion, ScanFile] = {}
        self._batch_maker = BatchMaker(plan.schema)

    def batches(self) -> Generator[pa.RecordBatch]:
        """The rows of the plan, in plan order."""
        if self._plan.first is None:
            yield from self._all_batches()
        elif self._plan.limit is None:
            yield from self._first_batches()
        else:
            yield from _limited(self._first_batches(), self._plan.limit)

    def _first_batches(self) -> Generator[pa.RecordBatch]:
        """Finds the first rows, then fetches the columns that were not read on the way.

        Raises:
            GaveUpError: More rows tie than the plan allows.
        """
        plan = self._plan
        with self._ended():
            found = FirstRowsWalk(plan, self.open_reader, self._metrics).run()
            self._handles.close()
            if len(found.carried) < len(plan.schema):
                yield from _joined(ScanRun(plan_fetch(plan, found), self._metrics), found, plan)
            else:
                self._metrics.add(rows_selected=found.row_count)
                yield from _carried_batches(found, plan)

    def measured(self) -> dict[int, Measured]:
        """What has been measured about the filter steps so far."""
        return self._order.measured()

    def close(self) -> None:
        """Ends a run that was only used for its readers."""
        with self._ended():
            pass

    @contextlib.contextmanager
    def _ended(self) -> Iterator[None]:
        """Ends the run after a block, even after an error; Ctrl-C may come at any time."""
        try:
            yield
        finally:
            try:
                self._handles.close()
            finally:
                self._finish()

    def _finish(self) -> None:
        STEPS.keep(self._versions, self._keys, self._order.measured())
        FACTS.trim(self._versions, limit_bytes=self._plan.options.metadata_cache_bytes)
        self._metrics.note_condition_cache(CONDITIONS.memory_bytes())
        self._metrics.finish()

    def _all_batches(self) -> Generator[pa.RecordBatch]:
        is_alone = self._plan.limit is None and self._plan.options.worker_count == 1
        if is_alone and self._fetch_budget is None:
            yield from self._batches_here()
        else:
            yield from self._batches_from_workers()

    def _batches_here(self) -> Generator[pa.RecordBatch]:
        """The rows, scanned on the calling thread.

        An engine pulls its partitions on its own threads: more threads would only make it wait.
        """
        with self._ended():
            for unit in self._units(parallel=1):
                yield from self._scan_local(unit)

    def _batches_from_workers(self) -> Generator[pa.RecordBatch]:
        budget = self._budget()
        workers = self._plan.options.worker_count
        if self._fetch_budget is not None:
            yield from self._batches_of_store(budget, workers)
            return
        pool = OrderedPool(
            self._units(parallel=workers),
            lambda unit: self._scan(unit, budget),
            workers=workers,
            queue_size=self._plan.options.queue_batches,
            should_begin=None if budget is None else budget.should_begin,
        )
        with self._ended(), contextlib.closing(pool):
            yield from pool if budget is None else self._counted(pool, budget)

    def _batches_of_store(
        self, budget: RowBudget | None, workers: int
    ) -> Generator[pa.RecordBatch]:
        """The same from a store: row groups begin as long as there is room for their bytes."""
        fetch_budget = self._fetch_budget
        assert fetch_budget is not None
        units = self._units(parallel=max(workers, FEWEST_UNITS))
        sizes: dict[int, int] = {}

        def should_begin(index: int) -> bool:
            if budget is not None and not budget.should_begin(index):
                return False
            if index not in sizes:
                sizes[index] = self._most_bytes(units[index])
            return fetch_budget.has_room(sizes[index] + pool.queued_bytes)

        pool: Pool = OrderedPool(
            units,
            lambda unit: self._scan(unit, budget),
            workers=workers,
            queue_size=self._plan.options.queue_batches,
            should_begin=should_begin,
            sets_aside=True,
        )
        fetch_budget.on_change = pool.wake
        try:
            with self._ended(), contextlib.closing(pool), IO.held():
                yield from pool if budget is None else self._counted(pool, budget)
        finally:
            self._metrics.add(round_trips=pool.waits, wait_us=int(pool.wait_s * 1e6))

    def _most_bytes(self, unit: range) -> int:
        """The most bytes that a unit may hold: those of all its columns."""
        total = 0
        for index in unit:
            task = self._plan.tasks[index]
            facts = FACTS.get(task.file.version)
            if facts is not None:
                for column in task.file.columns.values():
                    chunks = facts.chunks_of(task.access.row_group, column)
                    total += sum(max(0, chunk.stored_bytes) for chunk in chunks)
        return total

    def _counted(self, pool: Pool, budget: RowBudget) -> Iterator[pa.RecordBatch]:
        """No more rows than the budget; afterwards counts the row groups that were not needed."""
        budget.on_change = pool.wake
        try:
            for batch in _limited(pool, budget.limit):
                self._metrics.add(rows_selected=batch.num_rows)
                yield batch
        finally:
            pool.close()
            self._metrics.add(row_groups_pruned_early_stop=budget.never_begun())

    def _units(self, *, parallel: int) -> list[range]:
        """The tasks that one thread scans in sequence: those of a file, if there are many."""
        tasks = self._plan.tasks
        if self._plan.limit is not None or self._plan.is_reverse:
            return [range(index, index + 1) for index in range(len(tasks))]
        return plan_units(tasks, parallel)

    def _budget(self) -> RowBudget | None:
        if self._plan.limit is None:
            return None
        counts = [task.rows_left for task in self._plan.tasks]
        has_filter = bool(self._plan.row_filter.steps)
        return RowBudget(self._plan.limit, counts, has_filter=has_filter)

    def _scan_local(self, unit: range) -> Iterator[pa.RecordBatch]:
        for item in self._scan(unit, None):
            assert not isinstance(item, Round)
            yield item

    def _scan(self, unit: range, budget: RowBudget | None) -> Iterator[pa.RecordBatch | Round]:
        task = self._plan.tasks[unit[0]]
        try:
            handle = self._handles.open(task.file.version)
            with handle.blamed():
                file = self._scan_file(task.file, handle)
                states = [RowGroupState(self._plan.tasks[n], file.context) for n in unit]
                if self._fetch_budget is not None:
                    yield from self._fetch_indexes(states, file, unit)
                yield from self._scan_states(states, file, unit[0], budget)
        finally:
            if self._fetch_budget is not None:
                self._fetch_budget.hold(unit[0], 0)
            self._handles.release(task.file.version, len(unit))

    def _fetch_indexes(
        self, states: list[RowGroupState], file: ScanFile, unit: range
    ) -> Iterator[Round]:
        """The round of indexes that are not known yet; their bytes are kept with the facts."""
        assert self._fetch_budget is not None
        self._fetch_budget.hold(unit[0], self._most_bytes(unit))
        columns = states[0].task.file.columns
        filters = [n for c in self._conjunction.conjuncts for n in c.columns]
        ranges = [
            wanted
            for state in states
            for wanted in file.context.facts.plan_index_ranges(
                state.access.row_group,
                list(columns.values()),
                [columns[name] for name in filters if name in columns],
                with_filters=bool(self._conjunction.equalities)
                and self._plan.options.prune_bloom_filter,
            )
        ]
        found = file.file.fetch_ahead(ranges)
        if found is None:
            return
        if not found.is_done:
            yield found
        for state in states:
            state.prune(file.index_file)
            state_columns = list(columns.values())
            file.context.facts.load_indexes(state.access.row_group, state_columns, file.index_file)
        found.release()

    def _scan_states(
        self, states: list[RowGroupState], file: ScanFile, task_index: int, budget: RowBudget | None
    ) -> Iterator[pa.RecordBatch | Round]:
        if len(states) > 1:
            for state in states:
                state.prune(file.index_file)
        for group in group_states(states, file.decoding):
            ERA.check(self._era)
            reader = RowGroupReader(self._plan, group, file, self._order)
            fetch = None
            if self._fetch_budget is not None:
                fetch = UnitFetch(
                    self._plan, reader, file, self._order, self._fetch_budget, task_index
                )
            scan = RowGroupScan(self._plan, reader, self._batch_maker, task_index, budget, fetch)
            for batch in scan.batches():
                yield batch
                ERA.check(self._era)

    def open_reader(self, index: int) -> RowGroupReader:
        """A reader of the row group of one task of the plan."""
        ERA.check(self._era)
        task = self._plan.tasks[index]
        file = self._scan_file(task.file, self._handles.open(task.file.version))
        states = [RowGroupState(task, file.context)]
        return RowGroupReader(self._plan, states, file, self._order)

    def _scan_file(self, file_plan: FilePlan, file: LazyFile) -> ScanFile:
        """The state that the row groups of a file share."""
        found = self._files.get(file_plan.version)
        if found is None:
            context = PruningContext(
                facts=FACTS.load(file, limit_bytes=self._plan.options.metadata_cache_bytes),
                file_plan=file_plan,
                conjunction=self._conjunction,
                options=self._plan.options,
                metrics=self._metrics,
            )
            index_file = MeteredFile(file, lambda n: self._metrics.add(bytes_metadata=n))
            found = self._files[file_plan.version] = ScanFile(context, file, index_file)
        return found


def _without_dictionaries(plan: ReadPlan) -> ReadPlan:
    """Without pruning by dictionaries, which would take a round; the filter chain looks them up."""
    options = plan.options.with_changes(prune_dictionary=False)
    return dataclasses.replace(plan, options=options)


def _fetch_budget(plan: ReadPlan) -> FetchBudget:
    storage = plan.storage
    return FetchBudget(
        plan.options.fetch_ahead_bytes, lambda: storage.reach.round_bytes, len(plan.tasks)
    )


def _split(plan: ReadPlan) -> ReadPlan:
    """Splits row groups into parts where that keeps more workers busy."""
    is_plain = plan.first is None and plan.limit is None and not plan.is_reverse
    if not is_plain or not can_split(plan.schema) or not can_split(plan.filter_schema):
        return plan
    return dataclasses.replace(plan, tasks=split_tasks(plan.tasks, plan.options.worker_count))


def _joined(fetch: ScanRun, found: Found, plan: ReadPlan) -> Iterator[pa.RecordBatch]:
    """Fetched columns and carried ones, side by side."""
    position = 0
    for batch in fetch.batches():
        columns = [
            found.carried[name].slice(position, batch.num_rows)
            if name in found.carried
            else batch.column(name)
            for name in plan.schema.names
        ]
        position += batch.num_rows
        table = pa.Table.from_arrays(columns, schema=plan.schema)
        yield from batches_of(table.combine_chunks())


def _carried_batches(found: Found, plan: ReadPlan) -> Iterator[pa.RecordBatch]:
    batch_rows = plan.options.batch_rows
    if not plan.schema.names:
        yield from counted_batches(found.row_count, batch_rows)
        return
    columns = [found.carried[name] for name in plan.schema.names]
    table = pa.Table.from_arrays(columns, schema=plan.schema)
    yield from batches_of(table, batch_rows)


def _limited(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    """At most `limit` rows; never pulls a batch beyond them."""
    missing = limit
    for batch in batches:
        if batch.num_rows < missing:
            yield batch
        elif batch.num_columns:
            yield batch.slice(0, missing)
        else:
            # A slice of a batch without columns has no rows.
            yield from counted_batches(missing, missing)
        missing -= batch.num_rows
        if missing <= 0:
            return


class _Handles:
    """The files of a scan: opened when a task first needs bytes, closed after the last task."""

    def __init__(self, plan: ReadPlan, metrics: ScanMetrics) -> None:
        self._storage = plan.storage
        self._metrics = metrics
        self._lock = threading.Lock()
        self._files: dict[FileVersion, LazyFile] = {}
        self._tasks_left = Counter([task.file.version for task in plan.tasks])

    def open(self, version: FileVersion) -> LazyFile:
        with self._lock:
            file = self._files.get(version)
            if file is None:
                file = self._files[version] = LazyFile(self._storage, version)
            return file

    def release(self, version: FileVersion, task_count: int) -> None:
        with self._lock:
            self._tasks_left[version] -= task_count
            if not self._tasks_left[version] and version in self._files:
                self._close(self._files.pop(version))

    def _close(self, file: LazyFile) -> None:
        file.close()
        if self._storage.is_remote:
            self._metrics.add(**file.traffic.counts())

    def close(self) -> None:
        with self._lock:
            for file in self._files.values():
                self._close(file)
            self._files.clear()
