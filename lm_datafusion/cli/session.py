"""The session of a command: tables by name, and files named in the SQL itself.

In: pairs of a name and a path; statements. Out: a `SessionContext`, and statements in which
quoted paths are replaced by table names.

`FROM 'logs/hits.parquet'` becomes `FROM "__file_1" AS "hits"`: it reads that file (or a folder or
glob), and `hits.url` is one of its columns. In double quotes, which quote names, only text that
looks like a path is a path. A path without a file is left to DataFusion, which reports an unknown
table.

Why not a table called `hits`: a view or a WITH of the statement may have that name.

Invariant: a name that the statement or the session defines is never a file.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lm_datafusion.cli.statements import quoted_tables
from lm_datafusion.engine import SessionContext
from lm_datafusion.errors import FileMissingError, LateError, OptionError, SqlError
from lm_datafusion.formats.names import ORC
from lm_datafusion.formats.recognition import claimed_format
from lm_datafusion.options import ScanOptions
from lm_datafusion.predicate.literals import quote_identifier
from lm_datafusion.scan import load_facts
from lm_datafusion.storage import find_storage, is_remote_url, store_of_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lm_datafusion.cli.statements import QuotedTable
_NAME: Final = re.compile(r"[^\W\d]\w*")
_PARTITION: Final = re.compile(r"([^=/]+)=[^/]*")
_PATH_CHARACTERS: Final = frozenset("./*?[" + os.sep)
_WILDCARDS: Final = frozenset("*?[")
_PARQUET: Final = ".parquet"


class CommandSession:
    """A session that knows tables by name and by path."""

    def __init__(self, tables: Iterable[tuple[str, str]], options: ScanOptions) -> None:
        self.context = SessionContext(options=options)
        self._options = options
        self._files: dict[str, str] = {}  # names of tables by path
        for name, path in tables:
            if not _NAME.fullmatch(name):
                raise OptionError(f"{name!r} cannot be the name of a table: it takes one word")
            self._register(name.lower(), path)  # as SQL reads an unquoted name

    def with_tables(self, statement: str) -> str:
        """The statement with each path replaced by a table name."""
        parts, position = [], 0
        aliases: set[str] = set()
        for quoted in quoted_tables(statement):
            if not self._is_path(quoted):
                continue
            parts.append(statement[position : quoted.start])
            parts.append(quote_identifier(self._table_of(quoted.name)))
            if not quoted.has_alias:
                alias = _alias(quoted.name, aliases)
                parts.append(f" AS {quote_identifier(alias)}")
                aliases.add(alias)
            position = quoted.stop
        return "".join([*parts, statement[position:]])

    def run(self, statement: str, label: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Begins a statement.

        Args:
            statement: One statement, with paths already replaced.
            label: Its name in errors.

        Returns:
            The schema of its result, and a stream of batches.

        Raises:
            SqlError: DataFusion's error; also raised by the batches.
        """
        with as_sql_error(label):
            frame = self.context.sql(statement)
            schema = frame.schema()

        def stream() -> Iterator[pa.RecordBatch]:
            with as_sql_error(label):
                for batch in frame.execute_stream():
                    yield batch.to_pyarrow()

        return schema, stream()

    def _is_path(self, quoted: QuotedTable) -> bool:
        looks_like_path = quoted.is_string or bool(_PATH_CHARACTERS & set(quoted.name))
        if not looks_like_path or self.context.table_exist(quote_identifier(quoted.name)):
            return False
        return bool(_load_paths(quoted.name))

    def _table_of(self, path: str) -> str:
        if path not in self._files:
            name = f"__file_{len(self._files) + 1}"
            self._register(name, path)
            self._files[path] = name
        return self._files[path]

    def _register(self, name: str, path: str) -> None:
        files = _load_paths(path)
        if not files:
            raise FileMissingError(f"no file at {path}")
        with as_sql_error(path):
            if is_remote_url(path) and _WILDCARDS & set(path):
                # DataFusion expands no wildcards of URLs.
                from lm_datafusion.dataset import dataset

                self.context.register_dataset(name, dataset(path, options=self._options))
                return
            if is_remote_url(path):
                scheme = path.split("://", 1)[0]
                self.context.register_object_store(scheme, store_of_url(path))
            if _holds_orc(files):
                self.context.register_orc(name, path)
            else:
                self.context.register_parquet(name, path, **_options(path, files))


@contextlib.contextmanager
def as_sql_error(prefix: str = "") -> Iterator[None]:
    """Converts any exception of DataFusion to a `SqlError` with its message.

    Args:
        prefix: The beginning of the message: a statement, a file.
    """
    try:
        yield
    except (LateError, BrokenPipeError):
        raise  # clear enough
    except Exception as error:
        raise SqlError(f"{prefix}: {error}" if prefix else str(error)) from error


def _alias(path: str, taken: set[str]) -> str:
    """The name of a file without its suffix, as a SQL name; with a number if taken."""
    stem = os.path.splitext(os.path.basename(os.path.normpath(path)))[0]
    stem = re.sub(r"\W+", "_", stem).strip("_").lower() or "file"
    alias, number = stem, 1
    while alias in taken:
        number += 1
        alias = f"{stem}_{number}"
    return alias


def _load_paths(path: str) -> list[str]:
    """The files of a path: one, those of a folder, or those that match a glob."""
    storage, (found,) = find_storage([path])
    if not storage.is_remote and os.path.isfile(found):
        return [found]
    if storage.is_folder(found):
        return storage.load_listing(found)
    if not storage.is_remote or _WILDCARDS & set(found):
        return storage.expand_glob(found)
    try:
        return [storage.load_version(found).path]
    except FileMissingError:
        return []


def _holds_orc(files: list[str]) -> bool:
    """Whether files are ORC: by their names, or by the bytes of the first one."""
    claimed = {claimed_format(file) for file in files} - {None}
    if claimed:
        return ORC in claimed
    try:
        storage, (first,) = find_storage(files[:1])
        return load_facts(storage, first, ScanOptions()).format_name == ORC
    except LateError:
        return False


def _options(path: str, files: list[str]) -> dict[str, Any]:
    """Options for DataFusion: another suffix, and partition columns from folder names."""
    options: dict[str, Any] = {}
    if not any(file.endswith(_PARQUET) for file in files):
        options["file_extension"] = os.path.splitext(files[0])[1]
    if os.path.isdir(path) or (is_remote_url(path) and not _WILDCARDS & set(path)):
        below = os.path.dirname(os.path.relpath(files[0], path))
        keys = [match[1] for part in below.split(os.sep) if (match := _PARTITION.fullmatch(part))]
        if keys:
            options["table_partition_cols"] = [(key, pa.string()) for key in keys]
    return options
