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


def test_a_worker_that_is_lost_is_an_error_and_nobody_waits():
    def should_begin(index):
        raise KeyError("should_begin")

    def run(task):
        yield task

    tasks = OrderedPool(range(5), run, workers=2, queue_size=2, should_begin=should_begin)
    with pytest.raises(KeyError, match="should_begin"):
        list(tasks)
    assert not alive()


def test_a_task_that_cannot_begin_is_an_error():
    def run(task):
        raise KeyError("no generator")

    with pytest.raises(KeyError, match="no generator"):
        list(pool(range(3), run))
    assert not alive()


def test_a_task_that_cannot_end_is_an_error():
    class Items:
        def __iter__(self):
            return iter([1, 2])

        def close(self):
            raise KeyError("close")

    with pytest.raises(KeyError, match="close"):
        list(pool(range(3), lambda _: Items()))
    assert not alive()


def test_threads_that_cannot_be_started_are_an_error(monkeypatch):
    started = []
    start = threading.Thread.start

    def refuse(thread):
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start"):
        list(pool(range(50), lambda _: iter(range(50))))
    assert not alive()
