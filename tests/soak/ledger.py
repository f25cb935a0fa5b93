"""When which version of a file was current.

In: changes of files, each noted before and after it happens. Out: the versions of every file that
a reader can have met between two times.

A version can be met from the time before the call that brings it to the time after the call that
takes it away. `ABSENT` is the version of a file that is not there.

Invariant: what `candidates` gives holds every version that was current at some moment of the span,
and none that was gone before it or came after it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ABSENT = -1


@dataclass(slots=True)
class Tenure:
    """A version of a file, and when it can be met; `until_s` is infinite while it is current."""

    version: int
    since_s: float
    until_s: float = float("inf")


@dataclass(frozen=True, slots=True)
class Span:
    """The time of a query."""

    begin_s: float
    end_s: float


class Ledger:
    """The tenures of the files of one table; safe to share between threads."""

    def __init__(self) -> None:
        self._tenures: dict[int, list[Tenure]] = {}
        self._running: dict[object, float] = {}
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def change(self, file: int, version: int) -> Iterator[None]:
        """Notes that a file becomes another version inside the block.

        If the block fails, both versions count as current from its beginning on.
        """
        begin_s = time.monotonic()
        with self._lock:
            own = self._tenures.setdefault(file, [Tenure(ABSENT, float("-inf"))])
            before = own[-1]
            own.append(Tenure(version, begin_s))
        yield
        with self._lock:
            before.until_s = time.monotonic()

    def current(self) -> dict[int, int]:
        """The version of each file that is there."""
        with self._lock:
            last = {file: own[-1].version for file, own in self._tenures.items()}
        return {file: version for file, version in last.items() if version != ABSENT}

    @contextlib.contextmanager
    def span(self) -> Iterator[list[Span]]:
        """The time of a block, in the list once the block is over."""
        found: list[Span] = []
        token = object()
        with self._lock:
            begin_s = self._running[token] = time.monotonic()
        try:
            yield found
        finally:
            found.append(Span(begin_s, time.monotonic()))
            with self._lock:
                del self._running[token]

    def candidates(self, span: Span) -> dict[int, list[int]]:
        """By file: the versions that a query of that time can have met."""
        with self._lock:
            return {
                file: [
                    tenure.version
                    for tenure in own
                    if tenure.since_s <= span.end_s and tenure.until_s >= span.begin_s
                ]
                for file, own in self._tenures.items()
            }

    def has_change(self, span: Span) -> bool:
        """Whether a file changed in that time."""
        return any(len(set(versions)) > 1 for versions in self.candidates(span).values())

    def forget(self, keep_s: float) -> set[tuple[int, int]]:
        """Drops what ended so long ago that nobody asks for it; the (file, version) pairs left."""
        with self._lock:
            oldest_s = min([time.monotonic(), *self._running.values()]) - keep_s
            for file, own in list(self._tenures.items()):
                own[:] = [tenure for tenure in own if tenure.until_s >= oldest_s]
                if [tenure.version for tenure in own] == [ABSENT]:
                    del self._tenures[file]
            return {(file, t.version) for file, own in self._tenures.items() for t in own}
