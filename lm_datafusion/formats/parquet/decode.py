"""One column of one row group: the seam between the scan and the two ways to decode pages.

In: a column of a file, a row group, and the rows wanted. Out: exactly those rows; or the rows that
pass a condition.

Kernels decode flat columns (`kernel_chunk`). Nested columns, types that are stored in another
form, and everything where kernels are off are spliced and decoded by PyArrow (`splice_decoder`).
Which of the two is chosen per chunk: by its metadata, and for good once a page turns out to be one
that kernels do not know.

Invariant: both give the same values for the same rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from lm_datafusion.errors import CorruptFileError
from lm_datafusion.formats.parquet.splice_decoder import SpliceDecoder
from lm_datafusion.kernels import kernel_info
from lm_datafusion.selection import RowSelection

if kernel_info().is_active:
    from lm_datafusion.formats.parquet.conditions import value_test
    from lm_datafusion.formats.parquet.kernel_chunk import (
        ChunkSource,
        load_chunk_pages,
        value_kind,
        wanted_rows,
    )
    from lm_datafusion.kernels.columns import ChunkReader
    from lm_datafusion.kernels.pages import PageError, TextError, UnsupportedPageError

if TYPE_CHECKING:
    from types import EllipsisType

    import numpy.typing as npt
    import pyarrow as pa

    from lm_datafusion.formats.parquet.chunk import ChunkFacts
    from lm_datafusion.formats.parquet.footer import FileFacts
    from lm_datafusion.kernels.columns import ValueKind
    from lm_datafusion.metrics import ScanMetrics
    from lm_datafusion.predicate.tree import Predicate
    from lm_datafusion.selection import PageLocations
    from lm_datafusion.storage import OpenFile

    Values: TypeAlias = pa.Array | pa.ChunkedArray
    Passes: TypeAlias = npt.NDArray[np.bool_]


class FileColumn:
    """A top-level column of a file: what the decoders of its row groups share.

    Args:
        facts: The file.
        column: Which top-level column.
        given: The column's type in the table; text may come out in it.
        files: Where pages come from, and the same for what counts as metadata.
        metrics: Counts whole chunks that PyArrow has to read.
    """

    def __init__(
        self,
        facts: FileFacts,
        column: int,
        given: pa.DataType,
        files: tuple[OpenFile, OpenFile],
        metrics: ScanMetrics,
    ) -> None:
        self.facts = facts
        self.column = column
        self.files = files
        self.metrics = metrics
        self.stored = facts.column_type(column)
        self.field = facts.elements.fields[column]
        self.given = given
        # What kernels make of its values, once somebody asked for it.
        self._kind: ValueKind | EllipsisType | None = ...
        if not kernel_info().is_active or self.field.stop_leaf - self.field.first_leaf != 1:
            self._kind = None
        else:
            self._source = ChunkSource(files[0])

    def open(self, row_group: int) -> PageDecoder:
        """A decoder of the column in one row group; reads nothing."""
        return PageDecoder(self, row_group)

    def open_kernel(self, chunk: ChunkFacts) -> ChunkReader | None:
        """A kernel that reads a chunk of the column; None if there is none for it."""
        if self._kind is ...:
            self._kind = value_kind(
                chunk.physical_type, chunk.fixed_length, self.stored, self.given
            )
        if self._kind is None:
            return None
        pages = load_chunk_pages(chunk, self.files[1])
        return None if pages is None else ChunkReader(pages, self._kind, self._source)


class PageDecoder:
    """Decodes a top-level column of a row group. Not to be shared between threads."""

    __slots__ = (
        "_chunks",
        "_file",
        "_is_all_fetched",
        "_is_located",
        "_kernel",
        "_kernel_bytes",
        "_locations",
        "_masks",
        "_row_group",
        "_splice",
    )

    def __init__(self, file: FileColumn, row_group: int) -> None:
        self._file = file
        self._row_group = row_group
        self._chunks = file.facts.chunks_of(row_group, file.column)
        self._kernel: ChunkReader | EllipsisType | None = ...  # not asked for yet
        self._kernel_bytes = 0
        self._splice: SpliceDecoder | None = None
        self._locations: list[PageLocations] | None = None
        self._is_located = False
        # Pages that the splice read.
        self._masks: list[npt.NDArray[np.bool_]] = []
        self._is_all_fetched = False

    @property
    def uncompressed_bytes(self) -> int:
        """Bytes of the largest chunk of the column, as the footer says."""
        return max(chunk.uncompressed_bytes for chunk in self._chunks)

    @property
    def rows_decoded(self) -> int:
        """Rows of all pages that were decoded, wanted or not."""
        kernel = self._opened_kernel()
        count = 0 if kernel is None else kernel.rows_decoded
        return count if self._splice is None else count + self._splice.rows_decoded

    @property
    def pages_seen(self) -> int:
        """Pages of the column, if somebody asked where they are."""
        return 0 if self._locations is None else sum(map(len, self._locations))

    @property
    def pages_fetched(self) -> int:
        """Pages that were read, each counted once."""
        if self._is_all_fetched:
            return self.pages_seen
        kernel = self._opened_kernel()
        count = 0 if kernel is None else kernel.pages_fetched
        return max(count, sum(int(np.count_nonzero(mask)) for mask in self._masks))

    @property
    def is_spliced(self) -> bool | None:
        """Whether PyArrow decoded pages; None if nobody did."""
        if self._splice is not None:
            return True
        return False if self.bytes_fetched else None

    @property
    def bytes_fetched(self) -> int:
        """Bytes that kernels fetched; the splice counts its own."""
        kernel = self._opened_kernel()
        return self._kernel_bytes + (0 if kernel is None else kernel.bytes_fetched)

    def join(self, other: PageDecoder) -> None:
        """Counts what another decoder of the same chunk has read."""
        mine, theirs = self._open_kernel(), other._opened_kernel()
        if mine is not None and theirs is not None:
            mine.join(theirs)
        self._kernel_bytes += other._kernel_bytes
        other._kernel_bytes = 0
        self._is_all_fetched |= other._is_all_fetched
        self._splice = self._splice or other._splice
        if other._masks and self.locate() is not None:
            self._add_masks(other._masks)

    def share_dictionary(self, other: PageDecoder) -> None:
        """Takes over the dictionary that another decoder of the same chunk has read."""
        mine, theirs = self._open_kernel(), other._opened_kernel()
        if mine is not None and theirs is not None:
            mine.share_dictionary(theirs)

    def locate(self) -> list[PageLocations] | None:
        """The pages of each leaf; None where they are not known."""
        if not self._is_located:
            tables = [chunk.load_pages(self._file.files[1]) for chunk in self._chunks]
            known = [table.locations for table in tables if table is not None]
            self._is_located = True
            if len(known) == len(tables) and known:
                self._locations = known
        return self._locations

    def read(self, rows: RowSelection) -> Values:
        """Values of rows of the row group, in order.

        Raises:
            CorruptFileError: Pages that cannot be decoded, or text that is no UTF-8.
        """
        kernel = self._open_kernel()
        is_broken = False
        if kernel is not None:
            try:
                return kernel.read(*wanted_rows(rows))
            except PageError as error:
                is_broken = self._give_up(error)
        return self._read_spliced(rows, is_broken=is_broken)

    def _read_spliced(self, rows: RowSelection, *, is_broken: bool) -> Values:
        locations = self.locate()
        self._note(rows)
        if self._splice is None:
            self._splice = SpliceDecoder(
                self._file.facts,
                self._row_group,
                self._file.column,
                self._file.files,
                self._file.metrics,
            )
        return self._splice.read(locations, rows, whole=is_broken)

    def filter(
        self,
        rows: RowSelection,
        tree: Predicate,
        passes: Passes | None,
        *,
        is_held: bool,
    ) -> tuple[RowSelection, Values | None] | None:
        """The rows that pass a condition, and their values if they are wanted and at hand.

        Args:
            rows: Rows to test.
            tree: The condition.
            passes: Which values of the chunk's dictionary pass, and last whether null does, where
                that is known.
            is_held: Whether values of the rows that pass will be needed.

        Returns:
            None if kernels cannot test it: the values have to be read and evaluated.
        """
        kernel = self._open_kernel()
        if kernel is None:
            return None
        test = value_test(tree, self._file.stored)
        if test is None and (passes is None or not self.is_all_dictionary()):
            return None
        try:
            found, values = kernel.filter(*wanted_rows(rows), test, passes, is_held)
        except PageError as error:
            self._give_up(error)
            return None
        if len(found) == rows.row_count:
            return rows, values
        return RowSelection.from_rows(found, rows.total_rows), values

    def can_test(self, tree: Predicate) -> bool:
        """Whether kernels can test a condition on any page."""
        return self._open_kernel() is not None and value_test(tree, self._file.stored) is not None

    def load_dictionary(self) -> pa.Array | None:
        """The values of the chunk's dictionary, in the column's type; None if there are none."""
        kernel = self._open_kernel()
        if kernel is None:
            return None
        try:
            return kernel.dictionary_values()
        except PageError as error:
            self._give_up(error)
            return None

    def is_all_dictionary(self) -> bool:
        """Whether every page is proven to be dictionary-coded."""
        return len(self._chunks) == 1 and self._chunks[0].is_all_dictionary(self._file.files[1])

    def _open_kernel(self) -> ChunkReader | None:
        """The kernel that reads the chunk; None if there is none for it."""
        if self._kernel is ...:
            is_located = self.locate() is not None and len(self._chunks) == 1
            self._kernel = self._file.open_kernel(self._chunks[0]) if is_located else None
        return self._kernel

    def _opened_kernel(self) -> ChunkReader | None:
        """The same, if somebody has asked for it."""
        return None if self._kernel is ... else self._kernel

    def _give_up(self, error: ValueError) -> bool:
        """Leaves the chunk to PyArrow from now on; whether its pages are broken, not just rare.

        Raises:
            CorruptFileError: Text that is no UTF-8: PyArrow would hand it out.
        """
        if isinstance(error, TextError):
            page = error.page
            locations = self._locations
            offset = None if page is None or locations is None else int(locations[0].offsets[page])
            raise CorruptFileError(
                str(error),
                path=self._file.facts.version.path,
                column=self._file.field.name,
                offset_bytes=offset,
            ) from error
        self._kernel_bytes = self.bytes_fetched
        self._kernel = None
        if isinstance(error, UnsupportedPageError):
            self._chunks[0].kernel_pages = None
            return False
        return True

    def _note(self, rows: RowSelection) -> None:
        """Counts the pages that hold rows."""
        if self._locations is None or self._is_all_fetched:
            return
        if rows.selects_all():
            self._is_all_fetched = True
            return
        self._add_masks([rows.page_mask(pages.first_rows) for pages in self._locations])

    def _add_masks(self, masks: list[npt.NDArray[np.bool_]]) -> None:
        if self._masks:
            masks = [mine | more for mine, more in zip(self._masks, masks, strict=True)]
        self._masks = masks
