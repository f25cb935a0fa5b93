"""Pruning while a scan is planned: what footers, constants and earlier scans say.

In: the files of a table and the conjuncts. Out: `RowGroupTask`s of the row groups that are left.

1. Constants: conjuncts over columns that a file has one value of.
2. Statistics: a conjunct is judged over the row groups of all files at once, since a call costs
   about as much for one row group as for a thousand.
3. The condition cache (`scan.known_rows`).

Invariant: nothing here reads from storage; what cannot be judged is left over.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lm_datafusion.formats.parquet.statistics import RowGroupStatistics
from lm_datafusion.plan import RowGroupAccess, RowGroupTask
from lm_datafusion.predicate.tree import Constant
from lm_datafusion.pruning import JoinedStatistics, Verdict, judge
from lm_datafusion.scan.known_rows import prune_by_condition_cache
from lm_datafusion.scan.pool import call_aside

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from lm_datafusion.metrics import ScanMetrics
    from lm_datafusion.predicate.conjunct import BoundConjunct
    from lm_datafusion.scan.prune import PruningContext


class FilePruning:
    """The row groups of one file on their way through the stages of planning."""

    def __init__(self, context: PruningContext, wanted: frozenset[int] | None = None) -> None:
        """Prunes by constants.

        Args:
            context: The file and the conjuncts.
            wanted: Row groups to look at; None for all.
        """
        facts, conjuncts = context.facts, context.conjuncts
        accesses = [
            RowGroupAccess.scan(index, facts.row_count(index), len(conjuncts))
            for index in range(facts.num_row_groups)
            if wanted is None or index in wanted
        ]
        context.metrics.add(
            files=1,
            bytes_total=facts.version.size_bytes,
            row_groups_total=len(accesses),
            rows_total=sum(access.row_count for access in accesses),
        )
        self.context = context
        self.accesses = _prune_by_constants(accesses, context)
        if accesses and not any(access.selection.selects_any() for access in self.accesses):
            context.metrics.add(files_pruned=1)
            self.accesses = []
        self.row_groups = [access.row_group for access in self.accesses]

    @functools.cached_property
    def statistics(self) -> RowGroupStatistics:
        """Statistics of the row groups."""
        constants = self.context.file_plan.constants
        return RowGroupStatistics(self.context.facts, self.row_groups, constants)

    def is_undecided(self, conjunct: int) -> bool:
        """Whether a row group has rows left to evaluate a conjunct on."""
        return any(access.is_undecided(conjunct) for access in self.accesses)

    def note_verdicts(self, conjunct: int, verdicts: npt.NDArray[np.uint8]) -> None:
        """Refines by a verdict per row group."""
        self.accesses = [
            access.with_verdict(conjunct, verdict) if access.is_undecided(conjunct) else access
            for access, verdict in zip(self.accesses, verdicts.tolist(), strict=True)
        ]

    def tasks(self) -> list[RowGroupTask]:
        """The row groups left, after a look at the condition cache."""
        accesses = prune_by_condition_cache(self.accesses, self.context)
        file = self.context.file_plan
        return [RowGroupTask(file=file, access=a) for a in accesses if not a.is_skipped]


def plan_tasks(files: Sequence[FilePruning]) -> list[RowGroupTask]:
    """Prunes the row groups of files by statistics, and by what earlier scans found."""
    if files and files[0].context.options.prune_statistics:
        _prune_by_statistics(files)
    return [task for file in files for task in file.tasks()]


def _prune_by_constants(
    accesses: list[RowGroupAccess], context: PruningContext
) -> list[RowGroupAccess]:
    """Judges the conjuncts that the file has one answer to; first those that are constant."""
    constants = context.file_plan.constants
    for index, conjunct in enumerate(context.conjuncts):
        if isinstance(conjunct.tree, Constant):
            verdict = Verdict.ALL_ROWS if conjunct.tree.value else Verdict.NO_ROWS
            accesses = [access.with_verdict(index, verdict) for access in accesses]
    for index, conjunct in enumerate(context.conjuncts):
        if index in context.decided:
            accesses = [access.with_verdict(index, Verdict.ALL_ROWS) for access in accesses]
            continue
        answers = judge_constants(conjunct, [constants], context.schema, context.metrics)
        if answers is not None:
            verdict = Verdict.ALL_ROWS if answers[0] else Verdict.NO_ROWS
            accesses = [access.with_verdict(index, verdict) for access in accesses]
    return accesses


def judge_constants(
    conjunct: BoundConjunct,
    files: Sequence[Mapping[str, pa.Scalar]],
    schema: pa.Schema,
    metrics: ScanMetrics,
) -> list[bool] | None:
    """Whether a conjunct holds in each of some files, by the columns they have one value of.

    Returns:
        One answer per file; None if the conjunct needs another column, or is not to be asked.
    """
    names = conjunct.columns
    is_constant = names and all(name in file for file in files for name in names)
    if not files or not is_constant or conjunct.conjunct.is_volatile:
        return None
    try:
        columns = [
            _as_column([file[name] for file in files], schema.field(name).type) for name in names
        ]
        rows = pa.record_batch(columns, names=list(names))
        answers = call_aside(functools.partial(conjunct.evaluate, rows))
    except Exception:  # noqa: BLE001 the scan will say it better
        metrics.add(predicate_evaluation_errors=1)
        return None
    return [answer is True for answer in answers.to_pylist()]


def _as_column(values: Sequence[pa.Scalar], data_type: pa.DataType) -> pa.Array:
    if not pa.types.is_nested(data_type):
        return pa.array([value.as_py() for value in values], data_type)
    # PyArrow makes fields of a null that are not null, and DataFusion believes them.
    parts = [
        pa.array([value.as_py()], data_type) if value.is_valid else pa.nulls(1, data_type)
        for value in values
    ]
    return pa.concat_arrays(parts)


def _prune_by_statistics(files: Sequence[FilePruning]) -> None:
    metrics = files[0].context.metrics
    for index in range(len(files[0].context.conjuncts)):
        _judge_together(index, [file for file in files if file.is_undecided(index)])
    skipped = sum(access.is_skipped for file in files for access in file.accesses)
    metrics.add(row_groups_pruned_statistics=skipped)


def _judge_together(conjunct: int, files: Sequence[FilePruning]) -> None:
    """Judges the row groups of all files at once; file by file where they are not alike."""
    if len(files) > 1:
        context = files[0].context
        try:
            verdicts = judge(
                context.conjuncts[conjunct].tree,
                JoinedStatistics([file.statistics for file in files]),
                context.nan_free,
            )
        except Exception:  # noqa: BLE001, S110 each for itself then
            pass
        else:
            stops = np.cumsum([len(file.accesses) for file in files])
            for file, part in zip(files, np.split(verdicts, stops[:-1]), strict=True):
                file.note_verdicts(conjunct, part)
            return
    for file in files:
        file.note_verdicts(conjunct, file.context.judge(conjunct, file.statistics))
