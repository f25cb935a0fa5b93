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
    """Passes everything on, and tells `count` how many bytes were fetched."""

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
        """The bytes of each range in place, counted."""
        self._file.fetch_into(ranges, target)
        self._count(len(target))

    def descriptor(self) -> int:
        """-1: what is read through it would not be counted."""
        return -1

    def check_unchanged(self) -> None:
        """Passed on."""
        self._file.check_unchanged()

    def arrow_file(self) -> pa.NativeFile:
        """The file for a reader of pyarrow's own; what it reads is not counted here."""
        return self._file.arrow_file()

    def close(self) -> None:
        """Closes the file behind."""
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
