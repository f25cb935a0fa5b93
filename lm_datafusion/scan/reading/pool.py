"""Tasks run ahead on threads of our own; results come out in the order of the tasks.

In: tasks, and a function from a task to its items. Out: an iterator over the items of the first
task, then of the second, and so on.

Why own threads: DataFusion pulls a dataset on threads of its runtime, where DataFusion itself
cannot be called; and decoding releases the GIL, so threads scale.

* A worker blocks once its task holds `queue_size` items that nobody took: memory is bounded.
* Tasks start at most `ahead` tasks before the one being consumed, and before their turn only if
  `should_begin` says so; `wake` has it asked again.
* Closing the iterator (a LIMIT, an error, Ctrl-C) stops the workers and waits for them.

Invariant: no thread outlives the iterator.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

from lm_datafusion.predicate.evaluator import may_call_here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Task = TypeVar("Task")
Item = TypeVar("Item")


class _Output(Generic[Item]):
    """What one task has produced and nobody took yet."""

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
        count = min(workers, len(tasks))
        self._ahead = 2 * count
        self._threads = [
            threading.Thread(target=self._work, name=f"lm-scan-{n}", daemon=True)
            for n in range(count)
        ]

    def __iter__(self) -> Iterator[Item]:
        for thread in self._threads:
            thread.start()
        try:
            for output in self._outputs:
                yield from self._drain(output)
                with self._changed:
                    self._consumed += 1
                    self._changed.notify_all()
        finally:
            self.close()

    def close(self) -> None:
        """Stops the workers and waits for them; safe to call twice."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for thread in self._threads:
            if thread.ident is not None and thread is not threading.current_thread():
                thread.join()

    def wake(self) -> None:
        """Something changed that `should_begin` goes by."""
        with self._changed:
            self._changed.notify_all()

    def _drain(self, output: _Output[Item]) -> Iterator[Item]:
        while True:
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
        may_call_here()
        while True:
            with self._changed:
                while not self._stopped and not self._can_begin():
                    self._changed.wait()
                if self._stopped or self._next_task >= len(self._tasks):
                    return
                index = self._next_task
                self._next_task += 1
            self._produce(self._tasks[index], self._outputs[index])

    def _can_begin(self) -> bool:
        """Whether there is a task to take, or none is left to wait for."""
        place = self._next_task
        if place <= self._consumed or place >= len(self._tasks):
            return True
        if place >= self._consumed + self._ahead:
            return False
        return self._should_begin is None or self._should_begin(place)

    def _produce(self, task: Task, output: _Output[Item]) -> None:
        items = self._run(task)
        try:
            for item in items:
                if not self._put(item, output):
                    break
        except BaseException as error:  # noqa: BLE001 raised again where it is consumed
            output.error = error
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()
            with self._changed:
                output.is_done = True
                self._changed.notify_all()

    def _put(self, item: Item, output: _Output[Item]) -> bool:
        """Hands an item over once there is room; False if the iterator was closed."""
        with self._changed:
            while not self._stopped and len(output.items) >= self._queue_size:
                self._changed.wait()
            if self._stopped:
                return False
            output.items.append(item)
            self._changed.notify_all()
            return True
