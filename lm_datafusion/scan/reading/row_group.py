"""One row group, late: filter columns first, the rest only for the rows that survive.

In: a row group that statistics left over, and windows of its rows. Out: the rows of a window that
match, and values of columns for them.

For each window, with `rows` those still possible:

1. for each filter step, in the best order known: kernels test its column where it stands; or its
   columns are read and DataFusion evaluates them. Stop at the first step that leaves nothing;
2. read the projected columns for the rows left.

Conditions on dictionary-coded columns are evaluated once per value of the dictionary, and the codes
of the rows look the answer up.

Invariant: of every column, exactly the rows asked for are handed out; a page is not decoded for
rows that an earlier step dropped. Windows may come in any order.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from lm_datafusion.formats.parquet.decode import PageDecoder
from lm_datafusion.predicate.evaluator import EvaluationError
from lm_datafusion.scan.memory.stage_outcomes import Stage
from lm_datafusion.scan.pruning.known_rows import KnownRows, PassedRows
from lm_datafusion.scan.pruning.prune import PruningContext, evaluate_dictionary, prune_row_group
from lm_datafusion.scan.reading.batches import batches_of
from lm_datafusion.scan.reading.columns import Column
from lm_datafusion.selection import RowSelection

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from lm_datafusion.formats.parquet.chunk import ChunkFacts
    from lm_datafusion.plan import FilterStep, ReadPlan, RowGroupAccess, RowGroupTask
    from lm_datafusion.predicate.tree import Predicate
    from lm_datafusion.scan.pruning.prune import DictionaryPasses
    from lm_datafusion.scan.reading.adaptive_order import AdaptiveOrder
    from lm_datafusion.storage import OpenFile

    Values: TypeAlias = pa.Array | pa.ChunkedArray


# Values of a dictionary about which answers are kept for later scans.
SMALL_DICTIONARY: Final = 1024


class RowGroupReader:
    """Reads one row group, window by window."""

    def __init__(
        self,
        plan: ReadPlan,
        task: RowGroupTask,
        context: PruningContext,
        order: AdaptiveOrder,
        files: tuple[OpenFile, OpenFile],
    ) -> None:
        self._plan = plan
        self.task = task
        self.context = context
        self._order = order
        self._files = files
        self.access = task.access
        self._known = KnownRows(task.access, context, task.rows)
        self._passed = PassedRows()
        self._passes: DictionaryPasses = {}
        self._columns: dict[str, Column] = {}
        self._spare: list[RowGroupReader] = []

    @property
    def index_file(self) -> OpenFile:
        """The file, for what counts as metadata."""
        return self._files[1]

    # ---- before and after ------------------------------------------------------------------

    def open(self, extra: Sequence[str] = ()) -> RowGroupAccess:
        """Prunes, and makes ready to read; the rows left, and what is undecided of them.

        Args:
            extra: Columns that will be read beside those of the filter and the projection.
        """
        access = prune_row_group(
            self._known.narrowed(),
            self.context,
            self.index_file,
            self._passes,
            is_counted=not self.task.is_part,
        )
        is_matched = access.undecided and access.is_fully_matched and not access.is_skipped
        if is_matched and not self.task.is_part:
            self.context.metrics.add(row_groups_fully_matched=1)
        if self.task.rows is not None:
            access = access.with_range(*self.task.rows)
        self.access = access
        if not access.selection.selects_all():
            self._note_filter_pages()
        if not access.is_skipped:
            for name in [*self.filter_columns(), *self._plan.schema.names, *extra]:
                self._column(name)
        return access

    def finish(self) -> None:
        """Adds the page counters to the metrics."""
        decoders = [c.decoder for c in self._columns.values() if c.decoder is not None]
        fetched = sum(decoder.pages_fetched for decoder in decoders)
        # Somebody else counts the pages of a part that nobody fetched.
        total = fetched if self.task.is_part else sum(d.pages_seen for d in decoders)
        self.context.metrics.add(
            pages_total=total, pages_pruned=max(0, total - fetched), pages_fetched=fetched
        )

    def note_window(self, rows: RowSelection, row_count: int) -> None:
        """What the filter has left of a window of so many rows, for the condition cache."""
        if self._known.is_kept:
            self._passed.note_window(rows, row_count)

    def keep_known(self) -> None:
        """Teaches the condition cache; to be called once every window has been filtered."""
        if not self._known.is_kept:
            return
        self.check_unchanged()
        if self.access.is_skipped:
            self._known.keep_pruned(self.access)
        else:
            found = self._passed.of_all(self.access.selection)
            if found is not None:
                after_first, passed = found
                self._known.keep(
                    self.access,
                    first_steps=self._passed.first_steps,
                    after_first=after_first,
                    passed=passed,
                )

    def fork(self) -> RowGroupReader:
        """A reader of the same rows, opened already, for another thread; `join` gives it back."""
        if self._spare:
            return self._spare.pop()
        other = RowGroupReader(self._plan, self.task, self.context, self._order, self._files)
        other.access = self.access
        other._passes = self._passes
        for name, column in self._columns.items():
            decoder = other._column(name).decoder
            if decoder is not None and column.decoder is not None:
                decoder.share_dictionary(column.decoder)
        return other

    def join(self, other: RowGroupReader) -> None:
        """Takes over what a fork counted."""
        for name, column in other._columns.items():
            own = self._columns[name]
            if own.decoder is not None and column.decoder is not None:
                own.decoder.join(column.decoder)
        self._spare.append(other)

    def check_unchanged(self) -> None:
        """Raises if the file is not the one that was planned for."""
        self._files[0].check_unchanged()

    # ---- columns ---------------------------------------------------------------------------

    def filter_columns(self) -> list[str]:
        """Columns of the conjuncts that are undecided."""
        names = [
            name
            for step in self._plan.row_filter.steps
            if self.access.is_undecided(step.index)
            for name in step.conjunct.columns
        ]
        return list(dict.fromkeys(names))

    def chunks(self, names: Iterable[str]) -> list[ChunkFacts]:
        """The column chunks of some columns, of those that the file stores."""
        columns = [self.task.file.columns.get(name) for name in names]
        facts, row_group = self.context.facts, self.access.row_group
        return [c for n in columns if n is not None for c in facts.chunks_of(row_group, n)]

    def note_pages(self, names: Iterable[str]) -> None:
        """Counts the pages of some columns among those the scan decided about."""
        for name in names:
            decoder = self._column(name).decoder
            if decoder is not None:
                decoder.locate()

    def read(self, names: Sequence[str], rows: RowSelection) -> list[Values]:
        """Columns of rows of the window, in the types of the table."""
        return [self._columns[name].read(rows) for name in names]

    def hold(self, name: str, rows: RowSelection, values: Values) -> None:
        """Keeps values of the window that will be read again."""
        self._columns[name].hold(rows, values)

    def release(self) -> None:
        """A window is done: lets go of what is held of it."""
        for column in self._columns.values():
            column.release()

    def early_stop(self, ahead: RowSelection, names: Iterable[str]) -> None:
        """Counts the pages of some columns that would have been read if the scan had gone on."""
        if not ahead.selects_any():
            return
        seen = self.access.selection.difference(ahead)
        pages = 0
        for chunk in self.chunks(names):
            table = chunk.load_pages(self.index_file)
            if table is not None:
                first_rows = table.locations.first_rows
                pages += int((ahead.page_mask(first_rows) & ~seen.page_mask(first_rows)).sum())
        self.context.metrics.add(pages_pruned_early_stop=pages)

    def _column(self, name: str) -> Column:
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = self._make_column(name)
        return column

    def _make_column(self, name: str) -> Column:
        field = self._plan.filter_schema.field(name)
        file = self.task.file
        index = file.columns.get(name)
        if index is None:
            return Column(name, field.type, constant=file.constants.get(name))
        decoder = PageDecoder(
            self.context.facts,
            self.access.row_group,
            index,
            field.type,
            self._files,
            self.context.metrics,
        )
        return Column(name, field.type, decoder=decoder, path=file.version.path)

    def _note_filter_pages(self) -> None:
        """Counts the pages that the page index decided about."""
        for step in self._plan.row_filter.steps:
            if not self._known.is_decided(step.index):
                self.note_pages(step.conjunct.columns)

    # ---- filter ----------------------------------------------------------------------------

    def filter(self, rows: RowSelection, decided: frozenset[int] = frozenset()) -> RowSelection:
        """Narrows the rows of a window step by step.

        Args:
            rows: Rows of the window.
            decided: Steps that all of them are known to meet.
        """
        steps = [step for step in self._order.permutation() if step.index not in decided]
        is_first = True
        for index, step in enumerate(steps):
            if not rows.selects_any():
                break
            undecided = self.access.undecided[step.index]
            wanted = rows if undecided.selects_all() else rows.intersection(undecided)
            if not wanted.selects_any():
                continue
            later = {name for s in steps[index + 1 :] for name in s.conjunct.columns}
            later.update(self._plan.schema.names)
            # What is held must cover all rows that are left, not only those that were undecided.
            is_whole = wanted.row_count == rows.row_count
            passed = self._run_step(step, wanted, later if is_whole else set())
            if is_whole:
                rows = passed
            elif passed.row_count < wanted.row_count:
                rows = rows.difference(undecided).union(passed)
            if is_first and self._known.is_kept:
                self._passed.note_first_step(step.index, rows)
            is_first = False
        return rows

    def _run_step(self, step: FilterStep, rows: RowSelection, later: set[str]) -> RowSelection:
        """Evaluates one step on rows; those that pass."""
        started = time.perf_counter()
        columns = [self._columns[name] for name in step.conjunct.columns]
        decoders = [column.decoder for column in columns if column.decoder is not None]
        rows_before = sum(decoder.rows_decoded for decoder in decoders)
        passed = self._test(step, columns, rows, later)
        decoded = time.perf_counter()
        if passed is None:
            values = [column.read(rows) for column in columns]
            decoded = time.perf_counter()
            answers = self._evaluate(step, columns, values, rows.row_count)
            passed = rows.and_then(RowSelection.from_filters(answers))
            for column, array in zip(columns, values, strict=True):
                if column.name in later:
                    column.hold(rows, array)
        evaluated = time.perf_counter()
        counts = {"rows_in": rows.row_count, "rows_out": passed.row_count}
        rows_decoded = sum(decoder.rows_decoded for decoder in decoders) - rows_before
        self._order.observe(
            step,
            **counts,
            rows_decoded=rows_decoded // max(1, len(columns)),
            decode_s=decoded - started,
            evaluate_s=evaluated - decoded,
        )
        self.context.metrics.add_step(str(step.conjunct), **counts, elapsed_s=evaluated - started)
        return passed

    def _test(
        self, step: FilterStep, columns: Sequence[Column], rows: RowSelection, later: set[str]
    ) -> RowSelection | None:
        """The rows that pass, tested by kernels on what the pages store; None if they cannot."""
        if len(columns) != 1 or columns[0].decoder is None or columns[0].is_held:
            return None
        column = columns[0]
        passes = self._dictionary_passes(step, column, rows)
        return column.test(rows, step.conjunct.tree, passes, is_held=column.name in later)

    def test(self, name: str, tree: Predicate, rows: RowSelection) -> RowSelection | None:
        """The rows whose column meets a condition, tested by kernels; None if they cannot.

        The values of those rows are held.
        """
        return self._columns[name].test(rows, tree, None, is_held=True)

    def _dictionary_passes(
        self, step: FilterStep, column: Column, rows: RowSelection
    ) -> npt.NDArray[np.bool_] | None:
        """Which values of the column's dictionary pass, where DataFusion has to be asked."""
        known = self._passes.get(step.index)
        assert column.decoder is not None
        if known is not None or column.decoder.can_test(step.conjunct.tree):
            return known
        if step.conjunct.conjunct.is_volatile or not column.decoder.is_all_dictionary():
            return None
        kept = self.context.recall(Stage.PASSES, step.index, self.access.row_group)
        if kept is not None and isinstance(kept[0], np.ndarray):
            return kept[0]
        values = column.decoder.load_dictionary()
        if values is None or len(values) >= rows.row_count:
            return None
        try:
            known = evaluate_dictionary(step.conjunct, column.name, column.data_type, values)
        except EvaluationError:
            # Perhaps on a value that no row left holds.
            return None
        self.context.metrics.add(dictionary_evaluations=1)
        self._passes[step.index] = known
        if len(known) <= SMALL_DICTIONARY:
            self.context.keep(Stage.PASSES, step.index, self.access.row_group, known)
        return known

    def _evaluate(
        self,
        step: FilterStep,
        columns: Sequence[Column],
        values: Sequence[Values],
        row_count: int,
    ) -> list[pa.BooleanArray]:
        if len(columns) == 1 and columns[0].decoder is not None:
            answer = step.conjunct.answer(values[0])
            if answer is not None:
                return [answer]
        if not columns:
            # Rows are all that counts.
            return [step.conjunct.evaluate(pa.record_batch([pa.nulls(row_count)], names=[""]))]
        # Nullability is part of what DataFusion folds by.
        fields = [self._plan.filter_schema.field(column.name) for column in columns]
        table = pa.Table.from_arrays(list(values), schema=pa.schema(fields))
        return [step.conjunct.evaluate(batch) for batch in batches_of(table)]
