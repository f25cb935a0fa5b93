"""`ParquetReader`: selected rows of a Parquet file as record batches.

    reader = lm.parquet_reader("hits.parquet")
    selection = reader.row_selection_from_page_index("status = 503")
    for batch in reader.with_row_selection(selection).with_columns(["url"]):
        ...

In: a path. Out: see `FileReader`.

Invariant: as of `FileReader`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from lm_datafusion.dataset.file_reader import FileReader
from lm_datafusion.formats.names import PARQUET

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from lm_datafusion.options import ScanOptions
    from lm_datafusion.selection import RowSelection
    from lm_datafusion.storage import Storage


def parquet_reader(
    path: str | os.PathLike[str],
    *,
    options: ScanOptions | None = None,
    storage: Storage | None = None,
) -> ParquetReader:
    """A reader of all rows and columns of a Parquet file.

    Args:
        path: The file.
        options: `batch_rows`, `metadata_cache_bytes` and the options of pruning are used.
        storage: Where the file is; the local file system by default.

    Raises:
        FileMissingError: There is no such file.
        CorruptFileError: It is no Parquet file.
        UnsupportedFeatureError: It is encrypted.
    """
    return ParquetReader.open(path, options, storage)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetReader(FileReader):
    """Rows of one version of a Parquet file."""

    _format: ClassVar[str] = PARQUET

    def with_row_groups(self, row_groups: Sequence[int]) -> ParquetReader:
        """Only some row groups, in the given order.

        Raises:
            OptionError: There is no such row group, or one is given twice.
        """
        return self._with_row_groups(row_groups)

    def row_groups_from_statistics(self, predicate: str) -> list[int]:
        """The chosen row groups in which a condition may hold, by their statistics.

        Args:
            predicate: A SQL condition in DataFusion's dialect.

        Raises:
            SqlError: It is not a condition.
            ColumnNotFoundError: It names a column that does not exist.
        """
        return self._left_by_statistics(predicate)

    def row_selection_from_page_index(self, predicate: str) -> RowSelection:
        """The pages in which a condition may hold: all their rows.

        Statistics of row groups are asked first, then page indexes and bloom filters of the row
        groups left. A selection set before does not matter: intersect with it.

        Args:
            predicate: A SQL condition in DataFusion's dialect.

        Returns:
            A selection over the rows of the chosen row groups.

        Raises:
            SqlError: It is not a condition.
            ColumnNotFoundError: It names a column that does not exist.
        """
        return self._left_by_indexes(predicate)
