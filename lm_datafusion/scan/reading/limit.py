"""The rows that a scan with a limit still has to find.

In: the rows found by each window of each row group. Out: how many rows are missing, how many rows
the next window should have, and whether to begin the next row group.

Several workers scan the row groups in order. A row group begun too early may be read for nothing;
one begun too late leaves a core idle. So a row group is begun before its turn only if those before
it are not expected to yield enough rows: the share of rows that passed so far, times the rows they
have left.

Invariant: `missing` never underestimates what the row groups up to an index still lack.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# The most a window grows over the one before, however few rows passed.
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

    def begin(self, index: int, row_count: int) -> None:
        """A row group begins, with `row_count` rows left after pruning."""
        with self._lock:
            self._begun[index] = True
            self._left[index] = row_count
        self.on_change()

    def note(self, index: int, *, visited: int, found: int) -> None:
        """A window was scanned."""
        with self._lock:
            self._left[index] -= visited
            self._visited += visited
            self._found[index] += found
        self.on_change()

    def missing(self, index: int) -> int:
        """Rows that the row groups up to an index have not found yet."""
        with self._lock:
            return max(0, self.limit - sum(self._found[: index + 1]))

    def window_rows(self, index: int, last_rows: int) -> int:
        """How many rows the next window should have; the last one had `last_rows`, 0 if none."""
        missing = self.missing(index)
        with self._lock:
            if not self._visited or not self._has_filter:
                return missing
            found = sum(self._found)
            expected = missing * self._visited // found if found else 2 * max(1, last_rows)
        return max(1, min(expected, GROWTH * max(last_rows, missing)))

    def should_begin(self, index: int) -> bool:
        """Whether a row group is likely to be needed; called before its turn."""
        with self._lock:
            found, left = sum(self._found[:index]), sum(self._left[:index])
            if not self._has_filter:
                return found + left < self.limit
            if not self._visited:
                return False
            share = (sum(self._found) + 1) / self._visited
            return found + share * left < self.limit

    def window_rows_after(self, rows_before: int, last_rows: int) -> int:
        """As `window_rows`, given the number of earlier rows still to be scanned.

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
