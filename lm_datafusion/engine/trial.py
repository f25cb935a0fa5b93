"""Which of several plans of a statement runs: the one that measured as the fastest.

In: plans of one statement, the one expected to be the fastest first. Out: the one to run now.

Every plan runs once, but for those that are expected to be slower than what was measured of
others; and those that are not far behind twice: single runs are disturbed now and then, first ones
by what has to be loaded. One that is clearly faster than the expected one takes its place. After 8,
16, 32, ... runs the one that ran least gets another chance, unless it is far behind; so does one
that was expected to be slower, and never ran.

Invariant: whichever runs, the rows are the same.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from datafusion import DataFrame, SessionContext

    from lm_datafusion.engine.routing import RoutedReference
    from lm_datafusion.engine.run_reports import RunReports

# The share of the expected plan's time that another may take to be clearly faster.
_CLEARLY = 0.95
_LOOKS = 2
# How many times slower a plan may have been to get another chance: by its runs so far.
_FAR_BEHIND = {1: 3.0}
_FAR_BEHIND_AT_LAST = 1.5
# How many times shorter than expected a run may be.
_WRONGLY_EXPECTED = 2.0
_FIRST_CHANCE = 8
_RUNS_REMEMBERED = 3


@dataclass(slots=True, eq=False, kw_only=True)
class ReadyPlan(ABC):
    """A way to run a statement.

    Attributes:
        references: The tables it reads, and how.
        expected_s: How long it is expected to take; 0: nothing is known.
        runs: How often it ran.
        best_s: The shortest of its last few runs: how long one takes may change as a process
            grows.
    """

    references: tuple[RoutedReference, ...]
    expected_s: float = 0.0
    runs: int = 0
    best_s: float = field(default=float("inf"))
    _last_s: tuple[float, ...] = ()

    def collect(self, context: SessionContext, run: RunReports) -> list[pa.RecordBatch]:
        """Runs it; what it did is told to `run`."""
        started = time.perf_counter()
        batches = self._collect(context, run)
        # Threads may run it at the same time: what one reads, another must not change.
        last_s = self._last_s = (*self._last_s, time.perf_counter() - started)[-_RUNS_REMEMBERED:]
        self.best_s = min(last_s)
        self.runs += 1
        return batches

    def is_behind(self, best_s: float) -> bool:
        """Whether it need not run, or not again, beside a plan that took so long."""
        if not self.runs:
            return self.expected_s > best_s * _CLEARLY
        return self.best_s >= best_s * _FAR_BEHIND.get(self.runs, _FAR_BEHIND_AT_LAST)

    def has_a_chance(self, best_s: float) -> bool:
        """Whether it is worth a run now and then; what was expected of it may have been wrong."""
        if not self.runs:
            return self.expected_s <= best_s * _WRONGLY_EXPECTED
        return not self.is_behind(best_s)

    @abstractmethod
    def _collect(self, context: SessionContext, run: RunReports) -> list[pa.RecordBatch]: ...


@dataclass(slots=True, eq=False, kw_only=True)
class PlannedAnew(ReadyPlan):
    """A frame, of which DataFusion makes a plan each time; its readers are settled."""

    frame: DataFrame

    def _collect(self, context: SessionContext, run: RunReports) -> list[pa.RecordBatch]:  # noqa: ARG002
        return self.frame.collect()


class Trial:
    """The plans of a statement.

    Args:
        plans: At least one; the one expected to be the fastest first.
    """

    def __init__(self, plans: Sequence[ReadyPlan]) -> None:
        self._plans = plans
        self._runs = 0
        self._next_chance = _FIRST_CHANCE
        self._tables = tuple({r.table for plan in plans for r in plan.references})
        self._folders = _folder_times(self._folder_names())

    @property
    def is_current(self) -> bool:
        """Whether its files are the ones it was prepared for, and no file came to their folders."""
        is_unchanged = all(table.is_unchanged for table in self._tables)
        return is_unchanged and self._folders == _folder_times(self._folder_names())

    def next_plan(self) -> ReadyPlan:
        """The plan to run now."""
        self._runs += 1
        best_s = min(plan.best_s for plan in self._plans)
        # None may be near: what others have measured meanwhile counts, too.
        near = [p for p in self._plans if not p.is_behind(best_s)] or [self._fastest()]
        seldom = min(near, key=lambda plan: plan.runs)
        if len(near) > 1 and seldom.runs < _LOOKS:
            return seldom
        fastest = self._fastest()
        if self._runs >= self._next_chance:
            others = [p for p in self._plans if p is not fastest and p.has_a_chance(best_s)]
            self._next_chance *= 2
            return min(others, key=lambda plan: plan.runs, default=fastest)
        return fastest

    def _fastest(self) -> ReadyPlan:
        expected = self._plans[0]
        found = min(self._plans, key=lambda plan: plan.best_s)
        return found if found.best_s < _CLEARLY * expected.best_s else expected

    def _folder_names(self) -> set[str]:
        """The folders of the files, and those between them and what they have in common."""
        parents = {os.path.dirname(file.path) for table in self._tables for file in table.files}
        if not parents:
            return set()
        root = os.path.commonpath(parents)
        found = {root}
        for folder in parents:
            while folder not in found:
                found.add(folder)
                folder = os.path.dirname(folder)  # noqa: PLW2901 upwards
        return found


def _folder_times(names: set[str]) -> dict[str, int] | None:
    try:
        return {name: os.stat(name).st_mtime_ns for name in names}
    except OSError:
        return None
