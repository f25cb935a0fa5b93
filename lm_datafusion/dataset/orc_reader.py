"""`OrcReader`: selected rows of an ORC file as record batches.

    reader = lm.orc_reader("hits.orc")
    selection = reader.row_selection_from_row_index("status = 503")
    for batch in reader.with_row_selection(selection).with_columns(["url"]):
        ...

In: a path. Out: see `FileReader`; a row group there is a stripe here.

Invariant: as of `FileReader`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from lm_datafusion.dataset.file_reader import FileReader
from lm_datafusion.formats.names import ORC

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from lm_datafusion.options import ScanOptions
    from lm_datafusion.selection import RowSelection
    from lm_datafusion.storage import Storage


def orc_reader(
    path: str | os.PathLike[str],
    *,
    options: ScanOptions | None = None,
    storage: Storage | None = None,
) -> OrcReader:
    """A reader of all rows and columns of an ORC file.

    Args:
        path: The file.
        options: `batch_rows`, `metadata_cache_bytes` and the options of pruning are used.
        storage: Where the file is; the local file system by default.

    Raises:
        FileMissingError: There is no such file.
        CorruptFileError: It is no ORC file.
        UnsupportedFeatureError: It is not a table.
    """
    return OrcReader.open(path, options, storage)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrcReader(FileReader):
    """Rows of one version of an ORC file."""

    _format: ClassVar[str] = ORC
    _noun: ClassVar[str] = "stripe"

    @property
    def stripes(self) -> tuple[int, ...]:
        """The chosen stripes."""
        return self.row_groups

    @property
    def stripe_rows(self) -> tuple[int, ...]:
        """The rows of each stripe of the file."""
        return self.row_group_rows

    def with_stripes(self, stripes: Sequence[int]) -> OrcReader:
        """Only some stripes, in the given order.

        Raises:
            OptionError: There is no such stripe, or one is given twice.
        """
        return self._with_row_groups(stripes)

    def stripes_from_statistics(self, predicate: str) -> list[int]:
        """The chosen stripes in which a condition may hold, by their statistics.

        Args:
            predicate: A SQL condition in DataFusion's dialect.

        Raises:
            SqlError: It is not a condition.
            ColumnNotFoundError: It names a column that does not exist.
        """
        return self._left_by_statistics(predicate)

    def row_selection_from_row_index(self, predicate: str) -> RowSelection:
        """The row groups in which a condition may hold: all their rows.

        Statistics of stripes are asked first, then row indexes and bloom filters of the stripes
        left. A selection set before does not matter: intersect with it.

        Args:
            predicate: A SQL condition in DataFusion's dialect.

        Returns:
            A selection over the rows of the chosen stripes.

        Raises:
            SqlError: It is not a condition.
            ColumnNotFoundError: It names a column that does not exist.
        """
        return self._left_by_indexes(predicate)
