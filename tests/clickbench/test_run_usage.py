"""Time and memory of one piece of work, and not of the one before."""

from __future__ import annotations

import itertools
import mmap
import time

from clickbench import usage
from clickbench.usage import Meter


def measured(work):
    meter = Meter()
    meter.start()
    work()
    return meter.stop()


def allocate():
    """Memory that goes back to the system at once, which that of `malloc` need not."""
    with mmap.mmap(-1, 240_000_000) as memory:
        for start in range(0, len(memory), mmap.PAGESIZE):
            memory[start] = 1


def spin():
    stop = time.process_time() + 0.2
    while time.process_time() < stop:
        pass


def test_cpu_time_is_not_wall_time():
    assert measured(spin).cpu_s >= 0.19
    asleep = measured(lambda: time.sleep(0.2))
    assert asleep.wall_s >= 0.2
    assert asleep.cpu_s < 0.1


def test_settling_waits_until_a_moment_without_work(monkeypatch):
    seen = iter([0.0, 0.03, 1.0, 1.02, 2.0, 2.001])
    monkeypatch.setattr(Meter, "_cpu_s", lambda self, everyone: next(seen))
    assert Meter().settle()
    assert list(seen) == [], "two busy moments and an idle one"


def test_settling_has_an_end(monkeypatch):
    busy = itertools.count()
    monkeypatch.setattr(Meter, "_cpu_s", lambda self, everyone: next(busy))
    monkeypatch.setattr(usage, "_PATIENCE_S", 0.1)
    assert not Meter().settle()


def test_the_peak_is_forgotten_between_runs():
    large = measured(allocate)
    small = measured(lambda: None)
    assert large.peak_bytes - small.peak_bytes > 200_000_000


def test_memory_is_sampled_where_the_system_keeps_no_peak(monkeypatch):
    monkeypatch.setattr(usage, "_forget_peak", lambda pid: False)
    large = measured(lambda: (allocate(), time.sleep(0.05)))
    small = measured(lambda: None)
    assert large.peak_bytes > small.peak_bytes > 10_000_000
