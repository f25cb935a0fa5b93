"""A scan from beginning to end.

In: a `ReadPlan`. Out: record batches; afterwards a report.

Invariant: when the iterator ends or is closed, every file is closed and every thread has ended.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from lm_datafusion.formats.parquet.cache import FACTS
from lm_datafusion.scan.adaptive_order import AdaptiveOrder
from lm_datafusion.scan.condition_cache import CONDITIONS, conjunct_key
from lm_datafusion.scan.pool import OrderedPool
from lm_datafusion.scan.prune import PruningContext
from lm_datafusion.scan.row_group import RowGroupScan
from lm_datafusion.scan.step_history import STEPS, file_versions
from lm_datafusion.storage import LazyFile, MeteredFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from lm_datafusion.metrics import ScanMetrics
    from lm_datafusion.plan import ReadPlan, RowGroupTask
    from lm_datafusion.scan.condition_cache import ConjunctKey
    from lm_datafusion.storage import FileVersion, OpenFile


class ScanRun:
    """Runs one plan, once."""

    def __init__(self, plan: ReadPlan, metrics: ScanMetrics) -> None:
        self._plan = plan
        self._metrics = metrics
        self._versions = file_versions(plan)
        self._keys = _step_keys(plan)
        self._order = AdaptiveOrder(
            plan.row_filter,
            reorder=plan.options.reorder_filters,
            recalled=STEPS.recall(self._versions, self._keys),
        )
        self._handles = _Handles(plan)
        steps = sorted(plan.row_filter.steps, key=lambda step: step.index)
        self._conjuncts = tuple(step.conjunct for step in steps)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows of the plan, in its order."""
        pool = OrderedPool(
            self._plan.tasks,
            self._scan,
            workers=self._plan.options.worker_count,
            queue_size=self._plan.options.queue_batches,
        )
        try:
            yield from pool
        finally:
            pool.close()
            self._handles.close()
            STEPS.keep(self._versions, self._keys, self._order.measured())
            FACTS.trim(self._versions, limit_bytes=self._plan.options.metadata_cache_bytes)
            self._metrics.note_condition_cache(CONDITIONS.memory_bytes())
            self._metrics.finish()

    def _scan(self, task: RowGroupTask) -> Iterator[pa.RecordBatch]:
        file = self._handles.open(task.file.version)
        try:
            facts = FACTS.load(file, limit_bytes=self._plan.options.metadata_cache_bytes)
            context = PruningContext(
                facts=facts,
                file_plan=task.file,
                conjuncts=self._conjuncts,
                schema=self._plan.filter_schema,
                options=self._plan.options,
                metrics=self._metrics,
            )
            index_file = MeteredFile(file, lambda n: self._metrics.add(bytes_metadata=n))
            scan = RowGroupScan(self._plan, task, context, self._order, (file, index_file))
            yield from scan.batches()
        finally:
            self._handles.release(task.file.version)


def _step_keys(plan: ReadPlan) -> dict[int, ConjunctKey]:
    """By step: under which name its cost is kept; none where there is no order to learn."""
    steps = plan.row_filter.steps
    if len(steps) == 1 or not plan.options.reorder_filters:
        return {}
    keys = {s.index: conjunct_key(s.conjunct.conjunct, plan.filter_schema) for s in steps}
    return {index: key for index, key in keys.items() if key is not None}


class _Handles:
    """Files of a scan: opened once one of a file's tasks needs bytes, closed after the last."""

    def __init__(self, plan: ReadPlan) -> None:
        self._storage = plan.storage
        self._lock = threading.Lock()
        self._files: dict[FileVersion, OpenFile] = {}
        self._tasks_left: dict[FileVersion, int] = {}
        for task in plan.tasks:
            version = task.file.version
            self._tasks_left[version] = self._tasks_left.get(version, 0) + 1

    def open(self, version: FileVersion) -> OpenFile:
        with self._lock:
            file = self._files.get(version)
            if file is None:
                file = self._files[version] = LazyFile(self._storage, version)
            return file

    def release(self, version: FileVersion) -> None:
        with self._lock:
            self._tasks_left[version] -= 1
            if not self._tasks_left[version] and version in self._files:
                self._files.pop(version).close()

    def close(self) -> None:
        with self._lock:
            for file in self._files.values():
                file.close()
            self._files.clear()
