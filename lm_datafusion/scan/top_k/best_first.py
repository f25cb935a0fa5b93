"""Visits containers in the order of their best key.

In: row groups with their best keys; later the pages of opened row groups. Out: the next step: open
a row group, or scan some of its pages together.

A row group is opened, and its page index read, once no opened page can hold a better row. So a
sorted file is read page by page from its better end, and an unsorted file still skips pages that
cannot beat the rows found.

Windows grow, so that few rows take few pages and many rows take few calls: a window takes the next
pages of its row group until they hold the rows asked for. If the pages of all columns are aligned,
several workers share a row group; otherwise one worker at a time scans it, so that a page that
spans windows is decompressed once.

Invariant: a container is visited once, or dropped because it cannot hold a good enough row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lm_datafusion.scan.keys.best_keys import visit_key
from lm_datafusion.selection import RowSelection

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from lm_datafusion.plan import BestKey, FirstRows
    from lm_datafusion.scan.keys.best_keys import VisitKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """Rows of a row group that share one bound."""

    start: int
    stop: int
    row_count: int
    best: BestKey
    key: VisitKey


@dataclass(slots=True)
class _Opened:
    """An opened row group; its best container is last."""

    selection: RowSelection
    containers: list[Container]
    ahead: RowSelection
    most_rows: int
    is_shared: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """The next step: open a row group, or scan a window of it.

    `is_shared` means that other workers may scan the row group at the same time.
    """

    index: int
    row_count: int
    window: RowSelection | None = None
    is_shared: bool = False


class BestFirst:
    """The containers still to visit. Not thread-safe."""

    def __init__(
        self,
        best_keys: Sequence[BestKey],
        row_counts: Sequence[int],
        first: FirstRows,
        can_hold: Callable[[BestKey], bool],
    ) -> None:
        self._first = first
        self._can_hold = can_hold
        keyed = [(visit_key(best, first, index), index) for index, best in enumerate(best_keys)]
        self._best_keys = best_keys
        self._row_counts = row_counts
        self._unopened = sorted(keyed, reverse=True)
        self._opened: dict[int, _Opened] = {}
        self._busy: dict[int, int] = {}
        self._rows_in_flight = 0
        self.never_opened = 0

    @property
    def is_idle(self) -> bool:
        """Whether no visit is in progress."""
        return not self._busy

    def next_visit(self, window_rows: Callable[[int], int]) -> Visit | None:
        """The best container available now; None if there is none, or none is worth visiting.

        Args:
            window_rows: About how many rows a window should have, given the number of better rows
                not scanned yet; 0 if those are likely to be enough.
        """
        self._drop_unopened()
        heads = [
            (opened.containers[-1].key, index)
            for index, opened in self._opened.items()
            if self._can_take(index, opened) and self._has_containers(opened)
        ]
        if self._unopened:
            heads.append(self._unopened[-1])
        if not heads:
            return None
        key, index = min(heads)
        row_count = window_rows(self._rows_in_flight + self._better_rows(key))
        if row_count <= 0:
            return None
        self._busy[index] = self._busy.get(index, 0) + 1
        if index in self._opened:
            visit = self._window(index, row_count)
        else:
            self._unopened.pop()
            visit = Visit(index=index, row_count=self._row_counts[index])
        self._rows_in_flight += visit.row_count
        return visit

    def done(self, visit: Visit) -> None:
        """Marks a visit as done."""
        self._busy[visit.index] -= 1
        if not self._busy[visit.index]:
            del self._busy[visit.index]
        self._rows_in_flight -= visit.row_count

    def _can_take(self, index: int, opened: _Opened) -> bool:
        return opened.is_shared or index not in self._busy

    def _better_rows(self, key: VisitKey) -> int:
        """Rows of containers that sort before a key but wait for a busy row group."""
        rows = 0
        for index in self._busy:
            opened = self._opened.get(index)
            if opened is not None and not opened.is_shared:
                for container in reversed(opened.containers):
                    if container.key > key:
                        break
                    rows += container.row_count
        return rows

    def open(
        self,
        index: int,
        selection: RowSelection,
        pages: tuple[npt.NDArray[np.int64], Sequence[BestKey]],
        *,
        most_rows: int,
        is_shared: bool,
    ) -> None:
        """Adds the containers of a row group.

        Args:
            index: The index of the row group in the plan.
            selection: Its remaining rows.
            pages: First rows of the containers, ascending from 0, and their best keys.
            most_rows: The most rows that one of its windows may have.
            is_shared: Whether no page of any column spans containers.
        """
        starts, best = pages
        stops = np.append(starts, selection.total_rows)[1:]
        containers = [
            Container(
                start=start,
                stop=stop,
                row_count=row_count,
                best=key,
                key=visit_key(key, self._first, index + start / selection.total_rows),
            )
            for start, stop, row_count, key in zip(
                starts.tolist(),
                stops.tolist(),
                _count_rows(selection, starts, stops).tolist(),
                best,
                strict=True,
            )
            if row_count
        ]
        containers.sort(key=lambda container: container.key, reverse=True)
        self._opened[index] = _Opened(selection, containers, selection, most_rows, is_shared)

    def never_visited(self, index: int) -> RowSelection | None:
        """The rows of an opened row group that were never visited."""
        opened = self._opened.get(index)
        return None if opened is None else opened.ahead

    def _window(self, index: int, row_count: int) -> Visit:
        opened = self._opened[index]
        limit = min(row_count, opened.most_rows)
        taken = [opened.containers.pop()]
        rows = taken[0].row_count
        while self._has_containers(opened) and rows + opened.containers[-1].row_count <= limit:
            taken.append(opened.containers.pop())
            rows += taken[-1].row_count
        taken.sort(key=lambda container: container.start)
        ranges = [(container.start, container.stop) for container in taken]
        whole = RowSelection.from_consecutive_ranges(ranges, opened.selection.total_rows)
        opened.ahead = opened.ahead.difference(whole)
        window = opened.selection.intersection(whole)
        return Visit(
            index=index,
            row_count=window.row_count,
            window=window,
            is_shared=opened.is_shared,
        )

    def _has_containers(self, opened: _Opened) -> bool:
        """Whether containers are left; drops those that cannot hold a good enough row."""
        containers = opened.containers
        while containers and not self._can_hold(containers[-1].best):
            containers.pop()
        return bool(containers)

    def _drop_unopened(self) -> None:
        while self._unopened and not self._can_hold(self._best_keys[self._unopened[-1][1]]):
            self._unopened.pop()
            self.never_opened += 1


def _count_rows(
    selection: RowSelection, starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Selected rows of each range."""
    if selection.selects_all():
        return stops - starts
    before = np.concatenate([[0], np.cumsum(selection.to_mask())])
    return before[stops] - before[starts]
