"""Local files, read with `pread`.

In: paths and byte ranges. Out: bytes.

`pread` needs no lock and no seek, and releases the GIL. Unlike a memory map, it turns a file that
is truncated while we read it into an error instead of a signal.

Invariant: a file is opened only at the requested version.
"""

from __future__ import annotations

import contextlib
import glob
import os
import threading
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from lm_datafusion.errors import FileChangedError, FileMissingError, StorageError
from lm_datafusion.storage.protocol import FileVersion
from lm_datafusion.storage.ranges import ByteRange
from lm_datafusion.storage.reach import Reach

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from lm_datafusion.storage.reach import Traffic


class LocalStorage:
    """The local file system."""

    is_remote = False
    reach = Reach()

    def load_version(self, path: str) -> FileVersion:
        """The current version of a file."""
        try:
            status = os.stat(path)
            return _version(path, status, status.st_ctime_ns)
        except FileNotFoundError as error:
            raise FileMissingError(f"no file at {path}") from error
        except OSError as error:
            raise StorageError(f"{path}: {error.strerror or error}") from error

    def load_versions(
        self, paths: Sequence[str], traffic: Traffic | None = None
    ) -> list[FileVersion]:
        """The current versions of some files."""
        del traffic
        return [self.load_version(path) for path in paths]

    def load_times(self, paths: Sequence[str]) -> list[tuple[FileVersion, int]]:
        """The versions of files, each with the time of its last change in nanoseconds."""
        return [(self.load_version(path), os.stat(path).st_mtime_ns) for path in paths]

    def load_listing(self, path: str) -> list[str]:
        """Every file below a folder, sorted; skips names that begin with . or _.

        Raises:
            StorageError: A folder cannot be read: its files would be missing silently.
        """
        found = []
        for folder, names, files in os.walk(path, onerror=_refuse, followlinks=True):
            names[:] = [name for name in names if not name.startswith((".", "_"))]
            found += [os.path.join(folder, f) for f in files if not f.startswith((".", "_"))]
        return sorted(found)

    def is_folder(self, path: str) -> bool:
        """Whether the path is a folder."""
        return os.path.isdir(path)

    def expand_glob(self, pattern: str) -> list[str]:
        """The files that match a pattern, sorted; `**` crosses folders.

        Raises:
            StorageError: A folder on the way cannot be read.
        """
        _check_folders(pattern)
        return sorted(p for p in glob.glob(pattern, recursive=True) if os.path.isfile(p))

    def open(self, version: FileVersion) -> LocalFile:
        """Opens exactly this version."""
        try:
            handle = os.open(version.path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        except FileNotFoundError as error:
            raise FileMissingError(f"no file at {version.path}") from error
        except OSError as error:
            raise StorageError(f"{version.path}: {error.strerror or error}") from error
        file = LocalFile(version, handle)
        try:
            file.check_unchanged()
        except BaseException:
            file.close()
            raise
        return file

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalStorage)

    def __hash__(self) -> int:
        return hash(LocalStorage)


class LocalFile:
    """An open file descriptor of a known version."""

    def __init__(self, version: FileVersion, handle: int) -> None:
        self._version = version
        self._handle = handle
        self._opened: os.stat_result | None = None
        self._lock = threading.Lock()

    @property
    def version(self) -> FileVersion:
        """The version that was opened."""
        return self._version

    def descriptor(self) -> int:
        """The descriptor, for `pread`; -1 once the file is closed."""
        return self._handle

    def check_unchanged(self) -> None:
        """Raises `FileChangedError` if the open file is no longer the planned version.

        A file that is deleted or replaced while it is open can still be read: its change time has
        moved, but so has its link count.
        """
        try:
            now = os.fstat(self._handle)
        except OSError as error:
            raise StorageError(f"{self._version.path}: {error.strerror or error}") from error
        changed_ns = now.st_ctime_ns
        if self._opened is not None and self._opened.st_nlink != now.st_nlink:
            changed_ns = self._opened.st_ctime_ns
        if _version(self._version.path, now, changed_ns) != self._version:
            raise FileChangedError(f"{self._version.path} changed after it was planned for")
        self._opened = self._opened or now

    def fetch_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """The bytes of each range, in order."""
        buffers = []
        for wanted in ranges:
            self._check_inside(wanted)
            buffer = bytearray(wanted.length)
            self._read_into(wanted, memoryview(buffer))
            buffers.append(bytes(buffer))
        return buffers

    def fetch_into(self, ranges: Sequence[ByteRange], target: memoryview) -> None:
        """Fetches ranges into memory, back to back; adjacent ranges in one read."""
        position = 0
        pending: ByteRange | None = None
        for wanted in ranges:
            self._check_inside(wanted)
            if pending is not None and pending.stop == wanted.offset:
                pending = ByteRange(pending.offset, pending.length + wanted.length)
                continue
            if pending is not None:
                self._read_into(pending, target[position : position + pending.length])
                position += pending.length
            pending = wanted
        if pending is not None:
            self._read_into(pending, target[position : position + pending.length])

    def _check_inside(self, wanted: ByteRange) -> None:
        """A range from a corrupt file must not make us allocate more than the file holds."""
        if wanted.offset < 0 or wanted.length < 0 or wanted.stop > self._version.size_bytes:
            raise StorageError(
                f"{self._version.path}: bytes {wanted.offset} to {wanted.stop} lie outside the"
                f" file of {self._version.size_bytes} bytes"
            )

    def _read_into(self, wanted: ByteRange, target: memoryview) -> None:
        done = 0
        try:
            while done < wanted.length:
                # A read may stop early, at 2 GiB or at a signal. No bytes means the file has ended.
                count = os.preadv(self._handle, [target[done:]], wanted.offset + done)
                if count == 0:
                    break
                done += count
        except OSError as error:
            raise StorageError(f"{self._version.path}: {error.strerror or error}") from error
        if done < wanted.length:
            self.check_unchanged()
            raise StorageError(f"{self._version.path}: cut short at byte {wanted.offset + done}")

    def arrow_file(self) -> pa.NativeFile:
        """The file, for PyArrow's readers, with its own handle; the caller closes it.

        Opened again (handles must not share a position), and checked: another file may be at the
        path now.
        """
        again = LocalStorage().open(self._version)
        return pa.PythonFile(os.fdopen(again.detach(), "rb"), mode="r")

    def detach(self) -> int:
        """Hands over the descriptor; the file counts as closed."""
        handle, self._handle = self._handle, -1
        return handle

    def close(self) -> None:
        """Closes the descriptor; safe to call twice."""
        with self._lock:
            handle = self.detach()
        if handle >= 0:
            # Nothing was written, so a failure loses no data; raising would hide an earlier error.
            with contextlib.suppress(OSError):
                os.close(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _refuse(error: OSError) -> None:
    raise StorageError(f"{error.filename}: {error.strerror or error}") from error


def _check_folders(pattern: str) -> None:
    """Checks every folder that a pattern crosses; `glob` treats unreadable ones as empty."""
    prefix = os.path.dirname(pattern)
    while glob.has_magic(prefix):
        for folder in glob.iglob(prefix, recursive=True):
            _check_folder(folder)
        prefix = os.path.dirname(prefix)
    _check_folder(prefix or os.curdir)


def _check_folder(path: str) -> None:
    try:
        os.scandir(path).close()
    except (FileNotFoundError, NotADirectoryError):
        pass  # no file lies there
    except OSError as error:
        _refuse(error)


def _version(path: str, status: os.stat_result, changed_ns: int) -> FileVersion:
    """The version of a file.

    The change time reveals an in-place rewrite whose modification time was restored; programs
    cannot set it. It also moves with links, owners and permissions: that costs a reload, and an
    error if owners or permissions change while the file is read.
    """
    tag = f"{status.st_mtime_ns}-{changed_ns}-{status.st_ino}"
    return FileVersion(path=path, size_bytes=status.st_size, tag=tag)
