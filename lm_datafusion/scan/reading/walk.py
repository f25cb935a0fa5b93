"""Scans one row group from end to end.

In: a reader of a row group. Out: record batches of its matching rows, in plan order.

A reverse scan takes windows from the last to the first. Pages cannot be decoded backwards, so
each window is decoded forwards and its rows are reversed.

A scan with a limit begins with the smallest possible window and sizes the next by the rows that
passed. It ends once enough rows are found, and projects no more rows than are missing.

Invariant: rows come in file order or in exactly the reverse.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from lm_datafusion.scan.reading.batches import counted_batches, reverse_values, sliced
from lm_datafusion.scan.reading.windows import WindowWalk, count_windows, page_edges, plan_edges
from lm_datafusion.selection import RowSelection

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt
    import pyarrow as pa

    from lm_datafusion.plan import ReadPlan, RowGroupAccess
    from lm_datafusion.scan.reading.batches import BatchMaker
    from lm_datafusion.scan.reading.fetching import UnitFetch
    from lm_datafusion.scan.reading.limit import RowBudget
    from lm_datafusion.scan.reading.row_group import RowGroupReader
    from lm_datafusion.storage import Round


class RowGroupScan:
    """Scans what a reader reads; `task_index` is the index of its first task in the plan."""

    def __init__(
        self,
        plan: ReadPlan,
        reader: RowGroupReader,
        batches: BatchMaker,
        task_index: int,
        budget: RowBudget | None,
        fetch: UnitFetch | None = None,
    ) -> None:
        self._plan = plan
        self._batches = batches
        self._reader = reader
        self._task_index = task_index
        self._budget = budget
        self._fetch = fetch

    def batches(self) -> Iterator[pa.RecordBatch | Round]:
        """The matching rows; between them, the rounds that a store has to answer first."""
        try:
            access = self._reader.open()
            if self._budget is not None:
                self._budget.begin(self._task_index, access.selection.row_count)
            if not access.is_skipped:
                yield from self._walk(access)
            # That nothing matched or was left to read must hold for the planned version.
            self._reader.check_read()
            if self._budget is None:
                self._reader.keep_known()
        finally:
            self._reader.finish()
            if self._fetch is not None:
                self._fetch.release()

    def _walk(self, access: RowGroupAccess) -> Iterator[pa.RecordBatch | Round]:
        # The columns that decide how far the scan goes: the filter's, if there is one.
        names = self._reader.filter_columns() or list(self._plan.names)
        walk, most_rows = self._windows(access, names)
        last_rows = 0
        while (window := walk.next_window(self._window_rows(last_rows, most_rows))) is not None:
            last_rows = window.row_count
            if self._fetch is not None:
                yield from self._fetch.for_filter(window)
            selection = self._kept(self._reader.filter(window))
            self._reader.note_window(selection, last_rows)
            if self._budget is not None:
                self._budget.note(self._task_index, visited=last_rows, found=selection.row_count)
            if self._fetch is not None:
                yield from self._fetch.for_projection(selection)
            if selection.selects_any():
                yield from self._project(selection)
            if self._budget is not None and not self._budget.missing(self._task_index):
                self._reader.early_stop(walk.ahead, names)
                return
            self._reader.release()
            if self._fetch is not None:
                self._fetch.release()

    def _windows(self, access: RowGroupAccess, names: list[str]) -> tuple[WindowWalk, int]:
        """The windows, and the most rows one may have."""
        window_bytes = self._plan.options.window_bytes
        chunk_bytes = self._reader.largest_chunk_bytes
        count = count_windows(access.row_count, chunk_bytes, window_bytes=window_bytes)
        edges: npt.NDArray[np.int64]
        if self._budget is None and not self._plan.is_reverse:
            edges = self._plain_edges(access.row_count, count, names)
        else:
            self._reader.note_pages(names)
            walked = self._reader.chunks(names)
            edges = page_edges(access.row_count, walked, self._reader.index_file)
        walk = WindowWalk(access.selection, edges, is_reverse=self._plan.is_reverse)
        return walk, max(1, access.row_count // count)

    def _plain_edges(self, row_count: int, count: int, names: list[str]) -> npt.NDArray[np.int64]:
        """The edges of the windows: a single window for all row groups, if it is small enough."""
        # While the order of filter steps is being learned, small windows teach more.
        if count == 1 and self._reader.is_order_known:
            return np.array([0, row_count], dtype=np.int64)
        every = dict.fromkeys([*names, *self._plan.names])
        window_bytes = self._plan.options.window_bytes
        edges = []
        for index, (start, stop) in enumerate(itertools.pairwise(self._reader.borders)):
            chunks = self._reader.chunks(every, index)
            size = max((chunk.uncompressed_bytes for chunk in chunks), default=0)
            parts = count_windows(stop - start, size, window_bytes=window_bytes)
            edges.append(start + plan_edges(stop - start, parts, chunks, self._reader.index_file))
        return np.unique(np.concatenate(edges))

    def _window_rows(self, last_rows: int, most_rows: int) -> int:
        if self._budget is not None:
            return min(most_rows, self._budget.window_rows(self._task_index, last_rows))
        if not self._plan.is_reverse:
            return 1  # every edge is the end of a window
        # Small windows first for a quick first result, large ones later for fewer calls.
        return most_rows if self._task_index else min(most_rows, 2 * last_rows)

    def _kept(self, selection: RowSelection) -> RowSelection:
        """The rows that are still missing, the first ones in plan order."""
        if self._budget is None:
            return selection
        missing = self._budget.missing(self._task_index)
        if self._plan.is_reverse:
            return selection.offset(max(0, selection.row_count - missing))
        return selection.limit(missing)

    def _project(self, selection: RowSelection) -> Iterator[pa.RecordBatch]:
        names, batch_rows = self._plan.names, self._plan.options.batch_rows
        if self._budget is None:
            # With a limit, rows are counted when they are yielded: another worker may be faster.
            self._reader.context.metrics.add(rows_selected=selection.row_count)
        if not names:
            self._reader.check_unchanged()
            yield from counted_batches(selection.row_count, batch_rows)
            return
        portion_rows = self._reader.context.facts.portion_rows(batch_rows)
        for part in _split(selection, portion_rows, is_reverse=self._plan.is_reverse):
            values = self._reader.read(names, part)
            self._reader.check_unchanged()
            if self._plan.is_reverse:
                values = [reverse_values(array) for array in values]
            for batch in self._batches.make(values):
                yield from sliced(batch, batch_rows)


def _split(rows: RowSelection, most_rows: int, *, is_reverse: bool) -> list[RowSelection]:
    """Splits rows into parts of `most_rows`, decoded one at a time; in reverse, last part first."""
    if rows.row_count <= most_rows:
        return [rows]
    count = rows.row_count
    if is_reverse:
        cuts = [(max(0, stop - most_rows), stop) for stop in range(count, 0, -most_rows)]
    else:
        cuts = [(start, min(count, start + most_rows)) for start in range(0, count, most_rows)]
    if rows.selector_count <= 3:  # noqa: PLR2004 a run, and what comes before and after it
        starts, _ = rows.to_ranges()
        if len(starts) == 1:
            first, total = int(starts[0]), rows.total_rows
            runs = [(first + start, first + stop) for start, stop in cuts]
            return [RowSelection.from_consecutive_ranges([run], total) for run in runs]
    numbers = rows.to_rows()
    if numbers is None:
        numbers = rows.to_indices().astype(np.int32)
    return [RowSelection.from_rows(numbers[a:b], rows.total_rows) for a, b in cuts]
