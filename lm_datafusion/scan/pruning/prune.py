"""The pruning stages, in order of cost.

In: conjuncts and the facts of a file. Out: the `RowGroupAccess` of the remaining row groups.

1. Row group statistics: from the footers, for all row groups of a table at once.
2. The condition cache: row groups in which earlier scans found no row. Both run at planning time
   (`scan.pruning.file_pruning`); the other stages run per row group, just before it is read.
3. Bloom filters: tens of kilobytes per column and row group.
4. Dictionaries: up to a megabyte, and DataFusion evaluates the conjunct on the values.
5. The page index: kilobytes per column, leaves ranges of rows.

The outcome of each of the last two is kept for later scans, and so is that of all three together
(`scan.memory`).

Invariant: pruning fails open. An error in a stage adds one to `predicate_evaluation_errors` and has
no other effect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lm_datafusion.forks import cached_property
from lm_datafusion.plan.access_plan import rows_of_verdicts
from lm_datafusion.predicate.tree import (
    references,
)
from lm_datafusion.pruning import PruningStatistics, Verdict, judge
from lm_datafusion.scan.memory.footer_answers import lasting_keys
from lm_datafusion.scan.memory.stage_outcomes import OUTCOMES, Pruned, Stage
from lm_datafusion.scan.pruning.known_rows import condition_keys
from lm_datafusion.selection.filters import filter_to_mask

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    import numpy.typing as npt

    from lm_datafusion.formats.protocol import FileFacts
    from lm_datafusion.metrics import ScanMetrics
    from lm_datafusion.options import ScanOptions
    from lm_datafusion.plan import FilePlan, ReadPlan, RowGroupAccess
    from lm_datafusion.predicate.conjunct import BoundConjunct
    from lm_datafusion.scan.memory.condition_cache import ConjunctKey
    from lm_datafusion.scan.memory.stage_outcomes import Outcome
    from lm_datafusion.scan.pruning.conjunction import Conjunction
    from lm_datafusion.storage import OpenFile


@dataclass(frozen=True, kw_only=True)
class PruningContext:
    """What the stages share: a file and the conjuncts."""

    facts: FileFacts
    file_plan: FilePlan
    conjunction: Conjunction
    options: ScanOptions
    metrics: ScanMetrics
    decided: frozenset[int] = frozenset()

    @property
    def conjuncts(self) -> tuple[BoundConjunct, ...]:
        """The conjuncts of the scan."""
        return self.conjunction.conjuncts

    @property
    def schema(self) -> pa.Schema:
        """The columns that the conjuncts are bound to."""
        return self.conjunction.schema

    @cached_property
    def keys(self) -> list[ConjunctKey | None]:
        """By conjunct: the cache key of facts about it in this file; None if not cached."""
        is_verified = self.options.verify_checksums
        return condition_keys(self.conjuncts, self.file_plan, self.schema, is_verified=is_verified)

    @cached_property
    def statistics(self) -> PruningStatistics:
        """The footer statistics of all row groups."""
        every = range(self.facts.num_row_groups)
        return self.facts.row_group_statistics(every, self.file_plan.constants)

    def judge(self, conjunct: int, statistics: PruningStatistics) -> npt.NDArray[np.uint8]:
        """Verdicts of one conjunct; SOME_ROWS for all if judging fails."""
        try:
            return judge(self.conjuncts[conjunct].tree, statistics, self.conjunction.nan_free)
        except Exception:  # noqa: BLE001 pruning fails open
            self.metrics.add(predicate_evaluation_errors=1)
            return np.full(statistics.num_containers, Verdict.SOME_ROWS, dtype=np.uint8)

    def recall(self, stage: Stage, conjunct: int, row_group: int) -> tuple[Outcome] | None:
        """The outcome of a stage in an earlier scan."""
        return OUTCOMES.recall(self.facts.version, self.keys[conjunct], stage, row_group)

    def keep(self, stage: Stage, conjunct: int, row_group: int, outcome: Outcome) -> None:
        """Keeps the outcome of a stage for later scans."""
        OUTCOMES.keep(self.facts.version, self.keys[conjunct], stage, row_group, outcome)


# By conjunct: which values of the chunk's dictionary pass; the last entry is for null. Computed by
# dictionary pruning, reused by the filter steps of the same row group.
DictionaryPasses = dict[int, "npt.NDArray[np.bool_]"]


def prune_row_group(
    access: RowGroupAccess,
    context: PruningContext,
    file: OpenFile,
    passes: DictionaryPasses,
    *,
    is_counted: bool = True,
) -> RowGroupAccess:
    """Runs the stages that read from the row group itself; fills `passes`.

    Args:
        access: The remaining rows so far.
        context: The file and the conjuncts.
        file: Where indexes come from.
        passes: Receives which dictionary values pass.
        is_counted: Whether the metrics count a row group that is ruled out.
    """
    key = _pruned_key(access, context.conjunction.lasting_keys, context.file_plan, context.options)
    known = OUTCOMES.recall(context.facts.version, key, Stage.ALL, access.row_group)
    if known is not None:
        assert isinstance(known[0], Pruned)
        pruned = known[0]
    else:
        errors = context.metrics.count_of("predicate_evaluation_errors")
        pruned = _run_stages(access, context, file, passes)
        if context.metrics.count_of("predicate_evaluation_errors") == errors:
            # Not kept after an error: the next scan may prune more.
            OUTCOMES.keep(context.facts.version, key, Stage.ALL, access.row_group, pruned)
    if pruned.counter and is_counted:
        context.metrics.add(**{pruned.counter: 1})
    return pruned.access


def _run_stages(
    access: RowGroupAccess, context: PruningContext, file: OpenFile, passes: DictionaryPasses
) -> Pruned:
    for is_wanted, prune, counter in _STAGES:
        if access.is_skipped or access.is_fully_matched:
            break
        if is_wanted(context.options):
            access = prune(access, context, file, passes)
            if access.is_skipped:
                return Pruned(access, counter)
    return Pruned(access, "")


def expected_rows(plan: ReadPlan) -> int | None:
    """Rows of a plan that pruning will leave; None unless known from earlier scans."""
    steps = sorted(plan.row_filter.steps, key=lambda step: step.index)
    keys = lasting_keys([step.conjunct for step in steps], plan.filter_schema)
    rows = 0
    for task in plan.tasks:
        key = _pruned_key(task.access, keys, task.file, plan.options)
        known = OUTCOMES.recall(task.file.version, key, Stage.ALL, task.access.row_group)
        if known is None:
            return None
        assert isinstance(known[0], Pruned)
        rows += known[0].access.selection.row_count
    return rows


def _pruned_key(
    access: RowGroupAccess,
    keys: tuple[ConjunctKey, ...] | None,
    file: FilePlan,
    options: ScanOptions,
) -> Hashable | None:
    """The cache key of the outcome of all stages; None if it cannot be kept.

    Row groups that the condition cache or a caller has narrowed are pruned every time.
    """
    open_conjuncts = access.open_conjuncts
    if keys is None or open_conjuncts is None or file.constants:
        return None
    return (
        keys,
        open_conjuncts,
        options.prune_bloom_filter,
        options.prune_dictionary and options.dictionary_limit_bytes,
        options.prune_page_index,
        options.verify_checksums,
    )


def _prune_by_bloom_filters(
    access: RowGroupAccess, context: PruningContext, file: OpenFile, _passes: DictionaryPasses
) -> RowGroupAccess:
    if not context.conjunction.equalities:
        return access
    constants = context.file_plan.constants
    statistics = context.facts.filter_answers(access.row_group, file, constants)
    for index in context.conjunction.equalities:
        conjunct = context.conjuncts[index]
        has_filter = any(statistics.has_filter(r.path) for r in references(conjunct.tree))
        if has_filter and access.is_undecided(index):
            verdicts = context.judge(index, statistics)
            if len(verdicts) == 1:
                access = access.with_verdict(index, int(verdicts[0]))
            else:
                access = access.with_range_verdicts(index, statistics.starts, verdicts)
    return access


def _prune_by_dictionaries(
    access: RowGroupAccess, context: PruningContext, file: OpenFile, passes: DictionaryPasses
) -> RowGroupAccess:
    for index, conjunct in enumerate(context.conjuncts):
        if not access.is_undecided(index) or conjunct.conjunct.is_volatile:
            continue
        known = context.recall(Stage.DICTIONARY, index, access.row_group)
        if known is not None:
            assert isinstance(known[0], int)
            access = access.with_verdict(index, known[0])
            continue
        try:
            found = _dictionary_passes(access, conjunct, context, file)
        except Exception:  # noqa: BLE001 a value that no row may hold can fail a cast
            context.metrics.add(predicate_evaluation_errors=1)
            continue
        if found is None:
            continue
        passes[index] = found
        may_hold_null = _may_hold_null(access.row_group, conjunct.columns[0], context)
        verdict = _dictionary_verdict(found, may_hold_null)
        context.keep(Stage.DICTIONARY, index, access.row_group, int(verdict))
        access = access.with_verdict(index, verdict)
    return access


def _dictionary_passes(
    access: RowGroupAccess, conjunct: BoundConjunct, context: PruningContext, file: OpenFile
) -> npt.NDArray[np.bool_] | None:
    """Evaluates a single-column conjunct on the dictionary values of its chunk, and on null."""
    column = context.file_plan.columns.get(conjunct.columns[0]) if conjunct.columns else None
    if len(conjunct.columns) != 1 or column is None:
        return None
    values = context.facts.load_dictionary(
        access.row_group,
        column,
        file,
        limit_bytes=context.options.dictionary_limit_bytes,
        verify_checksums=context.options.verify_checksums,
    )
    if values is None or len(values) >= access.row_count:
        return None
    name = conjunct.columns[0]
    return evaluate_dictionary(conjunct, name, context.schema.field(name).type, values)


def evaluate_dictionary(
    conjunct: BoundConjunct, name: str, data_type: pa.DataType, values: pa.Array
) -> npt.NDArray[np.bool_]:
    """Which values of a dictionary pass; the last entry is for null.

    Raises:
        EvaluationError: The conjunct fails on a value, perhaps one that no row holds.
    """
    answer = conjunct.answer(values)
    if answer is not None:
        return np.append(filter_to_mask(answer), np.False_)
    if pa.types.is_dictionary(data_type):
        data_type = data_type.value_type
    every = pa.concat_arrays([values.cast(data_type), pa.nulls(1, data_type)])
    return filter_to_mask(conjunct.evaluate(pa.record_batch([every], names=[name])))


def _dictionary_verdict(passes: npt.NDArray[np.bool_], may_hold_null: bool) -> Verdict:  # noqa: FBT001 a fact
    """A dictionary may hold values that no row has, so "some pass" proves nothing."""
    null_passes = may_hold_null and bool(passes[-1])
    if not passes[:-1].any() and not null_passes:
        return Verdict.NO_ROWS
    if passes[:-1].all() and (null_passes or not may_hold_null):
        return Verdict.ALL_ROWS
    return Verdict.SOME_ROWS


def _may_hold_null(row_group: int, name: str, context: PruningContext) -> bool:
    nulls = context.statistics.null_counts((name,))
    return nulls is None or bool(nulls[row_group] != 0)


def _prune_by_page_index(
    access: RowGroupAccess, context: PruningContext, file: OpenFile, _passes: DictionaryPasses
) -> RowGroupAccess:
    constants = context.file_plan.constants
    for index in range(len(context.conjuncts)):
        if access.is_skipped or not access.is_undecided(index):
            continue
        columns = context.conjunction.bounded_columns[index]
        if not columns:
            continue
        known = context.recall(Stage.PAGE_INDEX, index, access.row_group)
        if known is not None:
            if isinstance(known[0], tuple):
                access = access.with_rows(index, *known[0])
            continue
        try:
            statistics = context.facts.page_bounds(access.row_group, columns, file, constants)
        except Exception:  # noqa: BLE001 pruning fails open
            context.metrics.add(predicate_evaluation_errors=1)
            continue
        if not statistics.has_pages:
            continue
        verdicts = context.judge(index, statistics)
        is_ineffective = bool((verdicts == Verdict.SOME_ROWS).all())
        outcome = None
        if not is_ineffective:
            outcome = rows_of_verdicts(statistics.starts, verdicts, access.row_count)
        context.keep(Stage.PAGE_INDEX, index, access.row_group, outcome)
        if outcome is not None:
            access = access.with_rows(index, *outcome)
    return access


_Stage = tuple[
    "Callable[[ScanOptions], bool]",
    "Callable[[RowGroupAccess, PruningContext, OpenFile, DictionaryPasses], RowGroupAccess]",
    str,
]
_STAGES: tuple[_Stage, ...] = (
    (lambda o: o.prune_bloom_filter, _prune_by_bloom_filters, "row_groups_pruned_bloom_filter"),
    (lambda o: o.prune_dictionary, _prune_by_dictionaries, "row_groups_pruned_dictionary"),
    (lambda o: o.prune_page_index, _prune_by_page_index, ""),
)
