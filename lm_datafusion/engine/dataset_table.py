"""Tables that are datasets of ours: of formats that DataFusion has no reader for.

In: a dataset. Out: the form in which DataFusion scans it under a name, and the table that access
paths see behind that name.

DataFusion does not say which dataset is behind a name, so it is watched: while it plans a scan of
the name alone, it asks that dataset for fragments, on the thread that plans.

Invariant: a name is taken for a dataset only if DataFusion itself asked that dataset, and no other.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lm_datafusion.engine.parquet_table import ListedFile, ParquetTable
from lm_datafusion.engine.watch import WatchedDataset
from lm_datafusion.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from datafusion import DataFrame

    from lm_datafusion.dataset import LateDataset
    from lm_datafusion.options import ScanOptions
    from lm_datafusion.plan import Table
    from lm_datafusion.sql.table_name import TableName


class _Watching(threading.local):
    """The datasets that were asked on this thread; None if nobody watches."""

    asked: list[NamedDataset] | None = None


_WATCHING = _Watching()


class NamedDataset(WatchedDataset):
    """A dataset as DataFusion scans it under a name."""

    @property
    def late(self) -> LateDataset:
        """The dataset."""
        return self._late

    def get_fragments(self, filter: Any = None) -> Iterator[Any]:  # noqa: A002 PyArrow's name
        """As the dataset's; none while a scan is planned to see what a name means."""
        if _WATCHING.asked is None:
            yield from super().get_fragments(filter)
        else:
            _WATCHING.asked.append(self)


def of_orc(late: LateDataset) -> LateDataset:
    """The dataset, if its files are ORC.

    Raises:
        OptionError: They are Parquet, which DataFusion reads as well.
    """
    if late.format.default_extname != "orc":
        raise OptionError(f"{late.files[0]} is Parquet, not ORC: register it as Parquet")
    return late


@contextmanager
def datasets_asked() -> Iterator[list[NamedDataset]]:
    """The datasets that DataFusion asks for fragments in a block."""
    found = _WATCHING.asked = []
    try:
        yield found
    finally:
        _WATCHING.asked = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetTable(ParquetTable):
    """A table that is a dataset of ours.

    Attributes:
        late: The dataset.
    """

    late: LateDataset

    @classmethod
    def of(cls, name: TableName, late: LateDataset, schema: pa.Schema) -> DatasetTable:
        """The table behind a name.

        Raises:
            OSError: A file is gone.
        """
        stats = [(path, os.stat(path)) for path in late.files]
        files = tuple(ListedFile(path, stat.st_size, stat.st_mtime_ns) for path, stat in stats)
        return cls(name=name, files=files, schema=schema, late=late)

    @property
    def has_native_reader(self) -> bool:
        """DataFusion has none."""
        return False

    @property
    def is_current(self) -> bool:
        """Whether every file is still the one that was looked at; others are not looked for."""
        return all(file.is_unchanged for file in self.files)

    def as_table(self) -> Table:
        """The files of the dataset."""
        return self.late.replace_schema(self.schema).table

    def as_exact_table(self, options: ScanOptions) -> Table:  # noqa: ARG002 nothing to check
        """The same: the dataset adapts the columns of files."""
        return self.as_table()


def is_plain_scan(frame: DataFrame) -> bool:
    """Whether a frame is a table itself, not a view."""
    return type(frame.logical_plan().to_variant()).__name__ == "TableScan"
