"""What a format fulfils, so that the rooms above read files of any format in one way.

In: an open file. Out: `FileFacts`: its columns, its row groups with statistics, where their pages
begin, and decoders of the rows wanted.

Words are Parquet's. A row group is what has statistics of its own in the footer: in ORC a stripe. A
page is a run of rows of a row group that can be skipped: in ORC a row group of the stripe.

Dispatch happens once per file: its facts are objects of one format or the other, and what they
hand out decodes many rows per call.

Invariant: statistics and filters never rule out a row that matches. What cannot be read of them is
unknown; what cannot be decoded is an error that names the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from lm_datafusion.pruning.statistics import PruningStatistics

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from lm_datafusion.formats.profile import FileProfile, PageProfile
    from lm_datafusion.metrics import ScanMetrics
    from lm_datafusion.predicate.tree import Predicate
    from lm_datafusion.selection import RowSelection
    from lm_datafusion.storage import ByteRange, FileVersion, OpenFile

    ColumnPath: TypeAlias = tuple[str, ...]
    Values: TypeAlias = pa.Array | pa.ChunkedArray
    Passes: TypeAlias = npt.NDArray[np.bool_]


class RowStatistics(PruningStatistics, Protocol):
    """Statistics of ranges of rows of one row group."""

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """The first row of each range, ascending from 0."""
        ...


class PageBounds(RowStatistics, Protocol):
    """Statistics of the pages of some columns."""

    @property
    def has_pages(self) -> bool:
        """Whether there is an index of pages that can be used."""
        ...


class FilterAnswers(RowStatistics, Protocol):
    """What bloom filters say."""

    def has_filter(self, column: ColumnPath) -> bool:
        """Whether a column may have one."""
        ...


class Chunk(Protocol):
    """One leaf column of one row group."""

    @property
    def uncompressed_bytes(self) -> int:
        """About how many bytes its values take once decompressed."""
        ...

    @property
    def stored_bytes(self) -> int:
        """About how many bytes it takes in the file."""
        ...

    @property
    def is_text(self) -> bool:
        """Whether its values are of different lengths."""
        ...

    def load_first_rows(self, file: OpenFile) -> npt.NDArray[np.int64] | None:
        """The first row of each page; None if that is not known."""
        ...


class Decoder(Protocol):
    """Decodes one column of some row groups. Not thread-safe.

    Row numbers run across row groups: those of the second follow those of the first.
    """

    @property
    def uncompressed_bytes(self) -> int:
        """As of a chunk: those of the largest leaf."""
        ...

    @property
    def rows_decoded(self) -> int:
        """Rows that were decoded, wanted or not."""
        ...

    @property
    def pages_seen(self) -> int:
        """Pages, as far as they were located."""
        ...

    @property
    def pages_fetched(self) -> int:
        """Pages that were read, each counted once."""
        ...

    @property
    def bytes_fetched(self) -> int:
        """Bytes that were read and are not in the metrics yet."""
        ...

    @property
    def is_spliced(self) -> bool | None:
        """Whether PyArrow decoded pages; None if none were decoded."""
        ...

    def locate(self) -> object:
        """Finds out where pages begin, so that they are counted."""
        ...

    def read(self, rows: RowSelection) -> Values:
        """Values of rows, in order."""
        ...

    def filter(
        self,
        rows: RowSelection,
        tree: Predicate,
        passes: Sequence[Passes | None] | None,
        *,
        is_held: bool,
    ) -> tuple[RowSelection, Values | None] | None:
        """The rows that pass a condition, tested on encoded values; None if that cannot be done."""
        ...

    def can_test(self, tree: Predicate) -> bool:
        """Whether `filter` can test a condition on any page."""
        ...

    def is_all_dictionary(self) -> bool:
        """Whether `filter` can look every row up in a dictionary."""
        ...

    def load_dictionary(self, chunk: int) -> pa.Array | None:
        """The values of that dictionary, by the index of the row group."""
        ...

    def share_dictionaries(self, other: Any) -> None:
        """Takes over what another decoder of the same chunks has read."""
        ...

    def join(self, other: Any) -> None:
        """Adds the counts of another decoder of the same chunks."""
        ...


class FileColumn(Protocol):
    """A top-level column of a file: what the decoders of its row groups share."""

    def open(self, row_groups: Sequence[int]) -> Decoder:
        """A decoder of the column in some row groups; reads nothing."""
        ...


class FileFacts(Protocol):
    """What is known about one version of a file."""

    @property
    def format_name(self) -> str:
        """What people call the format."""
        ...

    @property
    def version(self) -> FileVersion:
        """The file."""
        ...

    @property
    def schema(self) -> pa.Schema:
        """Its columns, as PyArrow reads them."""
        ...

    @property
    def num_row_groups(self) -> int:
        """Row groups of the file."""
        ...

    @property
    def row_counts(self) -> npt.NDArray[np.int64]:
        """Rows of each."""
        ...

    @property
    def column_indices(self) -> dict[str, list[int]]:
        """The top-level columns by name."""
        ...

    @property
    def chunk_count(self) -> int:
        """Grows as facts are loaded."""
        ...

    def memory_bytes(self) -> int:
        """About how much memory the facts take."""
        ...

    def row_count(self, row_group: int) -> int:
        """Rows of a row group."""
        ...

    def portion_rows(self, batch_rows: int) -> int:
        """Rows to decode at a time for batches of `batch_rows`."""
        ...

    def check_readable(self, columns: Sequence[int]) -> None:
        """Raises `UnsupportedFeatureError` if a top-level column cannot be read at all."""
        ...

    def chunks_of(self, row_group: int, column: int) -> Sequence[Chunk]:
        """The chunks of a top-level column: one, or one per leaf of a nested column."""
        ...

    def decoding(self, row_group: int, column: int) -> object:
        """How a column is decoded: row groups that are read as one must agree."""
        ...

    def claimed_order(self, row_group: int, column: str) -> tuple[bool, bool] | None:
        """Whether the file says that rows are sorted by a column: descending, nulls first."""
        ...

    def row_group_statistics(
        self, row_groups: Sequence[int], constants: Mapping[str, pa.Scalar]
    ) -> PruningStatistics:
        """Statistics of row groups; reads nothing."""
        ...

    def filter_answers(
        self, row_group: int, file: OpenFile, constants: Mapping[str, pa.Scalar]
    ) -> FilterAnswers:
        """What bloom filters of a row group say."""
        ...

    def page_bounds(
        self,
        row_group: int,
        columns: Sequence[ColumnPath],
        file: OpenFile,
        constants: Mapping[str, pa.Scalar],
    ) -> PageBounds:
        """Statistics of the pages of some columns, over their merged borders."""
        ...

    def load_dictionary(
        self,
        row_group: int,
        column: int,
        file: OpenFile,
        *,
        limit_bytes: int,
        verify_checksums: bool,
    ) -> pa.Array | None:
        """A dictionary that holds every value of a top-level column, if that may save reading."""
        ...

    def open_column(
        self,
        column: int,
        given: pa.DataType,
        files: tuple[OpenFile, OpenFile],
        metrics: ScanMetrics,
        *,
        verify_checksums: bool,
    ) -> FileColumn:
        """A top-level column.

        Args:
            column: The column.
            given: Its type in the table; text may be decoded directly to it.
            files: Where values come from, and the same for reads that count as metadata.
            metrics: Where decoders count.
            verify_checksums: Whether to verify checksums, where the format has any.
        """
        ...

    def read_rows(
        self, row_group: int, columns: Sequence[int], rows: RowSelection, file: OpenFile
    ) -> Iterator[pa.RecordBatch]:
        """Some rows of a row group, in some top-level columns, at least one."""
        ...

    def plan_row_ranges(
        self, row_group: int, columns: Sequence[int], rows: RowSelection, file: OpenFile
    ) -> list[ByteRange]:
        """The byte ranges that `read_rows` takes, by column, not coalesced."""
        ...

    def plan_index_ranges(
        self,
        row_group: int,
        columns: Sequence[int],
        pruned: Sequence[int],
        *,
        with_filters: bool,
    ) -> list[ByteRange]:
        """Where the metadata of a row group is, as far as it is not known yet.

        Args:
            row_group: The row group.
            columns: Top-level columns whose pages will be read.
            pruned: Those of them whose statistics will be asked.
            with_filters: Whether bloom filters will be asked too.
        """
        ...

    def load_indexes(self, row_group: int, columns: Sequence[int], file: OpenFile) -> None:
        """Reads where the pages of top-level columns are, if that is not known yet."""
        ...

    def load_profile(self, file: OpenFile) -> FileProfile:
        """What there is to say about the file without reading its values."""
        ...

    def load_page_profiles(self, column: str, file: OpenFile) -> list[PageProfile]:
        """The pages of a leaf column."""
        ...
