"""An open file that counts the bytes fetched from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    import pyarrow as pa

    from lm_datafusion.storage.protocol import FileVersion, OpenFile
    from lm_datafusion.storage.ranges import ByteRange


class MeteredFile:
    """Delegates to a file, and calls `count` with the number of bytes fetched."""

    def __init__(self, file: OpenFile, count: Callable[[int], None]) -> None:
        self._file = file
        self._count = count

    @property
    def version(self) -> FileVersion:
        """The version that was opened."""
        return self._file.version

    def fetch_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """The bytes of each range, counted."""
        buffers = self._file.fetch_ranges(ranges)
        self._count(sum(map(len, buffers)))
        return buffers

    def fetch_into(self, ranges: Sequence[ByteRange], target: memoryview) -> None:
        """Fetches ranges into memory, counted."""
        self._file.fetch_into(ranges, target)
        self._count(len(target))

    def descriptor(self) -> int:
        """Always -1: reads through a descriptor would not be counted."""
        return -1

    def check_unchanged(self) -> None:
        """Delegates to the underlying file."""
        self._file.check_unchanged()

    def arrow_file(self) -> pa.NativeFile:
        """The file, for PyArrow's readers; their reads are not counted here."""
        return self._file.arrow_file()

    def close(self) -> None:
        """Closes the underlying file."""
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
