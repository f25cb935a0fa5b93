"""Which files a DataFusion plan would read, as the plan itself says.

In: an execution plan. Out: the Parquet files of each of its scans, as DataFusion lists them.

DataFusion finds the files of a table by rules of its own (extensions, globs, nested folders), so
it is asked, not imitated: a leaf of its plan serialises to Protocol Buffers, and the file groups
are at a fixed position in them.

    PhysicalPlanNode.parquet_scan(1).base_conf(1): file_groups(1).files(1), object_store_url(8)
    PartitionedFile: path(1), size(2), last_modified_ns(3), partition_values(4)

Invariant: a leaf that is not surely a scan of whole local Parquet files gives None.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lm_datafusion.protobuf import as_bytes, fields, only

if TYPE_CHECKING:
    from datafusion import ExecutionPlan, SessionContext

_LOCAL = b"file:///"
_GROUPS, _PATH, _SIZE, _MODIFIED_NS, _PARTITION_VALUES = 1, 1, 2, 3, 4


@dataclass(frozen=True, slots=True, order=True)
class ListedFile:
    """A file as DataFusion listed it, with its size and modification time at that moment."""

    path: str
    size: int
    modified_ns: int

    @property
    def is_unchanged(self) -> bool:
        """Whether the file still has that size and time."""
        try:
            now = os.stat(self.path)
        except OSError:
            return False
        return now.st_size == self.size and now.st_mtime_ns == self.modified_ns


def scanned_files(
    plan: ExecutionPlan, context: SessionContext
) -> list[tuple[ListedFile, ...] | None]:
    """The files of each leaf of a plan; None for a leaf that is no scan of local Parquet files."""
    return [_files_of(leaf, context) for leaf in _leaves(plan)]


def _leaves(plan: ExecutionPlan) -> list[ExecutionPlan]:
    children = plan.children()
    return [leaf for child in children for leaf in _leaves(child)] if children else [plan]


def _files_of(leaf: ExecutionPlan, context: SessionContext) -> tuple[ListedFile, ...] | None:
    if "file_type=parquet" not in leaf.display():
        return None
    try:
        return _listed_files(leaf.to_bytes(context))
    except Exception:  # noqa: BLE001 DataFusion has no class for a plan that it cannot serialise
        return None


def _listed_files(leaf: bytes) -> tuple[ListedFile, ...] | None:
    conf = only(only(leaf, 1), 1)
    if only(conf, 8) != _LOCAL:
        return None
    found: dict[str, ListedFile] = {}
    groups = [as_bytes(field.value) for field in fields(conf) if field.number == _GROUPS]
    for file in (as_bytes(field.value) for group in groups for field in fields(group)):
        listed = _listed_file(file)
        if listed is None:
            return None
        found[listed.path] = listed
    return tuple(found.values()) or None


def _listed_file(file: bytes) -> ListedFile | None:
    values = {field.number: field.value for field in fields(file)}
    if values.get(_PARTITION_VALUES):  # folder names give values of partition columns
        return None
    path = os.sep + only(file, _PATH).decode()
    size, modified_ns = values.get(_SIZE, 0), values.get(_MODIFIED_NS, 0)
    if not (isinstance(size, int) and isinstance(modified_ns, int)):
        return None
    # DataFusion escapes characters that an object store could not hold in a name.
    return ListedFile(path, size, modified_ns) if os.path.isfile(path) else None
