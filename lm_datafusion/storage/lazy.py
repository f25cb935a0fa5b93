"""A file that is opened when its bytes are first needed.

In: a storage and a file version. Out: an `OpenFile`; most methods open the underlying file.

Cached metadata may rule out a row group: a bloom filter read earlier, or the condition cache. Then
its file is not opened.

Errors of a storage are raised as a `StorageError` that names the file.

Invariant: all bytes come from one version, and `check_unchanged` reports if that is no longer the
version at the path, opened or not. A closed file is not opened again.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Self

from lm_datafusion.errors import FileChangedError, LateError, StorageError
from lm_datafusion.storage.object_file import ObjectFile
from lm_datafusion.storage.reach import Traffic

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    import pyarrow as pa

    from lm_datafusion.storage.object_file import Round, Tail
    from lm_datafusion.storage.protocol import FileVersion, OpenFile, Storage
    from lm_datafusion.storage.ranges import ByteRange


class LazyFile:
    """Opens a version of a file once, on the first call that needs its bytes."""

    def __init__(self, storage: Storage, version: FileVersion) -> None:
        self._storage = storage
        self._version = version
        self._file: OpenFile | None = None
        self._is_closed = False
        self._lock = threading.Lock()

    @property
    def version(self) -> FileVersion:
        """The version that is, or will be, opened."""
        return self._version

    @property
    def is_opened(self) -> bool:
        """Whether the file has been opened."""
        return self._file is not None

    def fetch_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """The bytes of each range, in order."""
        file = self._opened()
        with self._named_errors():
            buffers = file.fetch_ranges(ranges)
        if list(map(len, buffers)) != [wanted.length for wanted in ranges]:
            raise StorageError(f"{self._version.path}: a read gave fewer bytes than asked for")
        return buffers

    def fetch_into(self, ranges: Sequence[ByteRange], target: memoryview) -> None:
        """Fetches ranges into memory, back to back."""
        file = self._opened()
        with self._named_errors():
            file.fetch_into(ranges, target)

    def fetch_ahead(self, ranges: Sequence[ByteRange]) -> Round | None:
        """Asks a store for ranges together; None if the file is local, or nothing is missing."""
        if not self._storage.is_remote or not ranges:
            return None
        file = self._opened()
        return file.fetch_ahead(ranges) if isinstance(file, ObjectFile) else None

    def fetch_tail(self) -> Tail:
        """Asks a store for the end of the file, to be kept for later scans too."""
        file = self._opened()
        assert isinstance(file, ObjectFile)
        return file.fetch_tail()

    @property
    def traffic(self) -> Traffic:
        """What was asked of a store for the file."""
        return self._file.traffic if isinstance(self._file, ObjectFile) else Traffic()

    def descriptor(self) -> int:
        """The descriptor of the file; opens it."""
        return self._opened().descriptor()

    def check_unchanged(self) -> None:
        """Raises `FileChangedError` if the file is no longer this version."""
        if self._file is not None:
            self._file.check_unchanged()
        elif self._storage.is_remote:
            return  # nothing was read of it, and the store refuses to read another version
        elif self._storage.load_version(self._version.path) != self._version:
            raise FileChangedError(f"{self._version.path} changed after it was planned for")

    def check_read(self) -> None:
        """Raises `FileChangedError` if bytes read so far may be from another version."""
        if self._file is not None:
            self._file.check_unchanged()

    @contextlib.contextmanager
    def blamed(self) -> Iterator[None]:
        """Replaces errors of a block by a `FileChangedError` if the file has changed.

        Bytes of another version look like a corrupt file, or like values that fail a condition.
        """
        try:
            yield
        except FileChangedError:
            raise
        except Exception as error:
            try:
                self.check_read()
            except FileChangedError as changed:
                raise changed from error
            except StorageError:
                pass
            raise

    def arrow_file(self) -> pa.NativeFile:
        """The whole file, for PyArrow's readers."""
        file = self._opened()
        with self._named_errors():
            return file.arrow_file()

    def close(self) -> None:
        """Closes the file, if it was opened; safe to call twice."""
        with self._lock:
            self._is_closed = True
            if self._file is not None:
                self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _opened(self) -> OpenFile:
        if self._file is None:
            with self._lock:
                if self._is_closed:
                    raise StorageError(f"{self._version.path}: the scan that reads it has ended")
                if self._file is None:
                    with self._named_errors():
                        self._file = self._storage.open(self._version)
        return self._file

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except LateError:
            raise
        except OSError as error:
            raise StorageError(f"{self._version.path}: {error.strerror or error}") from error
