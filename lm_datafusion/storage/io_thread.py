"""The thread that waits for object stores.

In: coroutines. Out: futures that any thread can wait for.

One thread runs an event loop for all requests of the process. It is started for the first file that
is open or the first call that needs it, and ends after the last one.

Invariant: no thread is left once nobody holds it. obstore's own threads do not survive a fork, so
a child of a process that has used it gets an error instead of waiting for ever.
"""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from lm_datafusion.errors import StorageError
from lm_datafusion.forks import hold_over_forks

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from concurrent.futures import Future

Value = TypeVar("Value")


class IoThread:
    """A thread with an event loop, shared by those who hold it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        hold_over_forks(self._lock)
        self._holders = 0
        # The process that has used obstore first.
        self._process: int | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def hold(self) -> None:
        """Starts the thread, unless somebody holds it already."""
        self.check_process()
        with self._lock:
            self._holders += 1
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name="lm-io", daemon=True
                )
                self._thread.start()

    def check_process(self) -> None:
        """Raises `StorageError` in a forked child of a process that has used obstore."""
        with self._lock:
            if self._process is None:
                self._process = os.getpid()
            elif self._process != os.getpid():
                raise StorageError(
                    "object stores cannot be read in a forked process: start it by spawn"
                )

    def let_go(self) -> None:
        """Ends the thread, unless somebody else holds it."""
        with self._lock:
            if self._process != os.getpid():
                return
            self._holders -= 1
            if self._holders or self._loop is None:
                return
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        loop.call_soon_threadsafe(loop.stop)
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Holds the thread for a block."""
        self.hold()
        try:
            yield
        finally:
            self.let_go()

    def submit(self, work: Coroutine[Any, Any, Value]) -> Future[Value]:
        """Runs a coroutine; the caller holds the thread until it is done."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    finally:
        loop.close()


IO = IoThread()
