"""How far a job is: a bar on a terminal, a line now and then elsewhere.

In: a function that says how many rows are made. Out: text on standard error, from a thread of
its own, for as long as a `with` lasts.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable

_BAR_S, _LINE_S = 0.5, 15.0
_WIDTH = 30
INTERRUPTED = 130  # the exit status after Ctrl-C: 128 and the number of SIGINT


class Progress:
    """Shows progress towards `total` rows."""

    def __init__(self, total: int, made: Callable[[], int]) -> None:
        self._total, self._made = max(total, 1), made
        self._start = time.monotonic()
        self._first: int | None = None
        self._last = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if sys.stderr.isatty():
            sys.stderr.write("\n")

    def _run(self) -> None:
        bar = sys.stderr.isatty()
        while not self._stop.wait(_BAR_S if bar else _LINE_S):
            self._show(bar)
        if bar:
            self._show(bar)

    def _show(self, bar: bool) -> None:  # noqa: FBT001
        try:
            # A note that is just being written counts as nothing: never go back.
            made = self._last = max(self._made(), self._last)
        except (OSError, ValueError):  # a note that is being cleared away
            return
        self._first = made if self._first is None else self._first
        elapsed = time.monotonic() - self._start
        text = f"{made:,} of {self._total:,} rows, {elapsed:,.0f} s"
        rate = (made - self._first) / elapsed if elapsed else 0.0
        if rate > 0 and made < self._total:
            text += f", about {(self._total - made) / rate:,.0f} s left"
        if bar:
            full = _WIDTH * made // self._total
            sys.stderr.write(f"\r[{'#' * full}{'.' * (_WIDTH - full)}] {text}\x1b[K")
        else:
            sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
