"""Tasks that wait for a store are set aside, and so are those whose items nobody takes."""

from __future__ import annotations

import threading

import pytest

from lm_datafusion.scan.reading.pool import OrderedPool
from lm_datafusion.storage import Round


class Answer(Round):
    """A round that is answered when a test says so, or after a moment."""

    def __init__(self, delay_s: float | None = None) -> None:
        self._calls = []
        self._is_answered = False
        self._lock = threading.Lock()
        if delay_s is not None:
            threading.Timer(delay_s, self.answer).start()

    def when_done(self, call) -> None:
        with self._lock:
            is_answered = self._is_answered
            if not is_answered:
                self._calls.append(call)
        if is_answered:
            call()

    def answer(self) -> None:
        with self._lock:
            self._is_answered = True
            calls, self._calls = self._calls, []
        for call in calls:
            call()


def pool(tasks, run, workers=2, queue_size=2, **settings):
    return OrderedPool(
        tasks, run, workers=workers, queue_size=queue_size, sets_aside=True, **settings
    )


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("queue_size", [1, 3])
def test_items_come_in_order_whatever_waits(workers, queue_size):
    def run(task):
        for item in range(task % 5):
            if (task + item) % 3 == 0:
                yield Answer(0.001 * (task % 4))
            yield task, item

    items = list(pool(range(40), run, workers, queue_size))
    assert items == [(task, item) for task in range(40) for item in range(task % 5)]


def test_one_worker_begins_every_task_while_they_wait():
    answers = [Answer() for _ in range(10)]
    begun = threading.Event()
    started = []

    def run(task):
        started.append(task)
        if len(started) == 10:
            begun.set()
        yield answers[task]
        yield task

    made = pool(range(10), run, workers=1)
    found = []
    consumer = threading.Thread(target=lambda: found.extend(made))
    consumer.start()
    assert begun.wait(10)
    for answer in reversed(answers):
        answer.answer()
    consumer.join(10)
    assert found == list(range(10))
    assert made.waits > 0


def test_a_task_that_nobody_consumes_blocks_no_worker():
    """The first task is answered last; the only worker must not wait in the others."""
    first = Answer()

    def run(task):
        if task == 0:
            yield first
        yield from range(5)
        if task == 3:
            first.answer()

    items = list(pool(range(4), run, workers=1, queue_size=6))
    assert items == [*range(5)] * 4


def test_only_what_has_room_begins():
    started = []

    def run(task):
        started.append(task)
        yield task

    made = pool(range(6), run, workers=2, should_begin=lambda index: index < 2)
    iterator = iter(made)
    assert next(iterator) == 0
    assert [next(iterator) for _ in range(5)] == [1, 2, 3, 4, 5]
    assert started == sorted(started)


def test_closing_ends_the_tasks_that_are_set_aside():
    ended = []

    def run(task):
        try:
            yield task
            yield Answer()  # never answered
        finally:
            ended.append(task)

    iterator = iter(pool(range(6), run, queue_size=1))
    assert next(iterator) == 0
    iterator.close()
    assert ended
    assert not [t for t in threading.enumerate() if t.name.startswith("lm-scan")]


def test_an_error_after_an_answer_is_raised_in_turn():
    def run(task):
        yield Answer(0.002)
        yield task
        if task == 2:
            raise KeyError("task 2")

    iterator = iter(pool(range(5), run))
    assert [next(iterator) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError, match="task 2"):
        next(iterator)
