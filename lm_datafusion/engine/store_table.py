"""A table that is Parquet files of an object store.

In: files as DataFusion lists them, and the store. Out: the same as our own reader takes them.

DataFusion keeps its listing of a table and looks at no ETag. So a table is ours only while the
store shows the objects as DataFusion has them.

Invariant: as of `ParquetTable`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lm_datafusion.engine.parquet_table import ParquetTable
from lm_datafusion.errors import LateError
from lm_datafusion.plan import Table, TableFile
from lm_datafusion.scan import load_all_facts

if TYPE_CHECKING:
    import pyarrow as pa

    from lm_datafusion.engine.parquet_table import ListedFile
    from lm_datafusion.options import ScanOptions
    from lm_datafusion.sql.table_name import TableName
    from lm_datafusion.storage import Storage

_SECOND_NS = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreTable(ParquetTable):
    """A table that is Parquet files of an object store.

    Attributes:
        storage: The store.
    """

    storage: Storage

    @classmethod
    def of(
        cls, name: TableName, files: tuple[ListedFile, ...], schema: pa.Schema, storage: Storage
    ) -> StoreTable | None:
        """A table that has just been listed; None if the store shows other objects."""
        made = cls(name=name, files=files, schema=schema, storage=storage)
        return made if made.is_current else None

    @property
    def is_remote(self) -> bool:
        """Whether a read is a request."""
        return True

    @property
    def is_current(self) -> bool:
        """Whether the store shows every object with the size and time that DataFusion has."""
        paths = [file.path for file in self.files]
        try:
            self.storage.load_versions(paths)
            times = self.storage.load_times(paths)
        except LateError:
            return False
        # The header of an object has whole seconds, a listing may have more.
        return all(
            version.size_bytes == file.size
            and modified_ns // _SECOND_NS == file.modified_ns // _SECOND_NS
            for file, (version, modified_ns) in zip(self.files, times, strict=True)
        )

    def as_table(self) -> Table:
        """The files as our own reader takes them, in the types DataFusion gives."""
        files = tuple(TableFile(path=file.path, partition={}) for file in self.files)
        return Table(storage=self.storage, files=files, schema=self.schema)

    def as_exact_table(self, options: ScanOptions) -> Table:
        """The same, if every file has exactly the columns of the table; reads all footers at once.

        Raises:
            LateError: A file whose columns DataFusion would have to adapt.
        """
        load_all_facts(self.storage, [file.path for file in self.files], options)
        # Without arguments, `super` does not find the class behind slots.
        return ParquetTable.as_exact_table(self, options)
