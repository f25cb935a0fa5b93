"""Finds the files of a source.

In: a path, a list of paths, a folder or a glob. Out: `TableFile`s, with partition values from
folder names like `year=2024`.

Invariant: files are sorted (a list keeps its order), so that scans are repeatable.
"""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lm_datafusion.errors import FileMissingError, OptionError
from lm_datafusion.formats.recognition import claimed_format
from lm_datafusion.plan import TableFile

if TYPE_CHECKING:
    from lm_datafusion.storage import Storage

Source = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_GLOB_CHARACTERS = frozenset("*?[")


def load_table_files(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    storage: Storage,
    schema: pa.Schema | None = None,
) -> tuple[TableFile, ...]:
    """Finds the files of a source.

    Args:
        source: A file, a folder, a glob, or a list of these.
        storage: Where to look.
        schema: Gives the types of partition columns; the types of others are inferred.

    Returns:
        The files, each with the partition values of its path.

    Raises:
        FileMissingError: The source does not exist.
        OptionError: The source is invalid, it has files of two formats, or a partition value does
            not fit the schema.
    """
    sources = paths_of(source)
    if not sources:
        raise OptionError("no path was given")
    found = [pair for item in sources for pair in _expand(item, storage)]
    check_one_format((claimed_format(path), path) for path, _ in found)
    return _with_partitions(found, schema)


def check_one_format(files: Iterable[tuple[str | None, str]]) -> None:
    """Checks that files are of one format.

    Args:
        files: Pairs of a format, None if it is not known, and a path.

    Raises:
        OptionError: There are two formats; the message names a file of each.
    """
    first: dict[str, str] = {}
    for name, path in files:
        if name is not None:
            first.setdefault(name, path)
    if len(first) > 1:
        both = " and ".join(f"{path} ({name})" for name, path in first.items())
        raise OptionError(f"the files of a table have one format, not two: {both}")


def paths_of(source: object) -> list[str]:
    """The paths of a source, as text."""
    if isinstance(source, str | os.PathLike):
        return [os.fspath(source)]
    items: list[Any] = list(source) if isinstance(source, Iterable) else [None]
    if not all(isinstance(item, str | os.PathLike) for item in items):
        raise OptionError(f"a path, a list of paths or a glob is expected, not {source!r}")
    return [os.fspath(item) for item in items]


def _expand(source: str, storage: Storage) -> list[tuple[str, str]]:
    """Pairs of a path and the part of it that may name partitions."""
    if storage.is_folder(source):
        paths = storage.load_listing(source)
        named = [path for path in paths if claimed_format(path) is not None]
        if not paths:
            raise FileMissingError(f"the folder {source} holds no files")
        return [(path, _inner_path(path, source, storage)) for path in named or paths]
    is_glob = bool(_GLOB_CHARACTERS & set(source))
    if is_glob and (storage.is_remote or not os.path.exists(source)):
        paths = storage.expand_glob(source)
        if not paths:
            raise FileMissingError(f"no file matches {source}")
        return [(path, _inner_path(path, _fixed_part(source), storage)) for path in paths]
    storage.load_version(source)
    return [(source, "")]


def _inner_path(path: str, folder: str, storage: Storage) -> str:
    """A path below a folder; keys of a store are taken as they are."""
    if storage.is_remote:
        return path.removeprefix(folder.rstrip("/")).lstrip("/")
    return os.path.relpath(path, folder)


def _fixed_part(pattern: str) -> str:
    """The folders of a glob before its first wildcard."""
    kept = []
    for part in os.path.dirname(pattern).split(os.sep):
        if _GLOB_CHARACTERS & set(part):
            break
        kept.append(part)
    return os.sep.join(kept) or "."


def _with_partitions(
    found: list[tuple[str, str]], schema: pa.Schema | None
) -> tuple[TableFile, ...]:
    texts = [_partition_texts(inner) for _, inner in found]
    names = list(dict.fromkeys(name for values in texts for name in values))
    types = {
        name: schema.field(name).type
        if schema is not None and name in schema.names
        else _partition_type([values.get(name) for values in texts])
        for name in names
    }
    return tuple(
        TableFile(
            path=path,
            partition={name: _partition_value(values[name], types[name]) for name in values},
        )
        for (path, _), values in zip(found, texts, strict=True)
    )


def _partition_texts(inner_path: str) -> dict[str, str | None]:
    texts: dict[str, str | None] = {}
    for part in os.path.dirname(inner_path).split(os.sep):
        name, equals, value = part.partition("=")
        if equals and name:
            decoded = urllib.parse.unquote(value)
            texts[urllib.parse.unquote(name)] = None if decoded == HIVE_NULL else decoded
    return texts


def _partition_type(texts: list[str | None]) -> pa.DataType:
    """The type PyArrow would infer: `int32` if all values fit, else text."""
    values = [text for text in texts if text is not None]
    if values and all(_is_integer(text) for text in values):
        numbers = [int(text) for text in values]
        return pa.int32() if all(-(1 << 31) <= n < 1 << 31 for n in numbers) else pa.int64()
    return pa.string()


def _is_integer(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and -(1 << 63) <= int(text) < 1 << 63


def _partition_value(text: str | None, data_type: pa.DataType) -> pa.Scalar:
    if text is None:
        return pa.scalar(None, data_type)
    try:
        return pa.scalar(text).cast(data_type)
    except (pa.ArrowException, NotImplementedError) as error:
        raise OptionError(f"the partition value {text!r} is no {data_type}: {error}") from error
