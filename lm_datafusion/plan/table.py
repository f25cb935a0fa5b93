"""A table: files with one schema. Frozen and picklable; only `pinned` looks at files."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from lm_datafusion.storage import FileVersion, Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFile:
    """One file, and the values its folders give to partition columns.

    Attributes:
        path: Where it is.
        partition: Values of partition columns.
        version: The version to read; None for the one found when a scan is planned.
    """

    path: str
    partition: Mapping[str, pa.Scalar]
    version: FileVersion | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Files of one schema, in row order."""

    storage: Storage
    files: tuple[TableFile, ...]
    schema: pa.Schema

    def pinned(self) -> Table:
        """The same files at their current versions: scanning any other version is an error."""
        versions = self.storage.load_versions([file.path for file in self.files])
        files = (
            dataclasses.replace(file, version=version)
            for file, version in zip(self.files, versions, strict=True)
        )
        return dataclasses.replace(self, files=tuple(files))
