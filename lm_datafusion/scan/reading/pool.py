"""Runs tasks ahead on our own threads; results come out in task order.

In: tasks, and a function from a task to its items. Out: an iterator over the items of the first
task, then of the second, and so on.

Why our own threads: DataFusion pulls a dataset on threads of its runtime, where DataFusion itself
cannot be called; and decoding releases the GIL, so threads scale.

* A worker blocks once its task has `queue_size` unconsumed items: memory is bounded.
* Tasks start at most `ahead` tasks before the one being consumed, and before their turn only if
  `should_begin` allows it; `wake` asks it again.
* Closing the iterator (a LIMIT, an error, Ctrl-C) stops the workers and waits for them.

Invariant: no thread outlives the iterator. A forked child has no workers: the iterator fails there
instead of waiting.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

from lm_datafusion.errors import ScanStoppedError
from lm_datafusion.predicate.evaluator import may_call_here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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
        run: Callable[[Task], Iterator[Item]],
        *,
        workers: int,
        queue_size: int,
        should_begin: Callable[[int], bool] | None = None,
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
        self._ahead = 2 * count
        self._threads = [
            threading.Thread(target=self._work, name=f"lm-scan-{n}", daemon=True)
            for n in range(count)
        ]

    def __iter__(self) -> Iterator[Item]:
        try:
            for thread in self._threads:
                thread.start()
            for output in self._outputs:
                yield from self._drain(output)
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

    def wake(self) -> None:
        """Notifies the workers that `should_begin` may answer differently."""
        with self._changed:
            self._changed.notify_all()

    def _drain(self, output: _Output[Item]) -> Iterator[Item]:
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
                self._changed.notify_all()
            yield item

    def _work(self) -> None:
        try:
            may_call_here()
            while (index := self._next_index()) is not None:
                self._produce(self._tasks[index], self._outputs[index])
        except BaseException as error:  # noqa: BLE001 raised again where it is consumed
            self._fail(error)

    def _next_index(self) -> int | None:
        """Waits for a task to begin; None when none is left, or the pool is closed."""
        with self._changed:
            while not self._stopped and not self._can_begin():
                self._changed.wait()
            if self._stopped or self._next_task >= len(self._tasks):
                return None
            self._next_task += 1
            return self._next_task - 1

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
        """Whether a task can be taken, or none is left to wait for."""
        index = self._next_task
        if index <= self._consumed or index >= len(self._tasks):
            return True
        if index >= self._consumed + self._ahead:
            return False
        return self._should_begin is None or self._should_begin(index)

    def _produce(self, task: Task, output: _Output[Item]) -> None:
        try:
            items = self._run(task)
            try:
                for item in items:
                    if not self._put(item, output):
                        break
            finally:
                close = getattr(items, "close", None)
                if close is not None:
                    close()
        except BaseException as error:  # noqa: BLE001 raised again where it is consumed
            output.error = error
        finally:
            with self._changed:
                output.is_done = True
                self._changed.notify_all()

    def _put(self, item: Item, output: _Output[Item]) -> bool:
        """Queues an item once there is room; False if the iterator was closed."""
        with self._changed:
            while not self._stopped and len(output.items) >= self._queue_size:
                self._changed.wait()
            if self._stopped:
                return False
            output.items.append(item)
            self._changed.notify_all()
            return True
