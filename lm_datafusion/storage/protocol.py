"""The storage protocol, implemented by local files and object stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self

    import pyarrow as pa

    from lm_datafusion.storage.ranges import ByteRange
    from lm_datafusion.storage.reach import Reach, Traffic


class FileVersion(NamedTuple):
    """A file at one point in time; two equal versions hold the same bytes.

    `tag` changes when the content does: modification time, change time and inode of a local file,
    the etag of an object.

    A tuple, because versions are cache keys: a dataclass would be hashed by Python code, dozens of
    times per file of a scan.
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
        """Fetches ranges into memory, back to back; they fill `target` exactly."""
        ...

    def descriptor(self) -> int:
        """The file descriptor of a local file, for `pread` alone; -1 if there is none."""
        ...

    def check_unchanged(self) -> None:
        """Raises `FileChangedError` if the file is no longer the version that was opened."""
        ...

    def arrow_file(self) -> pa.NativeFile:
        """The whole file, for PyArrow's readers."""
        ...

    def close(self) -> None:
        """Closes the handle; safe to call twice."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class Storage(Protocol):
    """Where files are stored. Picklable, because plans contain their storage."""

    @property
    def is_remote(self) -> bool:
        """Whether a read is a request that takes a round trip."""
        ...

    @property
    def reach(self) -> Reach:
        """How far away it is, if it is remote."""
        ...

    def load_version(self, path: str) -> FileVersion:
        """The current version of a file.

        Raises:
            FileMissingError: The file does not exist.
        """
        ...

    def load_versions(
        self, paths: Sequence[str], traffic: Traffic | None = None
    ) -> list[FileVersion]:
        """The current versions of some files; requests are counted in `traffic`."""
        ...

    def load_times(self, paths: Sequence[str]) -> list[tuple[FileVersion, int]]:
        """The versions of files, each with the time of its last change in nanoseconds."""
        ...

    def load_listing(self, path: str) -> list[str]:
        """Every file below a folder, sorted by path."""
        ...

    def is_folder(self, path: str) -> bool:
        """Whether the path is a folder."""
        ...

    def expand_glob(self, pattern: str) -> list[str]:
        """The files that match a pattern, sorted by path."""
        ...

    def open(self, version: FileVersion) -> OpenFile:
        """Opens exactly this version.

        Raises:
            FileChangedError: The file now has another version.
        """
        ...
