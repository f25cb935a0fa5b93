"""`ParquetFacts`: a Parquet file as the rooms above see files of any format.

In: an open file. Out: facts of its footer, and what follows from them; see `formats.protocol`.

Invariant: as of the modules it is made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lm_datafusion.formats.names import PARQUET
from lm_datafusion.formats.parquet import profile
from lm_datafusion.formats.parquet.decode import FileColumn
from lm_datafusion.formats.parquet.dictionary import load_dictionary
from lm_datafusion.formats.parquet.footer import FileFacts, load_footer
from lm_datafusion.formats.parquet.read import plan_row_ranges, read_rows
from lm_datafusion.formats.parquet.statistics import (
    BloomFilterStatistics,
    PageStatistics,
    RowGroupStatistics,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from lm_datafusion.formats.profile import FileProfile, PageProfile
    from lm_datafusion.metrics import ScanMetrics
    from lm_datafusion.selection import RowSelection
    from lm_datafusion.storage import ByteRange, OpenFile


class ParquetFacts(FileFacts):
    """What is known about one version of a Parquet file."""

    format_name = PARQUET

    def portion_rows(self, batch_rows: int) -> int:
        """As many as a batch: kernels decode exactly the rows wanted."""
        return batch_rows

    def check_readable(self, columns: Sequence[int]) -> None:
        """Nothing to check: what cannot be read is found in each chunk."""

    def decoding(self, row_group: int, column: int) -> object:
        """The codecs of a column, and which of its leaves kernels have given up on."""
        chunks = self.chunks_of(row_group, column)
        return tuple([(chunk.codec, chunk.kernel_pages is None) for chunk in chunks])

    def claimed_order(self, row_group: int, column: str) -> tuple[bool, bool] | None:
        """What the footer says about the first sort column, if it is this one."""
        claims = self.metadata.row_group(row_group).sorting_columns
        if not claims or self.leaf_index((column,)) != claims[0].column_index:
            return None
        return claims[0].descending, claims[0].nulls_first

    def row_group_statistics(
        self, row_groups: Sequence[int], constants: Mapping[str, pa.Scalar]
    ) -> RowGroupStatistics:
        """Statistics of the footer."""
        return RowGroupStatistics(self, row_groups, constants)

    def filter_answers(
        self, row_group: int, file: OpenFile, constants: Mapping[str, pa.Scalar]
    ) -> BloomFilterStatistics:
        """What bloom filters of a row group say."""
        return BloomFilterStatistics(self, row_group, file, constants)

    def page_bounds(
        self,
        row_group: int,
        columns: Sequence[tuple[str, ...]],
        file: OpenFile,
        constants: Mapping[str, pa.Scalar],
    ) -> PageStatistics:
        """Statistics of the page index."""
        return PageStatistics(self, row_group, columns, file, constants)

    def load_dictionary(
        self,
        row_group: int,
        column: int,
        file: OpenFile,
        *,
        limit_bytes: int,
        verify_checksums: bool,
    ) -> pa.Array | None:
        """The dictionary of a flat column's chunk."""
        return load_dictionary(
            self,
            row_group,
            column,
            file,
            limit_bytes=limit_bytes,
            verify_checksums=verify_checksums,
        )

    def open_column(
        self,
        column: int,
        given: pa.DataType,
        files: tuple[OpenFile, OpenFile],
        metrics: ScanMetrics,
        *,
        verify_checksums: bool,
    ) -> FileColumn:
        """A top-level column."""
        return FileColumn(self, column, given, files, metrics, verify_checksums=verify_checksums)

    def read_rows(
        self, row_group: int, columns: Sequence[int], rows: RowSelection, file: OpenFile
    ) -> Iterator[pa.RecordBatch]:
        """Some rows of a row group."""
        return read_rows(self, row_group, columns, rows, file)

    def plan_row_ranges(
        self, row_group: int, columns: Sequence[int], rows: RowSelection, file: OpenFile
    ) -> list[ByteRange]:
        """The byte ranges of their pages."""
        return plan_row_ranges(self, row_group, columns, rows, file)

    def plan_index_ranges(
        self,
        row_group: int,
        columns: Sequence[int],
        pruned: Sequence[int],
        *,
        with_filters: bool,
    ) -> list[ByteRange]:
        """Page indexes and bloom filters; all of a chunk without an offset index."""
        found = []
        for column in columns:
            for chunk in self.chunks_of(row_group, column):
                is_pruned = column in pruned
                found += chunk.plan_index_ranges(
                    is_pruned=is_pruned, with_filter=is_pruned and with_filters
                )
        size = self.version.size_bytes
        return [wanted for wanted in found if 0 <= wanted.offset < wanted.stop <= size]

    def load_indexes(self, row_group: int, columns: Sequence[int], file: OpenFile) -> None:
        """Reads where the pages of columns are."""
        for column in columns:
            for chunk in self.chunks_of(row_group, column):
                chunk.load_pages(file)

    def load_profile(self, file: OpenFile) -> FileProfile:
        """What there is to say about the file."""
        return profile.load_profile(self, file)

    def load_page_profiles(self, column: str, file: OpenFile) -> list[PageProfile]:
        """The data pages of a leaf column."""
        return profile.load_pages(self, column, file)


def load_parquet_facts(file: OpenFile) -> ParquetFacts:
    """Reads and parses the footer.

    Raises:
        CorruptFileError: The file is empty, truncated, or not a Parquet file.
        UnsupportedFeatureError: The footer is encrypted.
    """
    return ParquetFacts(file.version, load_footer(file))
