"""One row group, late: filter columns first, the rest only for the rows that survive.

In: a row group that statistics left over, or several that are read as one (`scan.bundle`), and
windows of its rows. Out: the rows of a window that match, and values of columns for them.

For each window, with `selection` the rows still possible:

1. for each filter step, in the best order known: read its columns for the rows it must be
   evaluated on, evaluate, narrow the selection (`and_then`); stop at the first empty one;
2. read the projected columns for the rows left.

Predicates on dictionary-coded columns are evaluated once per value of the dictionary, and the
codes of the rows look the answer up.

Invariant: a column is decoded at most once per page, and not at all for rows that an earlier
step dropped with their whole page; windows may come in any order.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lm_datafusion.formats.parquet.decode import RowGroupDecoder
from lm_datafusion.predicate.evaluator import EvaluationError
from lm_datafusion.scan.apply import Applier, batches_of
from lm_datafusion.scan.bundle import Bundle, is_all_codes, open_row_group
from lm_datafusion.scan.columns import ColumnCursor, read_columns
from lm_datafusion.scan.prune import PruningContext, plain_passes
from lm_datafusion.selection import RowSelection
from lm_datafusion.selection.filters import filter_to_mask

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from lm_datafusion.formats.parquet.chunk import ChunkFacts
    from lm_datafusion.plan import FilterStep, ReadPlan, RowGroupAccess, RowGroupTask
    from lm_datafusion.scan.adaptive_order import AdaptiveOrder
    from lm_datafusion.scan.prune import DictionaryPasses
    from lm_datafusion.storage import OpenFile

    Values: TypeAlias = pa.Array | pa.ChunkedArray
    Filter: TypeAlias = pa.BooleanArray | npt.NDArray[np.bool_]


class RowGroupReader:
    """Reads one row group, or several as one, window by window."""

    def __init__(
        self,
        plan: ReadPlan,
        tasks: Sequence[RowGroupTask],
        context: PruningContext,
        order: AdaptiveOrder,
        files: tuple[OpenFile, OpenFile],
    ) -> None:
        self._plan = plan
        self._context = context
        self._order = order
        self._data_file, self._index_file = files
        self._tasks = tasks
        self._decoder = self._make_decoder(())
        self._applier = Applier()
        self._cursors: dict[str, ColumnCursor] = {}
        self._bundle: Bundle | None = None

    @property
    def context(self) -> PruningContext:
        """What is known of the file, and where things are counted."""
        return self._context

    @property
    def task(self) -> RowGroupTask:
        """The row group; the first of several."""
        return self._tasks[0]

    @property
    def row_groups(self) -> tuple[int, ...]:
        """The row groups in which pruning has left something."""
        return () if self._bundle is None else self._bundle.row_groups

    @property
    def index_file(self) -> OpenFile:
        """The file, for what counts as metadata."""
        return self._index_file

    def open(self, extra: Sequence[str] = ()) -> RowGroupAccess:
        """Prunes, and makes ready to read; the rows left, and what is undecided of them.

        Args:
            extra: Columns that will be read beside those of the filter and the projection.
        """
        bundle = self._bundle = Bundle(
            [open_row_group(task, self._context, self._index_file) for task in self._tasks]
        )
        self._decoder = self._make_decoder(bundle.row_groups)
        self._note_filter_pages(bundle)
        if len(bundle.left) > 1:
            self._context.metrics.add(row_groups_bundled=len(bundle.left))
        if bundle.left:
            names = dict.fromkeys([*self.filter_columns(), *self._plan.schema.names, *extra])
            self._cursors = {name: self._cursor(name) for name in names}
        return bundle.access

    def finish(self) -> None:
        """Adds the page counters to the metrics."""
        self._decoder.finish(is_part=self.task.is_part)

    def note_window(self, selection: RowSelection, row_count: int) -> None:
        """What the filter has left of a window of so many rows, for the condition cache."""
        assert self._bundle is not None
        self._bundle.note_window(selection, row_count)

    def keep_known(self) -> None:
        """Teaches the condition cache; to be called once every window has been filtered."""
        assert self._bundle is not None
        self._data_file.check_unchanged()
        self._bundle.keep()

    def fork(self) -> RowGroupReader:
        """A reader of the same rows, opened already, for another thread."""
        files = (self._data_file, self._index_file)
        other = RowGroupReader(self._plan, self._tasks, self._context, self._order, files)
        other._decoder = self._decoder.fork()
        other._bundle = self._bundle
        other._cursors = {name: other._cursor(name) for name in self._cursors}
        return other

    def join(self, other: RowGroupReader) -> None:
        """Takes over what a fork counted."""
        self._decoder.join(other._decoder)

    def _make_decoder(self, row_groups: tuple[int, ...]) -> RowGroupDecoder:
        context = self._context
        return RowGroupDecoder(
            context.facts, row_groups, self._data_file, self._index_file, context.metrics
        )

    def filter_columns(self) -> list[str]:
        """Columns of the conjuncts that are undecided."""
        bundle = self._bundle
        names = [
            name
            for step in self._plan.row_filter.steps
            if bundle is None or bundle.access.is_undecided(step.index)
            for name in step.conjunct.columns
        ]
        return list(dict.fromkeys(names))

    def chunks(self, names: Iterable[str]) -> list[ChunkFacts]:
        """The column chunks of some columns, of those that the file stores.

        Of several row groups those of the first: together they fit one window, so none is cut.
        """
        columns = [self.task.file.columns.get(name) for name in names]
        facts = self._context.facts
        row_group = self.row_groups[0] if self.row_groups else self.task.access.row_group
        return [
            c
            for column in columns
            if column is not None
            for c in facts.chunks_of(row_group, column)
        ]

    def note_pages(self, names: Iterable[str]) -> None:
        """Counts the pages of some columns among those the scan decided about."""
        for row_group in self.row_groups:
            self._note_pages(names, row_group)

    def _note_pages(self, names: Iterable[str], row_group: int) -> None:
        for name in names:
            column = self.task.file.columns.get(name)
            if column is not None:
                self._decoder.note_pages(column, row_group)

    def leave(self, ahead: RowSelection) -> None:
        """A window is done: lets go of everything but rows ahead."""
        nothing = RowSelection.none(ahead.total_rows)
        for cursor in self._cursors.values():
            cursor.narrow(nothing, ahead)

    def read(
        self, names: Sequence[str], selection: RowSelection, ahead: RowSelection
    ) -> list[Values]:
        """Columns of selected rows of the window, as they are stored."""
        cursors = [self._cursors[name] for name in names]
        return read_columns(cursors, selection, self._decoder, ahead)

    def keep(self, name: str, selection: RowSelection, values: Values, ahead: RowSelection) -> None:
        """Keeps values of the window that will be read again."""
        cursor = self._cursors[name]
        if cursor.column is not None:
            cursor.replace_held(selection, values, ahead)

    def to_table_types(self, names: Sequence[str], values: Sequence[Values]) -> list[Values]:
        """Values as the table has them."""
        return [
            self._cursors[name].to_table_type(array)
            for name, array in zip(names, values, strict=True)
        ]

    def check_unchanged(self) -> None:
        """Raises if the file is not the one that was planned for."""
        self._data_file.check_unchanged()

    def early_stop(self, ahead: RowSelection, names: Iterable[str]) -> None:
        """Counts the pages of some columns that would have been read if the scan had gone on."""
        if not ahead.selects_any() or self._bundle is None:
            return
        seen = self._bundle.access.selection.difference(ahead)
        pages = 0
        for chunk in self.chunks(names):
            table = chunk.load_pages(self._index_file)
            if table is not None:
                first_rows = table.locations.first_rows
                pages += int((ahead.page_mask(first_rows) & ~seen.page_mask(first_rows)).sum())
        self._context.metrics.add(pages_pruned_early_stop=pages)

    def _cursor(self, name: str) -> ColumnCursor:
        field = self._plan.filter_schema.field(name)
        file = self.task.file
        column = file.columns.get(name)
        if column is None:
            return ColumnCursor(name, field.type, constant=file.constants.get(name))
        return ColumnCursor(
            name,
            field.type,
            column=column,
            is_encoded=is_all_codes(self._context.facts, self.row_groups, column, self._index_file),
            path=file.version.path,
            applier=self._applier,
        )

    def _note_filter_pages(self, bundle: Bundle) -> None:
        """Counts the pages that the page index decided about."""
        for group in bundle.opened:
            if group.access.selection.selects_all():
                continue
            for step in self._plan.row_filter.steps:
                if not group.known.is_decided(step.index):
                    self._note_pages(step.conjunct.columns, group.access.row_group)

    def filter(self, selection: RowSelection, ahead: RowSelection) -> RowSelection:
        """Narrows a window's selection step by step."""
        bundle = self._bundle
        assert bundle is not None
        steps = self._order.permutation()
        is_first = True
        for place, step in enumerate(steps):
            if not selection.selects_any():
                break
            undecided = bundle.access.undecided[step.index]
            wanted = selection if undecided.selects_all() else selection.intersection(undecided)
            if not wanted.selects_any():
                continue
            later = {n for s in steps[place + 1 :] for n in s.conjunct.columns}
            passed = self._run_step(step, wanted, ahead, later)
            selection = (
                selection.difference(wanted).union(passed) if wanted != selection else passed
            )
            if is_first:
                bundle.note_first_step(step.index, selection)
                is_first = False
            for cursor in self._cursors.values():
                cursor.narrow(selection, ahead)
        return selection

    def _run_step(
        self, step: FilterStep, wanted: RowSelection, ahead: RowSelection, later: set[str]
    ) -> RowSelection:
        """Evaluates one step on the rows it is wanted for; the rows that pass."""
        started, rows_before = time.perf_counter(), self._decoder.rows_decoded
        cursors = [self._cursors[name] for name in step.conjunct.columns]
        values = read_columns(cursors, wanted, self._decoder, ahead)
        decoded = time.perf_counter()
        answers = self._evaluate(step, cursors, values, wanted)
        among = RowSelection.from_filters(answers)
        passed = wanted.and_then(among)
        self._applier.tell(passed, wanted, among, answers)
        evaluated = time.perf_counter()
        for cursor, array in zip(cursors, values, strict=True):
            is_needed = cursor.name in later or cursor.name in self._plan.schema.names
            if is_needed and cursor.column is not None:
                cursor.replace_held(wanted, array, ahead)
        elapsed_s = time.perf_counter() - started
        counts = {"rows_in": wanted.row_count, "rows_out": passed.row_count}
        self._order.observe(
            step,
            **counts,
            rows_decoded=(self._decoder.rows_decoded - rows_before) // max(1, len(cursors)),
            decode_s=decoded - started,
            evaluate_s=evaluated - decoded,
        )
        self._context.metrics.add_step(str(step.conjunct), **counts, elapsed_s=elapsed_s)
        return passed

    def _evaluate(
        self,
        step: FilterStep,
        cursors: Sequence[ColumnCursor],
        values: Sequence[Values],
        wanted: RowSelection,
    ) -> list[Filter]:
        if len(cursors) == 1 and cursors[0].is_encoded and pa.types.is_dictionary(values[0].type):
            masks = self._evaluate_encoded(step, cursors[0], values[0], wanted)
            if masks is not None:
                return masks
        if len(cursors) == 1 and cursors[0].column is not None:
            answer = step.conjunct.answer(values[0])
            if answer is not None:
                return [answer]
        arrays = [c.to_table_type(v) for c, v in zip(cursors, values, strict=True)]
        # Nullability is part of what DataFusion folds by.
        fields = [self._plan.filter_schema.field(cursor.name) for cursor in cursors]
        return evaluate_arrays(step, arrays, fields, wanted.row_count)

    def _evaluate_encoded(
        self, step: FilterStep, cursor: ColumnCursor, values: Values, wanted: RowSelection
    ) -> list[Filter] | None:
        """Evaluates on dictionaries; None where that is no gain, or fails on a value."""
        chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
        known = self._known_passes(chunks, wanted)
        unknown = [
            len(chunk.dictionary)
            for chunk, passes in zip(chunks, known, strict=True)
            if step.index not in passes
        ]
        if unknown and (step.conjunct.conjunct.is_volatile or sum(unknown) >= len(values)):
            return None
        masks: list[Filter] = []
        for chunk, passes in zip(chunks, known, strict=True):
            if step.index not in passes:
                try:
                    passes[step.index] = self._evaluate_dictionary(step, cursor, chunk.dictionary)
                except EvaluationError:
                    # Perhaps on a value that no row left holds.
                    return None
            if len(passes[step.index]) != len(chunk.dictionary) + 1:
                return None
            masks.append(_looked_up(chunk, passes[step.index]))
        self._context.metrics.add(dictionary_evaluations=len(masks))
        return masks

    def _known_passes(
        self, chunks: Sequence[pa.DictionaryArray], wanted: RowSelection
    ) -> list[DictionaryPasses]:
        """By chunk of values: what is known of its dictionary, to be added to."""
        assert self._bundle is not None
        left = self._bundle.left
        if len(left) == len(chunks) == 1:
            return [left[0].passes]
        # Which row group a chunk is of shows only where all rows are there.
        if wanted.selects_all() and [len(chunk) for chunk in chunks] == self._bundle.row_counts:
            return [group.passes for group in left]
        return [{} for _ in chunks]

    def _evaluate_dictionary(
        self, step: FilterStep, cursor: ColumnCursor, dictionary: pa.Array
    ) -> npt.NDArray[np.bool_]:
        """Which values pass, and last whether null does."""
        plain = plain_passes(step.conjunct, dictionary)
        if plain is not None:
            return plain
        every = pa.concat_arrays([dictionary, pa.nulls(1, dictionary.type)])
        field = pa.field(cursor.name, cursor.data_type)
        answers = evaluate_arrays(step, [cursor.to_table_type(every)], [field], len(every))
        return np.concatenate([filter_to_mask(answer) for answer in answers])


def _looked_up(values: pa.DictionaryArray, passes: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which of the values pass, by their codes."""
    codes = values.indices
    if codes.null_count:
        codes = pc.fill_null(codes, len(values.dictionary))
    # By bytes, and by Arrow: numpy would hold the GIL, and bits take Arrow twice as long.
    answers = pa.array(passes.view(np.uint8)).take(codes)
    return answers.to_numpy().view(np.bool_)


def evaluate_arrays(
    step: FilterStep, arrays: Sequence[Values], fields: Sequence[pa.Field], row_count: int
) -> list[Filter]:
    """Evaluates a step on arrays of its columns; answers for one stretch of rows after another."""
    if not fields:
        # A conjunct without columns: rows are all that counts.
        rows = pa.nulls(row_count)
        return [step.conjunct.evaluate(pa.record_batch([rows], names=[""]))]
    table = pa.Table.from_arrays(list(arrays), schema=pa.schema(fields))
    return [step.conjunct.evaluate(batch) for batch in batches_of(table)]
