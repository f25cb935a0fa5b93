"""Tables that are local Parquet files and nothing else.

In: a DataFusion plan, and the schema of a table. Out: the files of each of its scans; a table as
our own reader takes it.

DataFusion finds the files of a table by rules of its own (extensions, globs, nested folders), so
its plan is asked: a leaf serialises to Protocol Buffers, with the file groups at a fixed position.

    PhysicalPlanNode.parquet_scan(1).base_conf(1): file_groups(1).files(1), object_store_url(8)
    PartitionedFile: path(1), size(2), last_modified_ns(3), partition_values(4)

Invariant: a leaf that is not surely a scan of whole Parquet files, local ones or those of an object
store that our reader knows, gives None. A table is
current only while its files and their folders are as they were when it was listed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from lm_datafusion.errors import LateError
from lm_datafusion.plan import Table, TableFile
from lm_datafusion.protobuf import as_bytes, fields, only
from lm_datafusion.scan import load_facts
from lm_datafusion.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from datafusion import ExecutionPlan, SessionContext

    from lm_datafusion.options import ScanOptions
    from lm_datafusion.sql.table_name import TableName
    from lm_datafusion.storage import Storage

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetTable:
    """A table, as DataFusion lists its files and gives its schema."""

    name: TableName
    files: tuple[ListedFile, ...]
    schema: pa.Schema
    _folders: dict[str, int] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def listed(
        cls, name: TableName, files: tuple[ListedFile, ...], schema: pa.Schema
    ) -> ParquetTable:
        """A table that has just been listed."""
        folders = _folder_times(_folders_of(files))
        return cls(name=name, files=files, schema=schema, _folders=folders)

    @property
    def printed_names(self) -> set[str]:
        """What DataFusion may call it when it prints a plan."""
        return {self.name[-1], ".".join(self.name)}

    @property
    def has_native_reader(self) -> bool:
        """Whether DataFusion can read the files by itself."""
        return True

    @property
    def is_remote(self) -> bool:
        """Whether a read is a request."""
        return False

    @property
    def size_bytes(self) -> int:
        """The size of all files."""
        return sum(file.size for file in self.files)

    @property
    def is_current(self) -> bool:
        """Whether every file is still the one that was listed, and no file came to its folders."""
        return (
            all(file.is_unchanged for file in self.files)
            and self._folders is not None
            and self._folders == _folder_times(self._folders)
        )

    def as_table(self) -> Table:
        """The files as our own reader takes them, in the types DataFusion gives."""
        files = tuple(TableFile(path=file.path, partition={}) for file in self.files)
        return Table(storage=LocalStorage(), files=files, schema=self.schema)

    def as_exact_table(self, options: ScanOptions) -> Table:
        """The same, if every file has exactly the columns of the table.

        Raises:
            LateError: A file whose columns DataFusion would have to adapt.
        """
        found = self.as_table()
        fitting: pa.Schema | None = None
        # Arrow's comparison ignores the names of list elements.
        is_flat = not any(pa.types.is_nested(data_type) for data_type in self.schema.types)
        for file in found.files:
            stored = load_facts(found.storage, file.path, options).schema
            # Files of one writer are alike, and Arrow compares schemas 30 times as fast.
            if is_flat and fitting is not None and stored.equals(fitting):
                continue
            if not _fits(stored, self.schema):
                raise LateError(f"the columns of {file.path} are not exactly those of the table")
            fitting = stored
        return found


def scanned_files(
    plan: ExecutionPlan, context: SessionContext, stores: Mapping[str, Storage]
) -> list[tuple[ListedFile, ...] | None]:
    """The files of each leaf of a plan; None for a leaf that is no scan of Parquet files.

    Those of object stores too, if our reader knows the store by its URL.
    """
    children = plan.children()
    if children:
        return [files for child in children for files in scanned_files(child, context, stores)]
    if "file_type=parquet" not in plan.display():
        return [None]
    try:
        return [_listed_files(plan.to_bytes(context), stores)]
    except Exception:  # noqa: BLE001 DataFusion has no class for a plan that it cannot serialise
        return [None]


def _listed_files(leaf: bytes, stores: Mapping[str, Storage]) -> tuple[ListedFile, ...] | None:
    conf = only(only(leaf, 1), 1)
    where = only(conf, 8)
    url = "" if where == _LOCAL else where.decode().rstrip("/")
    if url and url not in stores:
        return None
    groups = [as_bytes(field.value) for field in fields(conf) if field.number == _GROUPS]
    found = [_listed_file(as_bytes(file.value), url) for group in groups for file in fields(group)]
    files = {file.path: file for file in found if file is not None}
    return None if None in found else tuple(files.values()) or None


def _listed_file(file: bytes, url: str) -> ListedFile | None:
    values = {field.number: field.value for field in fields(file)}
    if values.get(_PARTITION_VALUES):  # folder names give values of partition columns
        return None
    path = f"{url}/{only(file, _PATH).decode()}"
    size, modified_ns = values.get(_SIZE, 0), values.get(_MODIFIED_NS, 0)
    if not (isinstance(size, int) and isinstance(modified_ns, int)):
        return None
    # DataFusion escapes characters that an object store could not hold in a name.
    return ListedFile(path, size, modified_ns) if url or os.path.isfile(path) else None


def _folders_of(files: tuple[ListedFile, ...]) -> set[str]:
    """The folders of files, and those between them and the folder they share."""
    parents = {os.path.dirname(file.path) for file in files}
    found = {os.path.commonpath(parents)}
    for folder in parents:
        while folder not in found:
            found.add(folder)
            folder = os.path.dirname(folder)  # noqa: PLW2901 upwards
    return found


def _folder_times(names: set[str] | dict[str, int]) -> dict[str, int] | None:
    try:
        return {name: os.stat(name).st_mtime_ns for name in names}
    except OSError:
        return None


def _fits(stored: pa.Schema, wanted: pa.Schema) -> bool:
    """Whether a file has the columns of a table; string layouts may differ."""
    return stored.names == wanted.names and all(
        have.nullable == want.nullable and _without_layout(have) == _without_layout(want)
        for have, want in zip(stored, wanted, strict=True)
    )


def _without_layout(column: pa.Field) -> str:
    return str(column.type).replace("_view", "").replace("large_", "")
