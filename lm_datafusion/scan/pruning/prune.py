"""The stages of pruning, in the order of their cost.

In: conjuncts and the facts of a file. Out: `RowGroupAccess` of the row groups that are left.

1. Row-group statistics: from the footers, for all row groups of a table at once, and
2. the condition cache: row groups that earlier scans found no row in. Both while planning
   (`scan.pruning.file_pruning`); what follows is for one row group, when its turn has come.
3. Bloom filters: tens of kilobytes per column and row group.
4. Dictionaries: up to a megabyte, and DataFusion evaluates the conjunct on the values.
5. The page index: kilobytes per column, leaves ranges of rows.

What the last two found is kept for later scans, and so is what all three left (`scan.memory`).

Invariant: pruning fails open. An error of any stage costs one count of
`predicate_evaluation_errors` and nothing else.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lm_datafusion.formats.parquet.dictionary import load_dictionary
from lm_datafusion.formats.parquet.statistics import (
    BloomFilterStatistics,
    PageStatistics,
    RowGroupStatistics,
)
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

    from lm_datafusion.formats.parquet.footer import FileFacts
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
    """What the stages share: a file, and what is asked of it."""

    facts: FileFacts
    file_plan: FilePlan
    conjunction: Conjunction
    options: ScanOptions
    metrics: ScanMetrics
    decided: frozenset[int] = frozenset()

    @property
    def conjuncts(self) -> tuple[BoundConjunct, ...]:
        """What is asked."""
        return self.conjunction.conjuncts

    @property
    def schema(self) -> pa.Schema:
        """The columns it is asked of."""
        return self.conjunction.schema

    @functools.cached_property
    def keys(self) -> list[ConjunctKey | None]:
        """By conjunct: the name under which facts about it in this file are kept, if they are."""
        return condition_keys(self.conjuncts, self.file_plan, self.schema)

    @functools.cached_property
    def statistics(self) -> RowGroupStatistics:
        """What the footer says of all row groups."""
        every = range(self.facts.num_row_groups)
        return RowGroupStatistics(self.facts, every, self.file_plan.constants)

    def judge(self, conjunct: int, statistics: PruningStatistics) -> npt.NDArray[np.uint8]:
        """Verdicts of one conjunct; SOME_ROWS for all if they cannot be had."""
        try:
            return judge(self.conjuncts[conjunct].tree, statistics, self.conjunction.nan_free)
        except Exception:  # noqa: BLE001 pruning fails open, whatever is wrong
            self.metrics.add(predicate_evaluation_errors=1)
            return np.full(statistics.num_containers, Verdict.SOME_ROWS, dtype=np.uint8)

    def recall(self, stage: Stage, conjunct: int, row_group: int) -> tuple[Outcome] | None:
        """What an earlier scan found at a stage."""
        return OUTCOMES.recall(self.facts.version, self.keys[conjunct], stage, row_group)

    def keep(self, stage: Stage, conjunct: int, row_group: int, outcome: Outcome) -> None:
        """Tells later scans what a stage found."""
        OUTCOMES.keep(self.facts.version, self.keys[conjunct], stage, row_group, outcome)


# By conjunct: which values of the chunk's dictionary pass, and last whether null does. Found by
# dictionary pruning, used again by the filter steps of the same row group.
DictionaryPasses = dict[int, "npt.NDArray[np.bool_]"]


def prune_row_group(
    access: RowGroupAccess,
    context: PruningContext,
    file: OpenFile,
    passes: DictionaryPasses,
    *,
    is_counted: bool = True,
) -> RowGroupAccess:
    """The stages that read from the row group itself; fills `passes` on the way.

    Args:
        access: The rows left so far.
        context: The file and the conjuncts.
        file: Where indexes come from.
        passes: Takes which values of dictionaries pass.
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
            # What an error has kept from being pruned may be pruned the next time.
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
    """Rows of a plan that pruning will leave; None unless earlier scans found it out."""
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
    """What the outcome of all stages depends on; None if it cannot be kept.

    Row groups that the condition cache or a caller has narrowed are pruned each time.
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
    )


def _prune_by_bloom_filters(
    access: RowGroupAccess, context: PruningContext, file: OpenFile, _passes: DictionaryPasses
) -> RowGroupAccess:
    if not context.conjunction.equalities:
        return access
    constants = context.file_plan.constants
    statistics = BloomFilterStatistics(context.facts, access.row_group, file, constants)
    for index in context.conjunction.equalities:
        conjunct = context.conjuncts[index]
        has_filter = any(statistics.has_filter(r.path) for r in references(conjunct.tree))
        if has_filter and access.is_undecided(index):
            verdict = context.judge(index, statistics)[0]
            access = access.with_verdict(index, int(verdict))
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
    """Evaluates a conjunct of one column on the values its chunk can hold, and on null."""
    column = context.file_plan.columns.get(conjunct.columns[0]) if conjunct.columns else None
    if len(conjunct.columns) != 1 or column is None:
        return None
    values = load_dictionary(
        context.facts,
        access.row_group,
        column,
        file,
        limit_bytes=context.options.dictionary_limit_bytes,
    )
    if values is None or len(values) >= access.row_count:
        return None
    name = conjunct.columns[0]
    return evaluate_dictionary(conjunct, name, context.schema.field(name).type, values)


def evaluate_dictionary(
    conjunct: BoundConjunct, name: str, data_type: pa.DataType, values: pa.Array
) -> npt.NDArray[np.bool_]:
    """Which values of a dictionary pass, and last whether null does.

    Raises:
        EvaluationError: The conjunct fails on a value; perhaps one that no row holds.
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
            statistics = PageStatistics(context.facts, access.row_group, columns, file, constants)
        except Exception:  # noqa: BLE001 pruning fails open, whatever is wrong
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
