"""Which files a DataFusion plan would read, told by the plan itself.

In: an execution plan. Out: the Parquet files of each of its scans, as DataFusion lists them.

DataFusion finds the files of a table by rules of its own (extensions, globs, folders of folders),
so it is asked, not imitated: a leaf of its plan serialises to Protocol Buffers, and the file
groups stand at a fixed place in them.

    PhysicalPlanNode.parquet_scan(1).base_conf(1): file_groups(1).files(1), object_store_url(8)
    PartitionedFile: path(1), size(2), last_modified_ns(3), partition_values(4)

Invariant: a leaf that is not surely a scan of whole local Parquet files gives None.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from datafusion import ExecutionPlan, SessionContext

_VARINT, _EIGHT_BYTES, _LENGTH_DELIMITED, _FOUR_BYTES = 0, 1, 2, 5
_LOCAL = b"file:///"


@dataclass(frozen=True, slots=True, order=True)
class ListedFile:
    """A file as DataFusion listed it: with its size and time of change at that time."""

    path: str
    size: int
    modified_ns: int


def scanned_files(
    plan: ExecutionPlan, context: SessionContext
) -> list[tuple[ListedFile, ...] | None]:
    """The files of each leaf of a plan; None for a leaf that is no scan of local Parquet files."""
    children = plan.children()
    if children:
        return [files for child in children for files in scanned_files(child, context)]
    if "file_type=parquet" not in plan.display():
        return [None]
    try:
        return [_listed_files(plan.to_bytes(context))]
    except (ValueError, IndexError, UnicodeDecodeError):
        return [None]
    except Exception:  # noqa: BLE001 DataFusion says in its own class that it cannot serialise
        return [None]


def _listed_files(serialised: bytes) -> tuple[ListedFile, ...] | None:
    scan = _only(serialised, 1)
    conf = _only(scan, 1)
    if _only(conf, 8) != _LOCAL:
        return None
    found: dict[str, ListedFile] = {}
    for number, group in _fields(conf):
        if number != 1:
            continue
        for _, file in _fields(_as_bytes(group)):
            listed = _listed_file(_as_bytes(file))
            if listed is None:
                return None
            found[listed.path] = listed
    return tuple(found.values()) or None


def _listed_file(serialised: bytes) -> ListedFile | None:
    values = dict(_fields(serialised))
    if values.get(4):  # folders give values of partition columns
        return None
    path = os.sep + _as_bytes(values[1]).decode()
    size, modified_ns = values.get(2, 0), values.get(3, 0)
    if not (isinstance(size, int) and isinstance(modified_ns, int)):
        return None
    # DataFusion escapes what an object store could not hold in a name.
    return ListedFile(path, size, modified_ns) if os.path.isfile(path) else None


def _only(message: bytes, number: int) -> bytes:
    (value,) = [value for found, value in _fields(message) if found == number]
    return _as_bytes(value)


def _as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError(value)  # noqa: TRY004 not a wrong argument, a wrong message
    return value


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a Protocol Buffers message: number and value."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        number, wire_type = key >> 3, key & 7
        if wire_type == _VARINT:
            value, position = _varint(message, position)
            yield number, value
            continue
        if wire_type == _LENGTH_DELIMITED:
            length, position = _varint(message, position)
        else:
            length = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}[wire_type]
        yield number, message[position : position + length]
        position += length


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 the high bit says that more follows
            return value, position
        shift += 7
