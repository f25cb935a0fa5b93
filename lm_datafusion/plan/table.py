"""A table: files with one schema. Frozen and picklable; nothing here reads a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from lm_datafusion.storage import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFile:
    """One file, and the values its folders give to partition columns."""

    path: str
    partition: Mapping[str, pa.Scalar]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Files of one schema, in the order their rows have."""

    storage: Storage
    files: tuple[TableFile, ...]
    schema: pa.Schema
