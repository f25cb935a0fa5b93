"""Scans end before the interpreter does.

In: the end of the interpreter (`atexit`). Out: a process in which no thread is about to run Python.

Why: DataFusion pulls a scan on threads of its runtime. A thread that asks for the GIL once the
interpreter is finalizing is ended by CPython with a forced unwind; in Rust's frames that is
"FATAL: exception not rethrown", and the process aborts. Threads of ours that are inside
DataFusion's evaluator end the same way.

At exit, then:

1. Every scan under way is stopped: its next step raises `ScanStoppedError`. Its rows have no reader
   any more.
2. The hook waits until all other threads sleep. A thread that waits for room in a queue sleeps on;
   nobody takes from the queue again.

Whether Rust is about to call Python cannot be asked, so threads are watched: they used no processor
time for a while, and none is runnable. The second matters where the machine is busy.

Invariant: scans that begin after the hook, in an `atexit` function that runs later, are not
stopped.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import threading
import time
from typing import Final

from lm_datafusion.errors import ScanStoppedError

LONGEST_WAIT_S: Final = 10.0
_WINDOW_S: Final = 0.005
_QUIET_WINDOWS: Final = 2
# A sleeping process spends some of it on the look around.
_QUIET_SHARE: Final = 0.1
_TASKS: Final = "/proc/self/task"


class Era:
    """Counts how often scans were stopped; a scan of an earlier era is over."""

    def __init__(self) -> None:
        self._now = 0

    def begin(self) -> int:
        """The era of a scan that begins."""
        stop_at_exit()
        return self._now

    def check(self, era: int) -> None:
        """Raises `ScanStoppedError` if scans of this era were stopped."""
        if era != self._now:
            raise ScanStoppedError("the scan was stopped: the interpreter is ending")

    def stop(self) -> None:
        """Stops every scan that has begun."""
        self._now += 1


ERA: Final = Era()


@functools.cache
def stop_at_exit() -> None:
    """Has scans stopped at the end of the interpreter; called before a thread can begin one."""
    atexit.register(end_scans)


def end_scans(longest_wait_s: float = LONGEST_WAIT_S) -> bool:
    """Stops all scans and waits until no other thread is busy; whether that came about."""
    deadline = time.monotonic() + longest_wait_s
    quiet = 0
    while quiet < _QUIET_WINDOWS and time.monotonic() < deadline:
        # Again and again: a partition of a stopped query may begin its scan only now.
        ERA.stop()
        used_s = time.process_time()
        time.sleep(_WINDOW_S)
        is_idle = time.process_time() - used_s <= _QUIET_SHARE * _WINDOW_S
        quiet = quiet + 1 if is_idle and not _is_any_thread_runnable() else 0
    return quiet >= _QUIET_WINDOWS


def _is_any_thread_runnable() -> bool:
    """Whether another thread of the process would run if it could; False where nobody can say."""
    own = str(threading.get_native_id())
    with contextlib.suppress(OSError):
        for task in os.listdir(_TASKS):
            if task != own and _state(task) in "RD":
                return True
    return False


def _state(task: str) -> str:
    try:
        with open(f"{_TASKS}/{task}/stat", encoding="utf-8", errors="replace") as stat:
            # The name in front is in brackets and may hold anything.
            return stat.read().rpartition(")")[2].split()[0]
    except OSError:  # it has ended
        return "X"
