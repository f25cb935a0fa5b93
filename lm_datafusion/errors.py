"""The errors of the package: one base, each kind also the built-in a Python user would catch.

In: what went wrong and where. Out: an exception whose message names the file, the column, the
byte offset or the position in the SQL, and says what to do where something can be done.

Invariant: everything the package raises on purpose is a `LateError`.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class LateError(Exception):
    """Base of every error raised by lm_datafusion."""


class OptionError(LateError, ValueError):
    """An option or argument that cannot be used."""


class SqlError(LateError, ValueError):
    """SQL that cannot be understood; the message shows the position in the text."""

    def __init__(
        self, message: str, *, sql: str | None = None, position: int | None = None
    ) -> None:
        if sql is not None and position is not None:
            message = f"{message}\n{_point_at(sql, position)}"
        super().__init__(message)
        self.sql = sql
        self.position = position


class ColumnNotFoundError(LateError, KeyError):
    """A column name that the schema does not have; near names are listed."""

    def __init__(self, name: str, available: Iterable[str], *, where: str = "the schema") -> None:
        names = list(available)
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
        lowered = {n.lower(): n for n in names}
        if not near and name.lower() in lowered:
            near = [lowered[name.lower()]]
        if near:
            hint = "did you mean " + " or ".join(f'"{n}"' for n in near) + "?"
        else:
            shown = ", ".join(f'"{n}"' for n in names[:10])
            hint = f"it has {shown}" + (f" and {len(names) - 10} more" if len(names) > 10 else "")  # noqa: PLR2004 ten names fit a line
        self.message = f'no column named "{name}" in {where}; {hint}'
        super().__init__(self.message)
        self.name = name

    def __str__(self) -> str:
        # KeyError would print the repr of the message.
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        return _restore_column_error, (self.name, self.message)


def _restore_column_error(name: str, message: str) -> ColumnNotFoundError:
    error = ColumnNotFoundError(name, ())
    error.message = message
    error.args = (message,)
    return error


class SchemaClashError(LateError, ValueError):
    """Two files of one dataset whose schemas cannot be brought together."""


class UnsupportedFeatureError(LateError, NotImplementedError):
    """Something valid that this package (or pyarrow) cannot read: encryption, an encoding."""


class GaveUpError(LateError):
    """A scan that was meant to look at a few rows found that it has to look at many."""


class ScanStoppedError(LateError):
    """A scan that was stopped from outside: the interpreter is ending, or its threads are gone."""


class CorruptFileError(LateError, ValueError):
    """Bytes that are not what the format says they are."""

    def __init__(
        self,
        message: str,
        *,
        path: str,
        column: str | None = None,
        offset_bytes: int | None = None,
    ) -> None:
        location = path
        if column is not None:
            location += f', column "{column}"'
        if offset_bytes is not None:
            location += f", byte {offset_bytes}"
        super().__init__(f"{location}: {message}")
        self.message = message
        self.path = path
        self.column = column
        self.offset_bytes = offset_bytes

    def __reduce__(self) -> tuple[object, ...]:
        return _restore_corrupt_error, (self.message, self.path, self.column, self.offset_bytes)


def _restore_corrupt_error(
    message: str, path: str, column: str | None, offset_bytes: int | None
) -> CorruptFileError:
    return CorruptFileError(message, path=path, column=column, offset_bytes=offset_bytes)


class StorageError(LateError, OSError):
    """Bytes that could not be had: permissions, the network, a file that went away."""


class FileMissingError(StorageError, FileNotFoundError):
    """A path that leads to no file."""


class FileChangedError(StorageError):
    """A file that is no longer the one that was planned for."""


def _point_at(sql: str, position: int) -> str:
    """Two lines: the line of the SQL around `position`, and a caret under it."""
    start = sql.rfind("\n", 0, position) + 1
    stop = sql.find("\n", position)
    line = sql[start : stop if stop >= 0 else len(sql)]
    return f"  {line}\n  {' ' * (position - start)}^"


class KernelWarning(UserWarning):
    """The package was installed without its compiled kernels."""
