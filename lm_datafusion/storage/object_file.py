"""An object of a known version, open for reading.

In: byte ranges. Out: bytes; those that were fetched ahead come from memory.

`fetch_ahead` starts the requests of a round and returns at once. A read waits for the request that
has its bytes; bytes that nobody has asked for are fetched then, which costs a round trip.

Invariant: all bytes come from the version. Closing the file cancels requests that are under way.
"""

from __future__ import annotations

import bisect
import io
import threading
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from lm_datafusion.errors import StorageError
from lm_datafusion.storage.io_thread import IO
from lm_datafusion.storage.kept_tails import TAILS, tail_bytes
from lm_datafusion.storage.ranges import ByteRange, coalesce
from lm_datafusion.storage.reach import Traffic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future
    from types import TracebackType

    from lm_datafusion.storage.object_store import ObjectStorage
    from lm_datafusion.storage.protocol import FileVersion


class _Span:
    """Bytes of an object, in memory or on their way."""

    __slots__ = ("_data", "_future", "offset", "stop", "users")

    def __init__(self, offset: int, stop: int, source: Future[memoryview] | memoryview) -> None:
        self.offset = offset
        self.stop = stop
        self.users = 0
        self._data = source if isinstance(source, memoryview) else None
        self._future = None if isinstance(source, memoryview) else source

    @property
    def is_done(self) -> bool:
        return self._future is None or self._future.done()

    def data(self) -> memoryview:
        if self._data is None:
            assert self._future is not None
            self._data = self._future.result()
        return self._data

    def when_done(self, call: Callable[[], None]) -> None:
        if self._future is None:
            call()
        else:
            self._future.add_done_callback(lambda _: call())

    def cancel(self) -> None:
        if self._future is not None:
            self._future.cancel()


class Round:
    """Ranges that were asked for together."""

    def __init__(self, file: ObjectFile, spans: Sequence[_Span], size_bytes: int) -> None:
        self._file = file
        self._spans = spans
        self.size_bytes = size_bytes

    @property
    def is_done(self) -> bool:
        """Whether every byte has arrived, or failed to."""
        return all(span.is_done for span in self._spans)

    def when_done(self, call: Callable[[], None]) -> None:
        """Calls once everything has arrived or failed, perhaps on another thread."""
        left = len(self._spans)
        if not left:
            call()
            return
        lock = threading.Lock()

        def one_done() -> None:
            nonlocal left
            with lock:
                left -= 1
                is_last = not left
            if is_last:
                call()

        for span in self._spans:
            span.when_done(one_done)

    def wait(self) -> None:
        """Waits for all of it; the read reports an error."""
        if self.is_done:
            return
        with self._file.traffic.waiting():
            done = threading.Event()
            self.when_done(done.set)
            done.wait()

    def release(self) -> None:
        """Lets go of the bytes that no other round wants."""
        self._file.release(self._spans)


class Tail:
    """The end of an object, on its way."""

    def __init__(self, file: ObjectFile, start: int) -> None:
        self._file = file
        self._wanted = ByteRange(start, file.version.size_bytes - start)
        is_kept = TAILS.get(file.version) is not None
        self._round = None if is_kept else file.fetch_ahead([self._wanted])

    def keep(self) -> None:
        """Waits for it, and keeps it."""
        if self._round is not None:
            data = self._file.fetch_views([self._wanted])[0]
            TAILS.keep(self._file.version, self._wanted.offset, data)


class ObjectFile:
    """An object of a known version."""

    def __init__(self, storage: ObjectStorage, version: FileVersion) -> None:
        self._storage = storage
        self._version = version
        self._lock = threading.Lock()
        # Sorted by offset.
        self._spans: list[_Span] = []
        self._is_closed = False
        self.traffic = Traffic()
        tail = TAILS.get(version)
        if tail is not None:
            offset, data = tail
            span = _Span(offset, offset + len(data), data)
            span.users = 1  # for as long as the file is open
            self._add(span)
        IO.hold()

    @property
    def version(self) -> FileVersion:
        """The version that was opened."""
        return self._version

    def descriptor(self) -> int:
        """Always -1: there is none."""
        return -1

    def check_unchanged(self) -> None:
        """Nothing to check: each read names the version, and the store refuses another one."""

    # ---- rounds ----------------------------------------------------------------------------

    def fetch_ahead(self, ranges: Sequence[ByteRange]) -> Round:
        """Asks for ranges together; those nearby are read as one."""
        for wanted in ranges:
            self._check_inside(wanted)
        gap = self._storage.reach.gap_bytes
        spans: dict[int, _Span] = {}
        with self._lock:
            if self._is_closed:
                raise StorageError(f"{self._version.path}: the scan that reads it has ended")
            missing = []
            for wanted in ranges:
                known = self._cover(wanted)
                if known is None:
                    missing.append(wanted)
                else:
                    spans.update((id(span), span) for span in known)
            size = 0
            for merged in coalesce(missing, gap_bytes=gap):
                span = self._begin(merged)
                spans[id(span)] = span
                size += merged.length
            for span in spans.values():
                span.users += 1
        return Round(self, list(spans.values()), size)

    def fetch_tail(self) -> Tail:
        """Asks for the end of the object, where its metadata is."""
        size = self._version.size_bytes
        return Tail(self, size - tail_bytes(size))

    def release(self, spans: Sequence[_Span]) -> None:
        """Forgets spans that nobody uses any more."""
        with self._lock:
            for span in spans:
                span.users -= 1
                if not span.users and span in self._spans:
                    self._spans.remove(span)
                    span.cancel()

    def _begin(self, wanted: ByteRange) -> _Span:
        work = self._storage.fetch(self._version, wanted.offset, wanted.stop, self.traffic)
        span = _Span(wanted.offset, wanted.stop, IO.submit(work))
        self._add(span)
        return span

    def _add(self, span: _Span) -> None:
        bisect.insort(self._spans, span, key=lambda other: other.offset)

    def _cover(self, wanted: ByteRange) -> list[_Span] | None:
        """Spans that hold a range together, in order; None if bytes are missing."""
        found: list[_Span] = []
        position = wanted.offset
        stop = bisect.bisect_right(self._spans, wanted.offset, key=lambda span: span.offset)
        first = stop - 1
        while first >= 0 and self._spans[first].stop < wanted.stop:
            first -= 1
        if first >= 0:
            return [self._spans[first]]
        for span in self._spans:
            if span.offset <= position < span.stop:
                found.append(span)
                position = span.stop
                if position >= wanted.stop:
                    return found
        return None if wanted.length else []

    # ---- reads -----------------------------------------------------------------------------

    def fetch_views(self, ranges: Sequence[ByteRange]) -> list[memoryview]:
        """The bytes of each range, in order, without a copy."""
        with self._lock:
            covers = [self._cover(wanted) for wanted in ranges]
        round_ = None
        if not all(spans is not None and all(s.is_done for s in spans) for spans in covers):
            round_ = self.fetch_ahead(ranges)
            round_.wait()
            with self._lock:
                covers = [self._cover(wanted) for wanted in ranges]
        try:
            return [self._view(spans, r) for spans, r in zip(covers, ranges, strict=True)]
        finally:
            if round_ is not None:
                round_.release()

    def _view(self, spans: list[_Span] | None, wanted: ByteRange) -> memoryview:
        if not wanted.length:
            return memoryview(b"")
        assert spans is not None
        parts = []
        for span in spans:
            try:
                data = span.data()
            except CancelledError as error:
                raise StorageError(
                    f"{self._version.path}: the scan that reads it has ended"
                ) from error
            start = max(0, wanted.offset - span.offset)
            parts.append(data[start : wanted.stop - span.offset])
        if len(parts) == 1:
            return parts[0]
        joined = bytearray(wanted.length)
        position = wanted.offset
        for span, part in zip(spans, parts, strict=True):
            # Spans may overlap: only what is behind the last one counts.
            fresh = part[max(0, position - max(span.offset, wanted.offset)) :]
            start = position - wanted.offset
            joined[start : start + len(fresh)] = fresh
            position += len(fresh)
        return memoryview(joined)

    def fetch_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """The bytes of each range, in order."""
        return [bytes(view) for view in self.fetch_views(ranges)]

    def fetch_into(self, ranges: Sequence[ByteRange], target: memoryview) -> None:
        """Fetches ranges into memory, back to back."""
        position = 0
        for view in self.fetch_views(ranges):
            target[position : position + len(view)] = view
            position += len(view)

    def _check_inside(self, wanted: ByteRange) -> None:
        """A range from a corrupt file must not make us allocate more than the file holds."""
        if wanted.offset < 0 or wanted.length < 0 or wanted.stop > self._version.size_bytes:
            raise StorageError(
                f"{self._version.path}: bytes {wanted.offset} to {wanted.stop} lie outside the"
                f" file of {self._version.size_bytes} bytes"
            )

    def arrow_file(self) -> pa.NativeFile:
        """The object, for PyArrow's readers."""
        return pa.PythonFile(io.BufferedReader(_Stream(self), 1 << 20), mode="r")

    def close(self) -> None:
        """Cancels what is under way; safe to call twice."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            spans, self._spans = self._spans, []
        for span in spans:
            span.cancel()
        IO.let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class _Stream(io.RawIOBase):
    """An object as a stream."""

    def __init__(self, file: ObjectFile) -> None:
        self._file = file
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        size = self._file.version.size_bytes
        self._position = {0: 0, 1: self._position, 2: size}[whence] + offset
        return self._position

    def readinto(self, target: memoryview) -> int:  # type: ignore[override]
        left = self._file.version.size_bytes - self._position
        length = max(0, min(len(target), left))
        if length:
            view = memoryview(target)[:length]
            self._file.fetch_into([ByteRange(self._position, length)], view)
            self._position += length
        return length
