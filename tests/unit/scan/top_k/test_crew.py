from __future__ import annotations

import threading

import pytest

from lm_datafusion.scan.top_k.crew import run_crew
from tests.dataset_files import scan_threads


def test_every_worker_works_and_has_ended_afterwards():
    names = []
    run_crew(lambda: names.append(threading.current_thread().name), lambda: None, workers=3)
    assert sorted(names) == ["lm-scan-0", "lm-scan-1", "lm-scan-2"]
    assert scan_threads() == []


def test_one_that_fails_stops_the_others():
    is_stopped, is_first = threading.Event(), threading.Lock()
    answers = []

    def work():
        if is_first.acquire(blocking=False):
            raise ValueError("broken")
        answers.append(is_stopped.wait(timeout=10))

    with pytest.raises(ValueError, match="broken"):
        run_crew(work, is_stopped.set, workers=2)
    assert answers == [True]
    assert scan_threads() == []


def test_waiting_that_is_cut_short_stops_all(monkeypatch):
    is_stopped = threading.Event()
    join, interruptions = threading.Thread.join, [KeyboardInterrupt()]

    def interrupted(thread, timeout=None):
        if interruptions:
            raise interruptions.pop()
        join(thread, timeout)

    monkeypatch.setattr(threading.Thread, "join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_crew(lambda: is_stopped.wait(timeout=10), is_stopped.set, workers=2)
    assert is_stopped.is_set()
    assert scan_threads() == []
