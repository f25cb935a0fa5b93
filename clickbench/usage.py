"""What one query cost a process and its children.

In: the start and the end of a piece of work. Out: wall time, CPU time, peak memory.

CPU time is that of this process, precisely, and of its living children (Spark's JVM), which the
system counts in hundredths of a second. Peak memory is the sum over these processes of the largest
resident set since the start: Linux keeps that number (VmHWM) and forgets it on request. Where it
does not, memory is looked at every hundredth of a second.

Invariant: nothing is measured between `stop` and the next `start`.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import psutil

_SAMPLE_S = 0.01
_QUIET_S = 0.03
_QUIET_SHARE = 0.2
_PATIENCE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The cost of one run; `start_bytes` is the memory that was there when it began."""

    wall_s: float
    cpu_s: float
    peak_bytes: int
    start_bytes: int = 0


class Meter:
    """Measures one piece of work at a time in the process it lives in."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._children: list[psutil.Process] = []
        self._sampler: _Sampler | None = None
        self._wall = self._cpu = 0.0
        self._start_bytes = 0

    def start(self) -> None:
        """Begins; children that start later count as well."""
        self._children = self._process.children(recursive=True)
        everyone = [self._process, *self._children]
        if not all(_forget_peak(process.pid) for process in everyone):
            self._sampler = _Sampler(self._process)
        self._start_bytes = sum(process.memory_info().rss for process in everyone)
        self._cpu = self._cpu_s(everyone)
        self._wall = time.perf_counter()

    def stop(self) -> Usage:
        """Ends."""
        wall_s = time.perf_counter() - self._wall
        everyone = [self._process, *self._process.children(recursive=True)]
        cpu_s = self._cpu_s(everyone) - self._cpu
        if self._sampler is not None:
            peak_bytes = self._sampler.stop()
            self._sampler = None
        else:
            peak_bytes = sum(_peak(process.pid) for process in everyone)
        return Usage(
            wall_s=wall_s,
            cpu_s=max(cpu_s, 0.0),
            peak_bytes=peak_bytes,
            start_bytes=self._start_bytes,
        )

    def settle(self) -> bool:
        """Waits until process and children are nearly idle; whether they became so in time.

        A JVM collects garbage and compiles for a while after its answer, on cores that the next
        engine is about to need.
        """
        end = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end:
            everyone = [self._process, *self._process.children(recursive=True)]
            before = self._cpu_s(everyone)
            time.sleep(_QUIET_S)
            if self._cpu_s(everyone) - before < _QUIET_S * _QUIET_SHARE:
                return True
        return False

    def _cpu_s(self, everyone: list[psutil.Process]) -> float:
        total = time.process_time()
        for process in everyone[1:]:
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system
        return total


class _Sampler:
    """Looks at resident memory from a thread, where the system keeps no peak."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._peak_bytes = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        self._done.set()
        self._thread.join()
        self._look()
        return self._peak_bytes

    def _watch(self) -> None:
        while not self._done.wait(_SAMPLE_S):
            self._look()

    def _look(self) -> None:
        resident = 0
        for process in [self._process, *self._process.children(recursive=True)]:
            try:
                resident += process.memory_info().rss
            except psutil.NoSuchProcess:
                continue
        self._peak_bytes = max(self._peak_bytes, resident)


def _forget_peak(pid: int) -> bool:
    """Makes Linux start a process's VmHWM again; whether that worked."""
    try:
        with open(f"/proc/{pid}/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        return False
    return True


def _peak(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
