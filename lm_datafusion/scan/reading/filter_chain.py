"""The filter chain of some row groups, run window by window.

In: the columns of row groups, and rows of a window. Out: the rows that meet every conjunct.

For each step, in the best order known, either kernels test the encoded column, or its columns are
read and DataFusion evaluates the condition. The chain ends at the first step that keeps no row.

Conditions on dictionary-encoded columns are evaluated once per dictionary value; rows look up the
answer by their code.

Invariant: a step sees only rows that passed every step before it. A column holds the values that a
later step or the projection needs.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from lm_datafusion.predicate.evaluator import EvaluationError
from lm_datafusion.scan.memory.stage_outcomes import Stage
from lm_datafusion.scan.pruning.prune import evaluate_dictionary
from lm_datafusion.scan.reading.batches import batches_of
from lm_datafusion.selection import RowSelection

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from lm_datafusion.plan import FilterStep, RowGroupAccess
    from lm_datafusion.scan.pruning.prune import DictionaryPasses, PruningContext
    from lm_datafusion.scan.reading.adaptive_order import AdaptiveOrder
    from lm_datafusion.scan.reading.columns import Column

    Values: TypeAlias = pa.Array | pa.ChunkedArray

# Answers about dictionaries of up to this many values are kept for later scans.
SMALL_DICTIONARY: Final = 1024


class FilterChain:
    """Runs the filter steps of a scan on rows of some row groups.

    Args:
        context: The file and the conjuncts.
        access: Which rows each conjunct is undecided about.
        columns: Every column that the steps read, by name.
        row_groups: Their numbers.
        passes: By row group and conjunct: which values of its column's dictionary pass, where
            known.
        order: The order of the steps.
        projected: Columns that will be read for the remaining rows.
    """

    def __init__(
        self,
        context: PruningContext,
        access: RowGroupAccess,
        columns: Mapping[str, Column],
        row_groups: Sequence[int],
        passes: Sequence[DictionaryPasses],
        *,
        order: AdaptiveOrder,
        projected: tuple[str, ...],
    ) -> None:
        self._context = context
        self._access = access
        self._columns = columns
        self._row_groups = row_groups
        self._passes = passes
        self._order = order
        self._projected = projected

    def run(
        self,
        rows: RowSelection,
        decided: frozenset[int] = frozenset(),
        on_first: Callable[[int, RowSelection], None] | None = None,
    ) -> RowSelection:
        """The rows of a window that pass.

        Args:
            rows: Rows of the window.
            decided: Steps that all of them are known to pass.
            on_first: Called with the first step that was evaluated and the rows it kept.
        """
        steps = self._order.permutation()
        if decided:
            steps = tuple(step for step in steps if step.index not in decided)
        for index, step in enumerate(steps):
            if not rows.selects_any():
                break
            undecided = self._access.undecided[step.index]
            wanted = rows if undecided.selects_all() else rows.intersection(undecided)
            if not wanted.selects_any():
                continue
            # Held values must cover all remaining rows, not only the undecided ones.
            is_whole = wanted.row_count == rows.row_count
            passed = self._run_step(step, wanted, steps[index + 1 :] if is_whole else None)
            if is_whole:
                rows = passed
            elif passed.row_count < wanted.row_count:
                rows = rows.difference(undecided).union(passed)
            if on_first is not None:
                on_first(step.index, rows)
                on_first = None
        return rows

    def _run_step(
        self, step: FilterStep, rows: RowSelection, later: Sequence[FilterStep] | None
    ) -> RowSelection:
        """Evaluates one step and returns the rows that pass.

        Args:
            step: The step.
            rows: Rows of the window.
            later: The steps after it; None if what it reads must not be held for them.
        """
        started = time.perf_counter()
        columns = [self._columns[name] for name in step.conjunct.columns]
        decoders = [column.decoder for column in columns if column.decoder is not None]
        rows_before = sum([decoder.rows_decoded for decoder in decoders])
        passed = self._test(step, columns, rows, later)
        decoded = time.perf_counter()
        if passed is None:
            values = [column.read(rows) for column in columns]
            decoded = time.perf_counter()
            answers = self._evaluate(step, columns, values, rows.row_count)
            passed = rows.and_then(RowSelection.from_filters(answers))
            for column, array in zip(columns, values, strict=True):
                if self._is_needed(column.name, later):
                    column.hold(rows, array)
        evaluated = time.perf_counter()
        row_count, passed_count = rows.row_count, passed.row_count
        rows_decoded = sum([decoder.rows_decoded for decoder in decoders]) - rows_before
        self._order.observe(
            step,
            rows_in=row_count,
            rows_out=passed_count,
            rows_decoded=rows_decoded // max(1, len(columns)),
            decode_s=decoded - started,
            evaluate_s=evaluated - decoded,
        )
        self._context.metrics.add_step(
            str(step.conjunct),
            rows_in=row_count,
            rows_out=passed_count,
            elapsed_s=evaluated - started,
        )
        return passed

    def _is_needed(self, name: str, later: Sequence[FilterStep] | None) -> bool:
        """Whether a column is read again for the rows that a step keeps."""
        if later is None:
            return False
        return name in self._projected or any(name in step.conjunct.columns for step in later)

    def _test(
        self,
        step: FilterStep,
        columns: Sequence[Column],
        rows: RowSelection,
        later: Sequence[FilterStep] | None,
    ) -> RowSelection | None:
        """The rows that pass, tested by kernels on the encoded pages; None if they cannot."""
        if len(columns) != 1 or columns[0].decoder is None or columns[0].is_held:
            return None
        column = columns[0]
        passes = self._dictionary_passes(step, column, rows)
        is_held = self._is_needed(column.name, later)
        return column.test(rows, step.conjunct.tree, passes, is_held=is_held)

    def _dictionary_passes(
        self, step: FilterStep, column: Column, rows: RowSelection
    ) -> list[npt.NDArray[np.bool_] | None] | None:
        """By row group: which values of the column's dictionary pass; None if unknown.

        Where kernels cannot test the condition, DataFusion evaluates it.
        """
        assert column.decoder is not None
        known = [passes.get(step.index) for passes in self._passes]
        is_known = all(passes is not None for passes in known)
        if is_known or column.decoder.can_test(step.conjunct.tree):
            return known
        if step.conjunct.conjunct.is_volatile or not column.decoder.is_all_dictionary():
            return None
        for index, passes in enumerate(self._passes):
            if step.index not in passes:
                found = self._evaluate_dictionary(step, column, index, rows.row_count)
                if found is None:
                    return None
                passes[step.index] = found
        return [passes[step.index] for passes in self._passes]

    def _evaluate_dictionary(
        self, step: FilterStep, column: Column, index: int, row_count: int
    ) -> npt.NDArray[np.bool_] | None:
        """Which dictionary values of one row group pass; None if that is not worthwhile."""
        row_group = self._row_groups[index]
        kept = self._context.recall(Stage.PASSES, step.index, row_group)
        if kept is not None and isinstance(kept[0], np.ndarray):
            return kept[0]
        assert column.decoder is not None
        values = column.decoder.load_dictionary(index)
        if values is None or len(values) >= row_count:
            return None
        try:
            known = evaluate_dictionary(step.conjunct, column.name, column.data_type, values)
        except EvaluationError:
            # Perhaps on a value that no remaining row holds.
            return None
        self._context.metrics.add(dictionary_evaluations=1)
        if len(known) <= SMALL_DICTIONARY:
            self._context.keep(Stage.PASSES, step.index, row_group, known)
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
            # Only the number of rows matters.
            return [step.conjunct.evaluate(pa.record_batch([pa.nulls(row_count)], names=[""]))]
        # DataFusion's constant folding depends on nullability.
        fields = [self._context.schema.field(column.name) for column in columns]
        table = pa.Table.from_arrays(list(values), schema=pa.schema(fields))
        return [step.conjunct.evaluate(batch) for batch in batches_of(table)]
