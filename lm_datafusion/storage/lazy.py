"""A file that is opened when its bytes are first wanted.

In: a storage and a file version. Out: an `OpenFile`; most methods open the file behind it.

A scan may learn from memory alone that a row group has nothing to give: by a bloom filter that was
read before, or by the condition cache. Then its file is not opened.

Invariant: what is read is of the one version, and `check_unchanged` says if that is no longer the
version at the path, opened or not.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

from lm_datafusion.errors import FileChangedError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    import pyarrow as pa

    from lm_datafusion.storage.protocol import FileVersion, OpenFile, Storage
    from lm_datafusion.storage.ranges import ByteRange


class LazyFile:
    """Opens a version of a file once, on the first call that needs its bytes."""

    def __init__(self, storage: Storage, version: FileVersion) -> None:
        self._storage = storage
        self._version = version
        self._file: OpenFile | None = None
        self._lock = threading.Lock()

    @property
    def version(self) -> FileVersion:
        """The version that is, or will be, opened."""
        return self._version

    @property
    def is_opened(self) -> bool:
        """Whether the file was needed so far."""
        return self._file is not None

    def fetch_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """The bytes of each range, in order."""
        return self._opened().fetch_ranges(ranges)

    def fetch_into(self, ranges: Sequence[ByteRange], target: memoryview) -> None:
        """Fetches ranges into memory, one behind the other."""
        self._opened().fetch_into(ranges, target)

    def descriptor(self) -> int:
        """The descriptor of the file, which is opened for it."""
        return self._opened().descriptor()

    def check_unchanged(self) -> None:
        """Raises `FileChangedError` if the file is not this version any more."""
        if self._file is not None:
            self._file.check_unchanged()
        elif self._storage.load_version(self._version.path) != self._version:
            raise FileChangedError(f"{self._version.path} changed after it was planned for")

    def arrow_file(self) -> pa.NativeFile:
        """The whole file for a reader of pyarrow's own."""
        return self._opened().arrow_file()

    def close(self) -> None:
        """Closes the file, if it was opened; safe to call twice."""
        with self._lock:
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
                if self._file is None:
                    self._file = self._storage.open(self._version)
        return self._file
