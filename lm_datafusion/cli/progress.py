"""The progress of a long query, on one temporary line of the terminal.

In: rows and batches as they arrive. Out: a line on standard error after half a second, if that is a
terminal.

The line shows what can be measured: the time, the bytes this process has read (if the system counts
them), the rows received. A bar is drawn only if the plan bounds the bytes to read; a scan that
prunes well ends before the bar is full.

Invariant: the line is cleared before anything else is written.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
import time
from typing import TYPE_CHECKING, Final, Self, TextIO

from lm_datafusion.cli.box import cut

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

START_S: Final = 0.5
_EVERY_S: Final = 0.1
_BAR_WIDTH: Final = 24
_ERASE: Final = "\r\x1b[K"
_READ_COUNTER: Final = "/proc/self/io"
_SIZES: Final = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"))


class Progress:
    """Counts what a query returns, and shows it if the query takes long."""

    def __init__(self, most_bytes: int = 0, stream: TextIO | None = None) -> None:
        self.rows = 0
        self.batches = 0
        self._most_bytes = most_bytes
        self._stream = stream or sys.stderr
        self._started = time.perf_counter()
        self._first_byte = _bytes_read()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._is_drawn = False
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self._stream.isatty():
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        with self.hidden():
            pass

    def counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches, counted as they arrive."""
        for batch in batches:
            self.rows += batch.num_rows
            self.batches += 1
            yield batch

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        """Hides the line while something else is written."""
        with self._lock:
            if self._is_drawn:
                self._write(_ERASE)
                self._is_drawn = False
            yield

    def line(self) -> str:
        """The current line."""
        parts = [f"{time.perf_counter() - self._started:.1f} s"]
        read = _bytes_read()
        if read is not None and self._first_byte is not None:
            parts.append(self._read_part(read - self._first_byte))
        parts.append(f"{self.rows:,} rows received")
        return ", ".join(parts)

    def _read_part(self, read: int) -> str:
        if not self._most_bytes:
            return f"{size_text(read)} read"
        filled = min(_BAR_WIDTH, read * _BAR_WIDTH // self._most_bytes)
        bar = "#" * filled + "." * (_BAR_WIDTH - filled)
        return f"[{bar}] {size_text(read)} read of at most {size_text(self._most_bytes)}"

    def _run(self) -> None:
        wait_s = START_S
        while not self._stop.wait(wait_s):
            wait_s = _EVERY_S
            with self._lock:
                width = shutil.get_terminal_size().columns - 1
                self._write(_ERASE + cut(self.line(), width))
                self._is_drawn = True

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # the terminal is gone
            self._stream.write(text)
            self._stream.flush()


def size_text(length_bytes: float) -> str:
    """A number of bytes in a suitable unit."""
    for unit, name in _SIZES:
        if length_bytes >= unit:
            return f"{length_bytes / unit:.1f} {name}"
    return f"{length_bytes:.0f} B"


def _bytes_read() -> int | None:
    """Bytes this process has read from files so far, cached or not; None if unknown."""
    try:
        with open(_READ_COUNTER, encoding="ascii") as counters:
            return int(counters.readline().removeprefix("rchar:"))
    except (OSError, ValueError):
        return None
