"""The rows that a scan with a limit still has to find.

In: what every window of every row group gave. Out: how many rows are missing, how many rows the
next window is worth, and whether the next row group is worth beginning.

Row groups are scanned one after the other by several workers. One that begins early reads what
nobody may need; one that begins late leaves a core idle. So a row group is begun before its turn
only if those before it are not expected to give enough rows: the share of rows that passed so
far, times the rows they have left.

Invariant: `missing` is never less than what is really missing from the row groups up to a place.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# How much larger than the last a window gets at most, however few rows passed.
GROWTH = 8


class RowBudget:
    """Shared by the workers of a scan that stops after `limit` rows."""

    def __init__(self, limit: int, row_counts: Sequence[int], *, has_filter: bool) -> None:
        self.limit = limit
        self._left = list(row_counts)
        self._found = [0] * len(row_counts)
        self._visited = 0
        self._begun = [False] * len(row_counts)
        self._has_filter = has_filter
        self._lock = threading.Lock()
        self.on_change: Callable[[], None] = lambda: None

    def begin(self, place: int, row_count: int) -> None:
        """A row group begins, with so many rows left after pruning."""
        with self._lock:
            self._begun[place] = True
            self._left[place] = row_count
        self.on_change()

    def note(self, place: int, *, visited: int, found: int) -> None:
        """A window was scanned."""
        with self._lock:
            self._left[place] -= visited
            self._visited += visited
            self._found[place] += found
        self.on_change()

    def missing(self, place: int) -> int:
        """Rows that the row groups up to a place have not found yet."""
        with self._lock:
            return max(0, self.limit - sum(self._found[: place + 1]))

    def window_rows(self, place: int, last_rows: int) -> int:
        """How many rows the next window is worth; `last_rows` had the one before, or 0."""
        missing = self.missing(place)
        with self._lock:
            if not self._visited or not self._has_filter:
                return missing
            found = sum(self._found)
            expected = missing * self._visited // found if found else 2 * max(1, last_rows)
        return max(1, min(expected, GROWTH * max(last_rows, missing)))

    def should_begin(self, place: int) -> bool:
        """Whether a row group is likely to be needed; called before its turn."""
        with self._lock:
            found, left = sum(self._found[:place]), sum(self._left[:place])
            if not self._has_filter:
                return found + left < self.limit
            if not self._visited:
                return False
            share = (sum(self._found) + 1) / self._visited
            return found + share * left < self.limit

    def window_rows_after(self, rows_before: int, last_rows: int) -> int:
        """As `window_rows`, given rows that come before and are still to be scanned.

        Returns:
            0 if those are likely to be enough.
        """
        if not rows_before:
            return self.window_rows(0, last_rows)
        with self._lock:
            if not self._visited:
                return 0
            found = sum(self._found)
            share = (found + 1) / self._visited if self._has_filter else 1.0
            missing = self.limit - found
            rows = (missing - share * rows_before) / share
        return max(0, min(int(rows), GROWTH * max(last_rows, missing)))

    def never_begun(self) -> int:
        """Row groups that were not needed."""
        with self._lock:
            is_met = sum(self._found) >= self.limit
            return self._begun.count(False) if is_met else 0
