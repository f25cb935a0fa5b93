"""Makes Ctrl-C end a command even while native code is running.

In: SIGINT. Out: a KeyboardInterrupt, as usual; or, if it is not handled within `GRACE_S`, the end
of the process with exit code 130.

Python raises KeyboardInterrupt between two bytecode instructions. DataFusion checks for signals
too, but only when a task yields, and a join of millions of rows may not yield for a minute. So a
separate thread waits for the signal, waits two seconds, removes partial files and exits.

Invariant: the files in `DRAFTS` are removed when the process ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from typing import Final, Self

INTERRUPTED: Final = 130  # 128 plus the number of SIGINT, as in shells
GRACE_S: Final = 2.0
# Files being written, which are useless unless complete.
DRAFTS: Final[set[str]] = set()


class Interruptible:
    """While entered, SIGINT ends the process in bounded time."""

    def __init__(self) -> None:
        self._is_over = threading.Event()
        self._sockets: tuple[socket.socket, socket.socket] | None = None
        self._previous = -1
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self  # only the main thread handles signals
        self._sockets = receiver, sender = socket.socketpair()
        sender.setblocking(False)
        self._previous = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._watch, args=(receiver,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        if self._sockets is None or self._thread is None:
            return
        signal.set_wakeup_fd(self._previous)
        receiver, sender = self._sockets
        sender.close()  # ends the wait of the thread
        self._thread.join()
        receiver.close()

    def _watch(self, receiver: socket.socket) -> None:
        while numbers := receiver.recv(16):
            if signal.SIGINT in numbers and not self._is_over.wait(GRACE_S):
                _end()


def _end() -> None:
    """Ends the process, regardless of its other threads."""
    for draft in list(DRAFTS):
        with contextlib.suppress(OSError):
            os.remove(draft)
    with contextlib.suppress(OSError, ValueError):
        erase = "\r\x1b[K" if sys.stderr.isatty() else ""
        sys.stderr.write(f"{erase}stopped\n")
        sys.stderr.flush()
    os._exit(INTERRUPTED)
