"""What a scan of an object store asks for, in rounds.

In: row groups and the rows of a window. Out: `Round`s, each with all ranges that can be known by
then.

1. Page indexes and bloom filters that the tail of the file did not hold.
2. The columns of the filter.
3. The other columns, in the pages that hold a row that passed.

The last two are one round if that costs less: if the pages that a filter would save take less time
than a round. How many it would save is estimated from the shares of rows that filter steps keep,
until a window has shown it.

`FetchBudget` counts what row groups hold: what they may take at most when they begin, and what they
really take as soon as that is known.

Invariant: a range that was not foreseen is read when it is needed; rounds change the time of a scan
and never its rows.
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Final

from lm_datafusion.plan.selectivity import even_share
from lm_datafusion.predicate.tree import Comparison, Operator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lm_datafusion.plan import FilterStep, ReadPlan
    from lm_datafusion.scan.reading.adaptive_order import AdaptiveOrder
    from lm_datafusion.scan.reading.row_group import RowGroupReader
    from lm_datafusion.scan.reading.scan_file import ScanFile
    from lm_datafusion.selection import RowSelection
    from lm_datafusion.storage import ByteRange, Round

# How much one window says about the pages that a filter saves in the others.
_WEIGHT: Final = 0.5


class FetchBudget:
    """Bytes of a store that the row groups of a scan hold; thread-safe.

    Args:
        limit_bytes: What they may hold.
        round_bytes: Bytes that take as long as a round of requests; asked each time.
        task_count: Row groups of the scan.
    """

    def __init__(self, limit_bytes: int, round_bytes: Callable[[], int], task_count: int) -> None:
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._held: dict[int, int] = {}
        self._total = 0
        self.round_bytes = round_bytes
        self.task_count = task_count
        # The share of pages of projected columns that were needed, as seen.
        self.needed_share: float | None = None
        # Called when there is more room.
        self.on_change: Callable[[], None] = lambda: None

    def has_room(self, more_bytes: int) -> bool:
        """Whether a row group that may take so many bytes can begin."""
        with self._lock:
            return self._total + more_bytes <= self._limit_bytes

    def hold(self, unit: int, size_bytes: int) -> None:
        """Sets what a unit holds."""
        with self._lock:
            before = self._held.pop(unit, 0)
            if size_bytes:
                self._held[unit] = size_bytes
            self._total += size_bytes - before
        if size_bytes < before:
            self.on_change()

    def note_share(self, share: float) -> None:
        """Notes which share of the pages of projected columns a window needed."""
        known = self.needed_share
        self.needed_share = share if known is None else known + _WEIGHT * (share - known)


class UnitFetch:
    """The rounds of the row groups that one reader reads."""

    def __init__(
        self,
        plan: ReadPlan,
        reader: RowGroupReader,
        file: ScanFile,
        order: AdaptiveOrder,
        budget: FetchBudget,
        unit: int,
    ) -> None:
        self._plan = plan
        self._reader = reader
        self._file = file
        self._order = order
        self._budget = budget
        self._unit = unit
        self._rounds: list[Round] = []
        self._projected: list[ByteRange] = []
        self._is_joined = False

    def for_filter(self, window: RowSelection) -> Iterator[Round]:
        """The round before the filter of a window, if bytes are missing for it."""
        names = self._reader.filter_columns()
        rest = [name for name in self._plan.names if name not in names]
        ranges = self._reader.plan_ranges(names, window) if names else []
        self._projected = self._reader.plan_ranges(rest, window)
        self._is_joined = not names or self._should_join(window)
        if self._is_joined:
            ranges = ranges + self._projected
        most = sum(r.length for r in ranges)
        most += 0 if self._is_joined else sum(r.length for r in self._projected)
        self._budget.hold(self._unit, most)
        yield from self._fetch(ranges)

    def for_projection(self, rows: RowSelection) -> Iterator[Round]:
        """The round before the other columns of the rows that passed."""
        if not self._projected or not self._reader.filter_columns():
            return
        names = self._reader.filter_columns()
        rest = [name for name in self._plan.names if name not in names]
        ranges = self._reader.plan_ranges(rest, rows) if rows.selects_any() else []
        every = sum(r.length for r in self._projected)
        needed = sum(r.length for r in ranges)
        self._budget.note_share(needed / max(1, every))
        if self._is_joined or not ranges:
            return
        yield from self._fetch(ranges)
        self._budget.hold(self._unit, sum(found.size_bytes for found in self._rounds))

    def release(self) -> None:
        """Lets go of the bytes of a window."""
        for found in self._rounds:
            found.release()
        self._rounds.clear()
        self._budget.hold(self._unit, 0)

    def _fetch(self, ranges: Sequence[ByteRange]) -> Iterator[Round]:
        found = self._file.file.fetch_ahead(ranges)
        if found is None:
            return
        self._rounds.append(found)
        if not found.is_done:
            yield found

    def _should_join(self, window: RowSelection) -> bool:
        """Whether the pages that the filter would save take less time than a round."""
        every = sum(r.length for r in self._projected)
        share = self._budget.needed_share
        if share is None:
            share = self._expected_share(window)
        # All row groups share one connection to the store, so the bytes of all of them count.
        scale = self._budget.task_count / max(1, self._reader.row_group_count)
        return (1.0 - share) * every * scale < self._budget.round_bytes()

    def _expected_share(self, window: RowSelection) -> float:
        """The share of pages in which a row passes, if these are spread evenly."""
        measured = self._order.measured()
        kept = 1.0
        for step in self._plan.row_filter.steps:
            if self._reader.access.is_undecided(step.index):
                found = measured[step.index]
                kept *= found.kept_share if found.rows_in else self._guessed_share(step)
        columns = max(1, len(self._plan.names))
        pages = max(1, len(self._projected) // columns)
        return 1.0 - math.pow(1.0 - min(1.0, max(0.0, kept)), window.row_count / pages)

    def _guessed_share(self, step: FilterStep) -> float:
        """The share of rows that a step keeps; of an integer, less than the usual guess says."""
        tree, share = step.conjunct.tree, None
        if isinstance(tree, Comparison) and tree.operator is Operator.EQ:
            try:
                share = even_share(tree.column, self._reader.context.statistics)
            except Exception:  # noqa: BLE001 a guess must not stop a scan
                share = None
        return step.selectivity if share is None else min(share, step.selectivity)
