"""The session of a command: tables by name, and files named in the SQL itself.

In: pairs of a name and a path; statements. Out: a `SessionContext`, and statements in which
quoted paths have become names of tables.

`FROM 'logs/hits.parquet'` reads that file, a folder or a glob the same way, and `hits.url` names
a column of it. A quoted name that is a table of the session is that table; one that leads to no
file is left to DataFusion, which says that it knows no such table.

Invariant: a path is registered once, so that its footer is read once.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lm_datafusion.cli.statements import quoted_tables
from lm_datafusion.engine import SessionContext
from lm_datafusion.errors import FileMissingError, LateError, OptionError, SqlError
from lm_datafusion.predicate.literals import quote_identifier
from lm_datafusion.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lm_datafusion.options import ScanOptions

_NAME: Final = re.compile(r"[^\W\d]\w*")
_PARTITION: Final = re.compile(r"([^=/]+)=[^/]*")
_PARQUET: Final = ".parquet"


class CommandSession:
    """A session that knows tables by name and by path."""

    def __init__(self, tables: Iterable[tuple[str, str]], options: ScanOptions) -> None:
        self.context = SessionContext(options=options)
        self._names_by_path: dict[str, str] = {}
        self._names: set[str] = set()
        for name, path in tables:
            if not _NAME.fullmatch(name):
                raise OptionError(f"{name!r} cannot be the name of a table: it takes one word")
            self._register(name.lower(), path)  # as SQL reads an unquoted name

    def with_tables(self, statement: str) -> str:
        """A statement in which each path is the name of a table."""
        parts, position = [], 0
        for quoted in quoted_tables(statement):
            if quoted.name in self._names or not _load_paths(quoted.name):
                continue
            parts.append(statement[position : quoted.start])
            parts.append(quote_identifier(self._name_of(quoted.name)))
            position = quoted.stop
        return "".join([*parts, statement[position:]])

    def run(self, statement: str, label: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Begins a statement.

        Args:
            statement: One statement, in which paths are tables already.
            label: What errors call it.

        Returns:
            The schema of its result, and the batches as they come.

        Raises:
            SqlError: What DataFusion says; from the batches, too.
        """
        with as_sql_error(label):
            frame = self.context.sql(statement)
            schema = frame.schema()

        def stream() -> Iterator[pa.RecordBatch]:
            with as_sql_error(label):
                for batch in frame.execute_stream():
                    yield batch.to_pyarrow()

        return schema, stream()

    def _name_of(self, path: str) -> str:
        name = self._names_by_path.get(path)
        if name is None:
            name = self._register(self._free_name(path), path)
        return name

    def _free_name(self, path: str) -> str:
        stem = os.path.splitext(os.path.basename(os.path.normpath(path)))[0]
        stem = re.sub(r"\W+", "_", stem).strip("_").lower() or "table"
        name, number = stem, 1
        while name in self._names:
            number += 1
            name = f"{stem}_{number}"
        return name

    def _register(self, name: str, path: str) -> str:
        files = _load_paths(path)
        if not files:
            raise FileMissingError(f"no file at {path}")
        with as_sql_error(path):
            self.context.register_parquet(
                quote_identifier(name) if not _NAME.fullmatch(name) else name,
                path,
                **_options(path, files),
            )
        self._names.add(name)
        self._names_by_path[path] = name
        return name


class as_sql_error:  # noqa: N801 reads as a verb where it is used
    """What DataFusion raises, of whatever type, becomes a `SqlError` with its message."""

    def __init__(self, place: str = "") -> None:
        self._place = f"{place}: " if place else ""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, LateError | BrokenPipeError):
            return  # says enough by itself
        if isinstance(error, Exception):
            raise SqlError(f"{self._place}{error}") from error


def _load_paths(path: str) -> list[str]:
    """The files of a path: one, those of a folder, or those a glob stands for."""
    storage = LocalStorage()
    if os.path.isfile(path):
        return [path]
    return storage.load_listing(path) if storage.is_folder(path) else storage.expand_glob(path)


def _options(path: str, files: list[str]) -> dict[str, Any]:
    """What DataFusion must be told: another suffix, and columns that are names of folders."""
    options: dict[str, Any] = {}
    if not any(file.endswith(_PARQUET) for file in files):
        options["file_extension"] = os.path.splitext(files[0])[1]
    if os.path.isdir(path):
        below = os.path.dirname(os.path.relpath(files[0], path))
        keys = [match[1] for part in below.split(os.sep) if (match := _PARTITION.fullmatch(part))]
        if keys:
            options["table_partition_cols"] = [(key, pa.string()) for key in keys]
    return options
