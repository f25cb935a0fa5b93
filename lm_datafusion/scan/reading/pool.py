"""Runs tasks ahead on our own threads; results come out in task order.

In: tasks, and a function from a task to its items. Out: an iterator over the items of the first
task, then of the second, and so on.

Why our own threads: DataFusion pulls a dataset on threads of its runtime, where DataFusion itself
cannot be called; and decoding releases the GIL, so threads scale.

* A worker blocks once its task has `queue_size` unconsumed items: memory is bounded.
* Tasks start at most `ahead` tasks before the one being consumed, and before their turn only if
  `should_begin` allows it; `wake` asks it again.
* Closing the iterator (a LIMIT, an error, Ctrl-C) stops the workers and waits for them.
* A task of a store may give a `Round`, which is no item: it waits for an answer. Such a pool sets
  the task aside and goes on with another one; a task whose items are not consumed is set aside too.
  So a few workers serve many tasks, and tasks begin ahead as long as `should_begin` allows it.

Invariant: no thread outlives the iterator. A forked child has no workers: the iterator fails there
instead of waiting.
"""

from __future__ import annotations

import heapq
import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from lm_datafusion.errors import ScanStoppedError
from lm_datafusion.predicate.evaluator import may_call_here
from lm_datafusion.storage import Round

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# The most tasks that are begun and not consumed, if tasks are set aside.
MOST_AHEAD: Final = 256

Task = TypeVar("Task")
Item = TypeVar("Item")


class _Output(Generic[Item]):
    """The items that one task has produced and that are not consumed yet."""

    __slots__ = ("error", "is_done", "items")

    def __init__(self) -> None:
        self.items: deque[Item] = deque()
        self.is_done = False
        self.error: BaseException | None = None


class OrderedPool(Generic[Task, Item]):
    """Runs tasks on a few threads and yields their items in order."""

    def __init__(
        self,
        tasks: Sequence[Task],
        run: Callable[[Task], Iterator[Item | Round]],
        *,
        workers: int,
        queue_size: int,
        should_begin: Callable[[int], bool] | None = None,
        sets_aside: bool = False,
    ) -> None:
        self._tasks = tasks
        self._should_begin = should_begin
        self._run = run
        self._queue_size = queue_size
        self._outputs: list[_Output[Item]] = [_Output() for _ in tasks]
        self._changed = threading.Condition()
        self._next_task = 0
        self._consumed = 0
        self._stopped = False
        self._process = os.getpid()
        count = min(workers, len(tasks))
        self._sets_aside = sets_aside
        self._ahead = MOST_AHEAD if sets_aside else 2 * count
        # Tasks set aside: those that can go on, those that wait for a store, and those whose items
        # have to be consumed first.
        self._ready: list[tuple[int, Iterator[Item | Round]]] = []
        self._waiting: dict[int, Iterator[Item | Round]] = {}
        self._full: dict[int, Iterator[Item | Round]] = {}
        # How often, and how long, a worker had nothing to do but wait for a store.
        self.waits = 0
        self.wait_s = 0.0
        # Bytes of items that are not consumed yet.
        self.queued_bytes = 0
        self._threads = [
            threading.Thread(target=self._work, name=f"lm-scan-{n}", daemon=True)
            for n in range(count)
        ]

    def __iter__(self) -> Iterator[Item]:
        try:
            for thread in self._threads:
                thread.start()
            for index in range(len(self._outputs)):
                yield from self._drain(index)
                with self._changed:
                    self._consumed += 1
                    self._changed.notify_all()
        finally:
            self.close()

    def close(self) -> None:
        """Stops the workers and waits for them; safe to call twice."""
        if os.getpid() != self._process:
            return  # workers do not survive a fork, and one may have held the lock
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for thread in self._threads:
            if thread.ident is not None and thread is not threading.current_thread():
                thread.join()
        self._close_aside()

    def wake(self) -> None:
        """Notifies the workers that `should_begin` may answer differently."""
        with self._changed:
            self._changed.notify_all()

    def _drain(self, index: int) -> Iterator[Item]:
        output = self._outputs[index]
        while True:
            if os.getpid() != self._process:
                raise ScanStoppedError("the scan was begun before a fork, by threads of the parent")
            with self._changed:
                while not output.items and not output.is_done:
                    self._changed.wait()
                if not output.items:
                    if output.error is not None:
                        raise output.error
                    return
                item = output.items.popleft()
                if self._sets_aside:
                    self.queued_bytes -= _size_of(item)
                    self._resume(index, output)
                self._changed.notify_all()
            yield item

    def _work(self) -> None:
        try:
            may_call_here()
            while (job := self._next_job()) is not None:
                index, items = job
                try:
                    items = self._run(self._tasks[index]) if items is None else items
                except BaseException as error:  # noqa: BLE001 raised again where it is consumed
                    self._end(self._outputs[index], error)
                else:
                    self._produce(index, items)
        except BaseException as error:  # noqa: BLE001 raised again where it is consumed
            self._fail(error)

    def _next_job(self) -> tuple[int, Iterator[Item | Round] | None] | None:
        """Waits for a task to run; None when none is left, or the pool is closed."""
        with self._changed:
            while not self._stopped:
                if self._ready:
                    return heapq.heappop(self._ready)
                is_left = self._next_task < len(self._tasks)
                if is_left and self._can_begin():
                    self._next_task += 1
                    return self._next_task - 1, None
                if not is_left and not self._waiting and not self._full:
                    return None
                self._wait_for_change()
            return None

    def _wait_for_change(self) -> None:
        started = time.perf_counter()
        is_for_store = bool(self._waiting)
        self._changed.wait()
        if is_for_store:
            self.waits += 1
            self.wait_s += time.perf_counter() - started

    def _fail(self, error: BaseException) -> None:
        """A worker is lost: unfinished tasks fail, so that the consumer does not wait for them."""
        with self._changed:
            for output in self._outputs:
                if not output.is_done:
                    output.error = output.error or error
                    output.is_done = True
            self._stopped = True
            self._changed.notify_all()

    def _can_begin(self) -> bool:
        """Whether the next task may begin."""
        index = self._next_task
        if index <= self._consumed:
            return True
        if index >= self._consumed + self._ahead:
            return False
        return self._should_begin is None or self._should_begin(index)

    def _produce(self, index: int, items: Iterator[Item | Round]) -> None:
        """Runs a task until it ends or is set aside."""
        output = self._outputs[index]
        error: BaseException | None = None
        is_aside = False
        try:
            for item in items:
                if isinstance(item, Round):
                    is_aside = self._wait_aside(index, items, item)
                else:
                    is_aside = self._put(item, output, index, items)
                if is_aside:
                    return
                if self._stopped:
                    break
        except BaseException as raised:  # noqa: BLE001 raised again where it is consumed
            error = raised
        finally:
            if not is_aside:
                self._end(output, _close(items) or error)

    def _end(self, output: _Output[Item], error: BaseException | None) -> None:
        with self._changed:
            output.error = output.error or error
            output.is_done = True
            self._changed.notify_all()

    # ---- tasks set aside -------------------------------------------------------------------

    def _wait_aside(self, index: int, items: Iterator[Item | Round], wanted: Round) -> bool:
        """Sets a task aside until an answer has arrived."""
        with self._changed:
            if self._stopped:
                return False
            self._waiting[index] = items
        wanted.when_done(lambda: self._arrived(index))
        return True

    def _arrived(self, index: int) -> None:
        with self._changed:
            items = self._waiting.pop(index, None)
            if items is not None:
                heapq.heappush(self._ready, (index, items))
                self._changed.notify_all()

    def _resume(self, index: int, output: _Output[Item]) -> None:
        """Goes on with a task whose items are consumed; the lock is held."""
        if index in self._full and len(output.items) < self._queue_size:
            heapq.heappush(self._ready, (index, self._full.pop(index)))

    def _close_aside(self) -> None:
        """Ends the tasks that were set aside; no worker is left."""
        with self._changed:
            left = [items for _, items in self._ready]
            left += [*self._waiting.values(), *self._full.values()]
            self._ready, self._waiting, self._full = [], {}, {}
        for items in left:
            _close(items)

    def _put(
        self, item: Item, output: _Output[Item], index: int, items: Iterator[Item | Round]
    ) -> bool:
        """Queues an item; True if the task is set aside until its items are consumed."""
        with self._changed:
            if self._sets_aside:
                self.queued_bytes += _size_of(item)
                output.items.append(item)
                is_full = len(output.items) >= self._queue_size
                if is_full:
                    self._full[index] = items
                self._changed.notify_all()
                return is_full
            while not self._stopped and len(output.items) >= self._queue_size:
                self._changed.wait()
            if not self._stopped:
                output.items.append(item)
                self._changed.notify_all()
            return False


def _close(items: object) -> BaseException | None:
    """Closes a generator; the error that it raises."""
    try:
        close = getattr(items, "close", None)
        if close is not None:
            close()
    except BaseException as error:  # noqa: BLE001 raised again where it is consumed
        return error
    return None


def _size_of(item: object) -> int:
    return int(getattr(item, "nbytes", 0))
