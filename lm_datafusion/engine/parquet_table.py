"""A table that is local Parquet files and nothing else.

In: files as DataFusion lists them, and the schema it gives. Out: the same as our own reader takes
them.

Invariant: a table is current only while its files and their folders are as they were when it was
listed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from lm_datafusion.errors import LateError
from lm_datafusion.plan import Table, TableFile
from lm_datafusion.scan import load_facts
from lm_datafusion.storage import LocalStorage

if TYPE_CHECKING:
    from lm_datafusion.engine.listing import ListedFile
    from lm_datafusion.options import ScanOptions

# A name as a plan has it, without the parts that are missing.
TableName = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetTable:
    """A table that is local Parquet files and nothing else.

    Attributes:
        name: As plans have it.
        files: As DataFusion lists them.
        schema: As DataFusion gives it.
    """

    name: TableName
    files: tuple[ListedFile, ...]
    schema: pa.Schema
    _folders: dict[str, int] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def listed(
        cls, name: TableName, files: tuple[ListedFile, ...], schema: pa.Schema
    ) -> ParquetTable:
        """A table that has just been listed."""
        return cls(
            name=name, files=files, schema=schema, _folders=_folder_times(_folders_of(files))
        )

    @property
    def printed_names(self) -> set[str]:
        """What DataFusion may call it when it prints a plan."""
        return {self.name[-1], ".".join(self.name)}

    @property
    def has_native_reader(self) -> bool:
        """Whether DataFusion can read the files by itself."""
        return True

    @property
    def size_bytes(self) -> int:
        """The size of all files."""
        return sum(file.size for file in self.files)

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

    @property
    def is_current(self) -> bool:
        """Whether every file is still the one that was listed, and no file came to its folders."""
        return (
            all(file.is_unchanged for file in self.files)
            and self._folders is not None
            and self._folders == _folder_times(self._folders)
        )


def _folders_of(files: tuple[ListedFile, ...]) -> set[str]:
    """The folders of files, and those between them and the folder they share."""
    parents = {os.path.dirname(file.path) for file in files}
    root = os.path.commonpath(parents)
    found = {root}
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
