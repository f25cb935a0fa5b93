"""Which files a DataFusion plan would read, told by the plan itself; and the same plan over parts.

In: an execution plan. Out: the Parquet files of each of its scans, as DataFusion lists them; or
a serialised scan that reads chosen parts of them.

DataFusion finds the files of a table by rules of its own (extensions, globs, folders of folders),
so it is asked, not imitated: a leaf of its plan serialises to Protocol Buffers, and the file
groups stand at a fixed place in them.

    PhysicalPlanNode.parquet_scan(1).base_conf(1): file_groups(1).files(1), object_store_url(8)
    PartitionedFile: path(1), size(2), last_modified_ns(3), partition_values(4), range(5),
                     statistics(6)
    FileRange: start(1), end(2)

A range means the row groups that begin in it.

Invariant: a leaf that is not surely a scan of whole local Parquet files gives None.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lm_datafusion.engine.protobuf import (
    as_bytes,
    bytes_field,
    fields,
    number_field,
    only,
    replaced,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from datafusion import ExecutionPlan, SessionContext

_LOCAL = b"file:///"
_GROUPS, _PATH, _SIZE, _MODIFIED_NS, _PARTITION_VALUES, _RANGE = 1, 1, 2, 3, 4, 5


@dataclass(frozen=True, slots=True, order=True)
class ListedFile:
    """A file as DataFusion listed it: with its size and time of change at that time."""

    path: str
    size: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class FileRange:
    """The row groups of a file that begin in a range of its bytes."""

    path: str
    start: int
    stop: int


def scanned_files(
    plan: ExecutionPlan, context: SessionContext
) -> list[tuple[ListedFile, ...] | None]:
    """The files of each leaf of a plan; None for a leaf that is no scan of local Parquet files."""
    return [_files_of(leaf, context) for leaf in leaves_of(plan)]


def leaves_of(plan: ExecutionPlan) -> list[ExecutionPlan]:
    """The nodes of a plan that have no input."""
    children = plan.children()
    return [leaf for child in children for leaf in leaves_of(child)] if children else [plan]


def is_parquet_scan(leaf: ExecutionPlan) -> bool:
    """Whether a leaf reads Parquet files."""
    return "file_type=parquet" in leaf.display()


def _files_of(leaf: ExecutionPlan, context: SessionContext) -> tuple[ListedFile, ...] | None:
    if not is_parquet_scan(leaf):
        return None
    try:
        return listed_files(leaf.to_bytes(context))
    except ValueError:
        return None
    except Exception:  # noqa: BLE001 DataFusion says in its own class that it cannot serialise
        return None


def listed_files(leaf: bytes) -> tuple[ListedFile, ...] | None:
    """The files of a serialised scan; None if they are not all local and whole.

    Raises:
        ValueError: It is no scan of files.
    """
    conf = only(only(leaf, 1), 1)
    if only(conf, 8) != _LOCAL:
        return None
    found: dict[str, ListedFile] = {}
    for file in _files(conf):
        listed = _listed_file(file)
        if listed is None:
            return None
        found[listed.path] = listed
    return tuple(found.values()) or None


def group_count(leaf: bytes) -> int:
    """How many partitions a serialised scan has."""
    return sum(field.number == _GROUPS for field in fields(only(only(leaf, 1), 1)))


def over_ranges(leaf: bytes, groups: Sequence[Sequence[FileRange]]) -> bytes:
    """A serialised scan that reads these parts of its files, a group of them per partition.

    Raises:
        ValueError: It is no scan of these files.
    """
    conf = only(only(leaf, 1), 1)
    files = {_path(file): _without(file, _RANGE) for file in _files(conf)}
    rest = b"".join(conf[f.start : f.stop] for f in fields(conf) if f.number != _GROUPS)
    if not all(part.path in files for group in groups for part in group):
        raise ValueError("a file that is not scanned")
    changed = b"".join(
        bytes_field(_GROUPS, b"".join(bytes_field(1, _part(files[p.path], p)) for p in group))
        for group in groups
    )
    return replaced(leaf, conf, changed + rest)


def without_statistics(leaf: bytes) -> bytes:
    """A serialised scan whose files come without statistics: these were for planning."""
    conf = only(only(leaf, 1), 1)
    changed = b""
    for field in fields(conf):
        if field.number != _GROUPS:
            changed += conf[field.start : field.stop]
            continue
        files = [as_bytes(file.value) for file in fields(as_bytes(field.value))]
        group = b"".join(bytes_field(1, _without(file, _RANGE + 1)) for file in files)
        changed += bytes_field(_GROUPS, group)
    return replaced(leaf, conf, changed)


def _files(conf: bytes) -> list[bytes]:
    groups = [as_bytes(field.value) for field in fields(conf) if field.number == _GROUPS]
    return [as_bytes(file.value) for group in groups for file in fields(group)]


def _part(file: bytes, part: FileRange) -> bytes:
    span = number_field(1, part.start) + number_field(2, part.stop)
    return file + bytes_field(_RANGE, span)


def _without(message: bytes, first: int) -> bytes:
    """A message without the fields from some number on."""
    kept = [field for field in fields(message) if field.number < first]
    return b"".join(message[field.start : field.stop] for field in kept)


def _path(file: bytes) -> str:
    return os.sep + only(file, _PATH).decode()


def _listed_file(file: bytes) -> ListedFile | None:
    values = {field.number: field.value for field in fields(file)}
    if values.get(_PARTITION_VALUES):  # folders give values of partition columns
        return None
    path = _path(file)
    size, modified_ns = values.get(_SIZE, 0), values.get(_MODIFIED_NS, 0)
    if not (isinstance(size, int) and isinstance(modified_ns, int)):
        return None
    # DataFusion escapes what an object store could not hold in a name.
    return ListedFile(path, size, modified_ns) if os.path.isfile(path) else None
