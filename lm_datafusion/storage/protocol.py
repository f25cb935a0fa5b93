"""What the rooms above ask of storage: the one protocol local files and object stores meet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self

    import pyarrow as pa

    from lm_datafusion.storage.ranges import ByteRange


@dataclass(frozen=True, slots=True)
class FileVersion:
    """A file as it was at one time; two equal versions hold the same bytes.

    `tag` is whatever changes when the content does: modification time, change time and inode of a
    local file, the etag of an object.
    """

    path: str
    size_bytes: int
    tag: str


class OpenFile(Protocol):
    """A file of a known version, open for ranged reads from several threads."""

    @property
    def version(self) -> FileVersion:
        """The version that was opened."""
        ...

    def fetch_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """The bytes of each range, in order; a short read is an error."""
        ...

    def fetch_into(self, ranges: Sequence[ByteRange], target: memoryview) -> None:
        """Fetches ranges into memory, one behind the other; they fill `target` exactly."""
        ...

    def descriptor(self) -> int:
        """The file descriptor of a local file, for `pread` alone; -1 if there is none."""
        ...

    def check_unchanged(self) -> None:
        """Raises `FileChangedError` if the file is not the version that was opened any more."""
        ...

    def arrow_file(self) -> pa.NativeFile:
        """The whole file for a reader of pyarrow's own."""
        ...

    def close(self) -> None:
        """Gives the handle back; safe to call twice."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class Storage(Protocol):
    """A place files live in. Picklable: a plan takes its storage along."""

    def load_version(self, path: str) -> FileVersion:
        """The version of a file now.

        Raises:
            FileMissingError: There is no such file.
        """
        ...

    def load_listing(self, path: str) -> list[str]:
        """Every file below a folder, sorted by path."""
        ...

    def is_folder(self, path: str) -> bool:
        """Whether the path leads to a folder."""
        ...

    def expand_glob(self, pattern: str) -> list[str]:
        """The files a pattern stands for, sorted by path."""
        ...

    def open(self, version: FileVersion) -> OpenFile:
        """Opens exactly this version.

        Raises:
            FileChangedError: The file is another version now.
        """
        ...
