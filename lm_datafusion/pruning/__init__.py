"""Evaluates predicates on statistics: do no rows, some rows or all rows of a container match?

In: a `Predicate` tree and `PruningStatistics` of containers (row groups, page ranges, files).
Out: a `Verdict` per container.

Invariant: fails open. An undecided container is `SOME_ROWS`.
"""

from __future__ import annotations

from lm_datafusion.pruning.containers import columns_without_nan, judge
from lm_datafusion.pruning.statistics import JoinedStatistics, PruningStatistics, UnknownStatistics
from lm_datafusion.pruning.verdict import Verdict

__all__ = [
    "JoinedStatistics",
    "PruningStatistics",
    "UnknownStatistics",
    "Verdict",
    "columns_without_nan",
    "judge",
]
