"""Scans end before the interpreter does.

In: interpreter exit (`atexit`). Out: a process in which no thread is about to run Python.

Why: DataFusion pulls a scan on threads of its runtime. CPython ends a thread that requests the GIL
during finalization with a forced unwind. In Rust frames that is "FATAL: exception not rethrown",
and the process aborts. Our threads inside DataFusion's evaluator end the same way.

At exit, then:

1. Every running scan is stopped: its next step raises `ScanStoppedError`. Nothing reads its rows
   any more.
2. The hook waits until all other threads sleep. A thread that waits for room in a queue keeps
   sleeping, because nothing drains the queue.

There is no way to ask whether Rust is about to call Python, so the hook watches the threads: it
waits until they use no CPU time for a while and none is runnable. The second check matters on a
busy machine.

Invariant: scans that begin after the hook, in a later `atexit` function, are not stopped.
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
# The check itself takes some CPU time.
_QUIET_SHARE: Final = 0.1
_TASKS: Final = "/proc/self/task"


class Era:
    """Counts how often scans were stopped; scans of an earlier era are over."""

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
    """Registers the exit hook; called before a thread can begin a scan."""
    atexit.register(end_scans)


def end_scans(longest_wait_s: float = LONGEST_WAIT_S) -> bool:
    """Stops all scans and waits until no other thread is busy; False on timeout."""
    deadline = time.monotonic() + longest_wait_s
    quiet = 0
    while quiet < _QUIET_WINDOWS and time.monotonic() < deadline:
        # Repeated, because a partition of a stopped query may begin its scan late.
        ERA.stop()
        used_s = time.process_time()
        time.sleep(_WINDOW_S)
        is_idle = time.process_time() - used_s <= _QUIET_SHARE * _WINDOW_S
        quiet = quiet + 1 if is_idle and not _is_any_thread_runnable() else 0
    return quiet >= _QUIET_WINDOWS


def _is_any_thread_runnable() -> bool:
    """Whether another thread of the process is runnable; False where that is unknown."""
    current = str(threading.get_native_id())
    with contextlib.suppress(OSError):
        for task in os.listdir(_TASKS):
            if task != current and _state(task) in "RD":
                return True
    return False


def _state(task: str) -> str:
    try:
        with open(f"{_TASKS}/{task}/stat", encoding="utf-8", errors="replace") as stat:
            # The thread name before it is in parentheses and may contain anything.
            return stat.read().rpartition(")")[2].split()[0]
    except OSError:  # it has ended
        return "X"
