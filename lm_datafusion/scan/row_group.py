"""One row group, late: filter columns first, the rest only for the rows that survive.

In: a row group that statistics left over. Out: record batches of its matching rows.

For each window, with `selection` the rows still possible:

1. for each filter step, in the best order known: read its columns for the rows it must be
   evaluated on, evaluate, narrow the selection (`and_then`); stop at the first empty one;
2. read the projected columns for the rows left.

Predicates on dictionary-coded columns are evaluated once per value of the dictionary, and the
codes of the rows look the answer up.

Invariant: a column is decoded at most once per page, and not at all for rows that an earlier
step dropped with their whole page.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lm_datafusion.formats.parquet.decode import RowGroupDecoder
from lm_datafusion.formats.parquet.splice import can_splice
from lm_datafusion.predicate.evaluator import EvaluationError
from lm_datafusion.predicate.kinds import is_text_or_bytes
from lm_datafusion.scan.columns import ColumnCursor, read_columns
from lm_datafusion.scan.known_rows import KnownRows
from lm_datafusion.scan.prune import DictionaryPasses, PruningContext, prune_row_group
from lm_datafusion.scan.windows import plan_windows
from lm_datafusion.selection import RowSelection
from lm_datafusion.selection.filters import filter_to_mask

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from lm_datafusion.plan import FilterStep, ReadPlan, RowGroupAccess, RowGroupTask
    from lm_datafusion.scan.adaptive_order import AdaptiveOrder
    from lm_datafusion.storage import OpenFile

    Values: TypeAlias = pa.Array | pa.ChunkedArray
    Filter: TypeAlias = pa.BooleanArray | npt.NDArray[np.bool_]


class RowGroupScan:
    """Scans one row group."""

    def __init__(
        self,
        plan: ReadPlan,
        task: RowGroupTask,
        context: PruningContext,
        order: AdaptiveOrder,
        files: tuple[OpenFile, OpenFile],
    ) -> None:
        self._plan = plan
        self._context = context
        self._order = order
        self._data_file, self._index_file = files
        self._task = task
        self._passes: DictionaryPasses = {}
        self._known = KnownRows(task.access, context)
        self._decoder = RowGroupDecoder(
            context.facts,
            task.access.row_group,
            self._data_file,
            self._index_file,
            context.metrics,
        )
        self._cursors: dict[str, ColumnCursor] = {}

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The matching rows."""
        access = self._known.narrowed()
        access = prune_row_group(access, self._context, self._index_file, self._passes)
        if access.undecided and access.is_fully_matched and not access.is_skipped:
            self._context.metrics.add(row_groups_fully_matched=1)
        self._note_filter_pages(access)
        try:
            if not access.is_skipped:
                yield from self._scan(access)
            self._data_file.check_unchanged()
            self._known.keep(access)
        finally:
            self._decoder.finish()

    def _scan(self, access: RowGroupAccess) -> Iterator[pa.RecordBatch]:
        names = self._columns_in_play(access)
        self._cursors = {name: self._cursor(name) for name in names}
        columns = [c.column for c in self._cursors.values() if c.column is not None]
        chunks = [
            chunk
            for column in columns
            for chunk in self._context.facts.chunks_of(access.row_group, column)
        ]
        windows = plan_windows(
            access.row_count,
            chunks,
            self._index_file,
            window_bytes=self._plan.options.window_bytes,
        )
        for start, stop in windows:
            window = RowSelection.from_consecutive_ranges([(start, stop)], access.row_count)
            selection = (
                access.selection.intersection(window) if len(windows) > 1 else (access.selection)
            )
            selection = self._filter(selection, access, stop)
            self._known.note_window(selection, stop - start)
            if selection.selects_any():
                yield from self._project(selection, stop)
            for cursor in self._cursors.values():
                cursor.narrow(RowSelection.none(access.row_count), stop)

    def _columns_in_play(self, access: RowGroupAccess) -> list[str]:
        filtering = [
            name
            for step in self._plan.row_filter.steps
            if access.is_undecided(step.index)
            for name in step.conjunct.columns
        ]
        return list(dict.fromkeys([*filtering, *self._plan.schema.names]))

    def _cursor(self, name: str) -> ColumnCursor:
        field = self._plan.filter_schema.field(name)
        column = self._task.file.columns.get(name)
        if column is None:
            return ColumnCursor(name, field.type, constant=self._task.file.constants.get(name))
        return ColumnCursor(
            name,
            field.type,
            column=column,
            is_encoded=self._can_encode(column),
            path=self._task.file.version.path,
        )

    def _can_encode(self, column: int) -> bool:
        """Whether a column is text whose chunk is all dictionary: then codes are read."""
        field_type = self._context.facts.schema.field(column).type
        chunks = self._context.facts.chunks_of(self._task.access.row_group, column)
        return (
            is_text_or_bytes(field_type)
            and len(chunks) == 1
            and can_splice(chunks[0])
            and chunks[0].is_all_dictionary(self._index_file)
        )

    def _note_filter_pages(self, access: RowGroupAccess) -> None:
        """Counts the pages that the page index decided about."""
        if access.selection.selects_all():
            return
        for step in self._plan.row_filter.steps:
            if self._known.is_decided(step.index):
                continue
            for name in step.conjunct.columns:
                column = self._task.file.columns.get(name)
                if column is not None:
                    self._decoder.note_pages(column)

    def _filter(self, selection: RowSelection, access: RowGroupAccess, stop: int) -> RowSelection:
        """Narrows a window's selection step by step."""
        steps = self._order.permutation()
        is_first = True
        for place, step in enumerate(steps):
            if not selection.selects_any():
                break
            undecided = access.undecided[step.index]
            wanted = selection if undecided.selects_all() else selection.intersection(undecided)
            if not wanted.selects_any():
                continue
            later = {n for s in steps[place + 1 :] for n in s.conjunct.columns}
            passed = self._run_step(step, wanted, stop, later)
            selection = (
                selection.difference(wanted).union(passed) if wanted != selection else (passed)
            )
            if is_first:
                self._known.note_first_step(step.index, selection)
                is_first = False
            for cursor in self._cursors.values():
                cursor.narrow(selection, stop)
        return selection

    def _run_step(
        self, step: FilterStep, wanted: RowSelection, stop: int, later: set[str]
    ) -> RowSelection:
        """Evaluates one step on the rows it is wanted for; the rows that pass."""
        started = time.perf_counter()
        cursors = [self._cursors[name] for name in step.conjunct.columns]
        values = read_columns(cursors, wanted, self._decoder, stop)
        answers = self._evaluate(step, cursors, values, wanted.row_count)
        passed = wanted.and_then(RowSelection.from_filters(answers))
        for cursor, array in zip(cursors, values, strict=True):
            is_needed = cursor.name in later or cursor.name in self._plan.schema.names
            if is_needed and cursor.column is not None:
                cursor.replace_held(wanted, array, stop)
        elapsed_s = time.perf_counter() - started
        counts = {"rows_in": wanted.row_count, "rows_out": passed.row_count}
        self._order.observe(step, **counts, elapsed_s=elapsed_s)
        self._context.metrics.add_step(str(step.conjunct), **counts, elapsed_s=elapsed_s)
        return passed

    def _evaluate(
        self,
        step: FilterStep,
        cursors: Sequence[ColumnCursor],
        values: Sequence[Values],
        row_count: int,
    ) -> list[Filter]:
        if (
            len(cursors) == 1
            and cursors[0].is_encoded
            and isinstance(values[0], pa.DictionaryArray)
        ):
            mask = self._evaluate_encoded(step, cursors[0], values[0])
            if mask is not None:
                return [mask]
        arrays = [c.to_table_type(v) for c, v in zip(cursors, values, strict=True)]
        # Nullability is part of what DataFusion folds by.
        fields = [self._plan.filter_schema.field(cursor.name) for cursor in cursors]
        return evaluate_arrays(step, arrays, fields, row_count)

    def _evaluate_encoded(
        self, step: FilterStep, cursor: ColumnCursor, values: pa.DictionaryArray
    ) -> npt.NDArray[np.bool_] | None:
        """Evaluates on the dictionary; None where that is no gain, or fails on a value."""
        dictionary = values.dictionary
        passes = self._passes.get(step.index)
        if passes is None:
            if step.conjunct.conjunct.is_volatile or len(dictionary) >= len(values):
                return None
            every = pa.concat_arrays([dictionary, pa.nulls(1, dictionary.type)])
            try:
                field = pa.field(cursor.name, cursor.data_type)
                answers = evaluate_arrays(step, [cursor.to_table_type(every)], [field], len(every))
            except EvaluationError:
                # Perhaps on a value that no row left holds.
                return None
            passes = np.concatenate([filter_to_mask(answer) for answer in answers])
            self._passes[step.index] = passes
        if len(passes) != len(dictionary) + 1:
            return None
        self._context.metrics.add(dictionary_evaluations=1)
        codes = values.indices
        if codes.null_count:
            codes = pc.fill_null(codes, len(dictionary))
        return passes.take(codes.to_numpy())

    def _project(self, selection: RowSelection, stop: int) -> Iterator[pa.RecordBatch]:
        schema = self._plan.schema
        self._context.metrics.add(rows_selected=selection.row_count)
        cursors = [self._cursors[name] for name in schema.names]
        values = read_columns(cursors, selection, self._decoder, stop)
        self._data_file.check_unchanged()
        if not cursors:
            yield from _counted_batches(selection.row_count, self._plan.options.batch_rows)
            return
        arrays = [c.to_table_type(v) for c, v in zip(cursors, values, strict=True)]
        table = pa.Table.from_arrays(arrays, schema=schema)
        yield from table.to_batches(max_chunksize=self._plan.options.batch_rows)


def evaluate_arrays(
    step: FilterStep, arrays: Sequence[Values], fields: Sequence[pa.Field], row_count: int
) -> list[Filter]:
    """Evaluates a step on arrays of its columns; answers for one stretch of rows after another."""
    if not fields:
        # A conjunct without columns: rows are all that counts.
        rows = pa.nulls(row_count)
        return [step.conjunct.evaluate(pa.record_batch([rows], names=[""]))]
    table = pa.Table.from_arrays(list(arrays), schema=pa.schema(fields))
    return [step.conjunct.evaluate(batch) for batch in table.to_batches()]


def _counted_batches(row_count: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Batches without columns that know how many rows they have."""
    for start in range(0, row_count, batch_rows):
        rows = pa.nulls(min(batch_rows, row_count - start))
        yield pa.record_batch([rows], names=["rows"]).select([])
