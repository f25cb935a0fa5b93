from __future__ import annotations

import threading
import time

import pytest

from lm_datafusion.scan.reading.pool import OrderedPool


def alive():
    return [t.name for t in threading.enumerate() if t.name.startswith("lm-scan")]


def pool(tasks, run, workers=2, queue_size=2):
    return OrderedPool(tasks, run, workers=workers, queue_size=queue_size)


def test_items_come_in_the_order_of_the_tasks():
    def run(task):
        time.sleep(0.002 * (task % 3))
        yield from ((task, item) for item in range(task % 4))

    items = list(pool(range(20), run, workers=3))
    assert items == [(task, item) for task in range(20) for item in range(task % 4)]
    assert not alive()


def test_no_tasks():
    assert list(pool([], lambda _: iter([1]))) == []


def test_an_error_comes_out_after_what_was_produced_before_it():
    def run(task):
        yield task
        if task == 2:
            raise KeyError("task 2")

    seen = []
    with pytest.raises(KeyError, match="task 2"):
        seen.extend(pool(range(5), run))
    items = pool(range(5), run)
    iterator = iter(items)
    assert [next(iterator) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError):
        next(iterator)
    assert not alive()


def test_closing_early_stops_the_workers_and_closes_their_generators():
    closed = []

    def run(task):
        try:
            while True:
                yield task
        finally:
            closed.append(task)

    iterator = iter(pool(range(4), run))
    assert next(iterator) == 0
    iterator.close()
    assert not alive()
    assert sorted(closed) == [0, 1]


def test_memory_is_bounded_by_the_queues():
    produced = []

    def run(task):
        for item in range(100):
            produced.append((task, item))
            yield item

    iterator = iter(pool(range(50), run, workers=2, queue_size=3))
    next(iterator)
    time.sleep(0.1)
    # One item taken, three queued and one waiting, per worker.
    assert len(produced) <= 2 * 4 + 1
    iterator.close()


def test_tasks_do_not_run_far_ahead_of_the_consumer():
    started = []

    def run(task):
        started.append(task)
        yield task

    iterator = iter(pool(range(100), run, workers=2))
    next(iterator)
    time.sleep(0.1)
    assert len(started) <= 1 + 4
    assert list(iterator) == list(range(1, 100))
