"""Pruning at planning time: by footers, constants and earlier scans.

In: the files of a table and the conjuncts. Out: `RowGroupTask`s of the remaining row groups.

The row groups of all files are columns of one array of verdicts, with one row per conjunct.

1. Constants: conjuncts over columns that have a single value in a file.
2. Statistics: a conjunct is judged over the row groups of all files at once, since a call costs
   about as much for one row group as for a thousand. Files without remaining row groups drop out.
3. The condition cache (`scan.pruning.known_rows`).

Invariant: nothing here reads from storage; what cannot be judged is kept.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lm_datafusion.plan import RowGroupAccess, RowGroupTask
from lm_datafusion.predicate.tree import Constant
from lm_datafusion.pruning import JoinedStatistics, Verdict, judge
from lm_datafusion.scan.memory.footer_answers import ANSWERS, question
from lm_datafusion.scan.pruning.known_rows import prune_by_condition_cache

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from lm_datafusion.metrics import ScanMetrics
    from lm_datafusion.predicate.conjunct import BoundConjunct
    from lm_datafusion.scan.memory.footer_answers import Question
    from lm_datafusion.scan.pruning.prune import PruningContext


def plan_tasks(
    files: Sequence[PruningContext], wanted: Mapping[int, frozenset[int]] | None = None
) -> list[RowGroupTask]:
    """Prunes the row groups of files by constants, statistics and what earlier scans found.

    Args:
        files: The files, all with the same conjuncts.
        wanted: The row groups to look at, by the file's index in the table; None for all.
    """
    if not files:
        return []
    row_groups = _RowGroups(files, wanted)
    row_groups.prune_by_constants()
    if files[0].options.prune_statistics:
        row_groups.prune_by_statistics()
    return list(row_groups.tasks())


class _RowGroups:
    """The row groups of some files, concatenated, and the verdicts about them."""

    def __init__(
        self, files: Sequence[PruningContext], wanted: Mapping[int, frozenset[int]] | None
    ) -> None:
        counts = [file.facts.row_counts for file in files]
        edges = itertools.accumulate(map(len, counts), initial=0)
        self._files = files
        self._spans = [slice(start, stop) for start, stop in itertools.pairwise(edges)]
        self._row_counts = np.concatenate(counts)
        self._is_wanted = np.ones(len(self._row_counts), dtype=np.bool_)
        if wanted is not None:
            for file, span in zip(files, self._spans, strict=True):
                numbers = np.arange(len(file.facts.row_counts))
                self._is_wanted[span] = np.isin(numbers, list(wanted[file.file_plan.index]))
        self._verdicts = np.full(
            (len(files[0].conjuncts), len(self._row_counts)), Verdict.SOME_ROWS, dtype=np.uint8
        )
        self._metrics = files[0].metrics
        self._metrics.add(
            files=len(files),
            bytes_total=sum(file.facts.version.size_bytes for file in files),
            row_groups_total=int(self._is_wanted.sum()),
            rows_total=int(self._row_counts[self._is_wanted].sum()),
        )

    def _left(self) -> npt.NDArray[np.bool_]:
        """The row groups that may hold a matching row."""
        ruled_out = (self._verdicts == Verdict.NO_ROWS).any(axis=0)
        return self._is_wanted & (self._row_counts > 0) & ~ruled_out

    def prune_by_constants(self) -> None:
        """Judges the conjuncts that are constant within a file; a whole file may drop out."""
        first = self._files[0]
        asked = []
        for index, conjunct in enumerate(first.conjuncts):
            if isinstance(conjunct.tree, Constant):
                self._verdicts[index] = _whole(answer=bool(conjunct.tree.value))
            elif index in first.decided:
                self._verdicts[index] = Verdict.ALL_ROWS
            else:
                asked.append(index)
        for file, span in zip(self._files, self._spans, strict=True):
            if file.file_plan.constants:
                for index in asked:
                    self._verdicts[index, span] = _constant_verdict(file, index)
        self._drop_files()

    def _drop_files(self) -> None:
        """Drops the files that have no row left."""
        left = self._left()
        if np.array_equal(left, self._is_wanted):
            return
        for span in self._spans:
            if self._is_wanted[span].any() and not left[span].any():
                self._is_wanted[span] = False
                self._metrics.add(files_pruned=1)

    def prune_by_statistics(self) -> None:
        """Judges what is undecided by footer statistics, or by cached verdicts."""
        asked = self._question()
        known = ANSWERS.find(asked)
        if known is not None:
            self._verdicts = known
        else:
            is_judged = [self._judge(conjunct) for conjunct in range(len(self._verdicts))]
            ANSWERS.keep(asked if all(is_judged) else None, self._verdicts)
        skipped = int((self._is_wanted & ~self._left()).sum())
        self._metrics.add(row_groups_pruned_statistics=skipped)

    def _question(self) -> Question | None:
        """The cache key of the verdicts, if they depend on whole files and nothing else."""
        first = self._files[0]
        if not self._is_wanted.all() or any(file.file_plan.constants for file in self._files):
            return None
        versions = tuple(file.facts.version for file in self._files)
        return question("verdicts", versions, first.conjunction.lasting_keys)

    def _judge(self, conjunct: int) -> bool:
        """Judges a conjunct where it is undecided; True if all files were judged at once."""
        undecided = self._left() & (self._verdicts[conjunct] == Verdict.SOME_ROWS)
        indexes = [n for n, span in enumerate(self._spans) if undecided[span].any()]
        files = [self._files[n] for n in indexes]
        together = _judge_together(conjunct, files)
        found = together or [file.judge(conjunct, file.statistics) for file in files]
        for index, verdicts in zip(indexes, found, strict=True):
            span = self._spans[index]
            chosen = undecided[span]
            self._verdicts[conjunct, span][chosen] = verdicts[chosen]
        return together is not None

    def tasks(self) -> Iterator[RowGroupTask]:
        """The remaining row groups, pruned by the condition cache."""
        left = self._left().tolist()
        counts = self._row_counts.tolist()
        undecided = (self._verdicts == Verdict.SOME_ROWS).T.tolist()
        for file, span in zip(self._files, self._spans, strict=True):
            accesses = [
                RowGroupAccess.scan(index - span.start, counts[index], tuple(undecided[index]))
                for index in range(span.start, span.stop)
                if left[index]
            ]
            for access in prune_by_condition_cache(accesses, file):
                if not access.is_skipped:
                    yield RowGroupTask(file=file.file_plan, access=access)


def _whole(*, answer: bool) -> Verdict:
    """The verdict about rows that all have the same answer."""
    return Verdict.ALL_ROWS if answer else Verdict.NO_ROWS


def _constant_verdict(file: PruningContext, conjunct: int) -> Verdict:
    """What the constants of a file say about a conjunct."""
    constants = file.file_plan.constants
    answers = judge_constants(file.conjuncts[conjunct], [constants], file.schema, file.metrics)
    return Verdict.SOME_ROWS if answers is None else _whole(answer=answers[0])


def judge_constants(
    conjunct: BoundConjunct,
    files: Sequence[Mapping[str, pa.Scalar]],
    schema: pa.Schema,
    metrics: ScanMetrics,
) -> list[bool] | None:
    """Whether a conjunct holds in each file, by the columns with a single value.

    Returns:
        One answer per file; None if the conjunct needs another column, is volatile or fails.
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
        answers = conjunct.evaluate(rows)
    except Exception:  # noqa: BLE001 the scan will report it better
        metrics.add(predicate_evaluation_errors=1)
        return None
    return [answer is True for answer in answers.to_pylist()]


def _as_column(values: Sequence[pa.Scalar], data_type: pa.DataType) -> pa.Array:
    if not pa.types.is_nested(data_type):
        return pa.array([value.as_py() for value in values], data_type)
    # PyArrow gives a null struct fields that are not null, and DataFusion trusts them.
    parts = [
        pa.array([value.as_py()], data_type) if value.is_valid else pa.nulls(1, data_type)
        for value in values
    ]
    return pa.concat_arrays(parts)


def _judge_together(
    conjunct: int, files: Sequence[PruningContext]
) -> list[npt.NDArray[np.uint8]] | None:
    """Verdicts about the row groups of all files at once; None if that fails."""
    if not files:
        return []
    first = files[0]
    try:
        verdicts = judge(
            first.conjuncts[conjunct].tree,
            JoinedStatistics([file.statistics for file in files]),
            first.conjunction.nan_free,
        )
    except Exception:  # noqa: BLE001 then each file is judged separately
        return None
    return np.split(verdicts, np.cumsum([len(file.facts.row_counts) for file in files])[:-1])
