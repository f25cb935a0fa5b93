"""One column of one row group: the seam between the scan and the two ways to decode pages.

In: a column chunk, and the rows wanted. Out: exactly those rows; or the rows that pass a condition.

Kernels decode flat columns (`kernel_decoder`). Nested columns, types that are stored in another
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

if kernel_info().is_active:
    from lm_datafusion.formats.parquet.conditions import value_test
    from lm_datafusion.formats.parquet.kernel_decoder import KernelDecoder, can_decode
    from lm_datafusion.kernels.pages import PageError, TextError, UnsupportedPageError

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from lm_datafusion.formats.parquet.footer import FileFacts
    from lm_datafusion.kernels.columns import ValueTest
    from lm_datafusion.metrics import ScanMetrics
    from lm_datafusion.predicate.tree import Predicate
    from lm_datafusion.selection import PageLocations, RowSelection
    from lm_datafusion.storage import OpenFile

    Values: TypeAlias = pa.Array | pa.ChunkedArray
    Passes: TypeAlias = npt.NDArray[np.bool_]


class PageDecoder:
    """Decodes a top-level column of a row group. Not to be shared between threads."""

    def __init__(
        self,
        facts: FileFacts,
        row_group: int,
        column: int,
        given: pa.DataType,
        files: tuple[OpenFile, OpenFile],
        metrics: ScanMetrics,
    ) -> None:
        """Prepares to decode; reads nothing.

        Args:
            facts: The file.
            row_group: Which row group.
            column: Which top-level column.
            given: The column's type in the table; text may come out in it.
            files: Where pages come from, and the same for what counts as metadata.
            metrics: Counts bytes and chunks.
        """
        self._facts = facts
        self._row_group = row_group
        self._column = column
        self._files = files
        self._index_file = files[1]
        self._chunks = facts.chunks_of(row_group, column)
        self._metrics = metrics
        self._stored = facts.column_type(column)
        self._splice: SpliceDecoder | None = None
        self._kernel = self._make_kernel(given)
        self._is_counted = False
        self._locations: list[PageLocations] | None = None
        self._is_located = False
        self._fetched: list[npt.NDArray[np.bool_]] = []
        self._is_all_fetched = False
        self.pages_seen = 0

    @property
    def rows_decoded(self) -> int:
        """Rows of all pages that were decoded, wanted or not."""
        decoders = (self._kernel, self._splice)
        return sum(decoder.rows_decoded for decoder in decoders if decoder is not None)

    @property
    def pages_fetched(self) -> int:
        """Pages that were read, each counted once."""
        if self._is_all_fetched:
            return self.pages_seen
        return sum(int(np.count_nonzero(mask)) for mask in self._fetched)

    def join(self, other: PageDecoder) -> None:
        """Counts the pages that another decoder of the same chunk has read."""
        self.share_dictionary(other)
        self._is_all_fetched |= other._is_all_fetched
        if other._fetched and self.locate() is not None:
            self._add_fetched(other._fetched)

    def share_dictionary(self, other: PageDecoder) -> None:
        """Takes over the dictionary that another decoder of the same chunk has read."""
        if self._kernel is not None and other._kernel is not None:
            self._kernel.share_dictionary(other._kernel)

    def locate(self) -> list[PageLocations] | None:
        """The pages of each leaf; None where they are not known."""
        if not self._is_located:
            tables = [chunk.load_pages(self._index_file) for chunk in self._chunks]
            known = [table.locations for table in tables if table is not None]
            self._is_located = True
            if len(known) == len(tables) and known:
                self._locations = known
                self.pages_seen = sum(map(len, known))
        return self._locations

    def read(self, rows: RowSelection) -> Values:
        """Values of rows of the row group, in order.

        Raises:
            CorruptFileError: Pages that cannot be decoded, or text that is no UTF-8.
        """
        locations = self.locate()
        is_broken = False
        if self._kernel is not None and locations is not None:
            try:
                values = self._kernel.read(locations[0], rows)
            except PageError as error:
                is_broken = self._give_up(error)
            else:
                self._count_kernel()
                return values
        self._note(rows)
        if self._splice is None:
            self._splice = SpliceDecoder(
                self._facts, self._row_group, self._column, self._files, self._metrics
            )
        self._count_splice()
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
        locations = self.locate()
        if self._kernel is None or locations is None:
            return None
        test = self._value_test(tree)
        if test is None and (passes is None or not self.is_all_dictionary()):
            return None
        try:
            found = self._kernel.filter(locations[0], rows, test, passes, is_held=is_held)
        except PageError as error:
            self._give_up(error)
            return None
        self._count_kernel()
        return found

    def can_test(self, tree: Predicate) -> bool:
        """Whether kernels can test a condition on any page."""
        return self._kernel is not None and self._value_test(tree) is not None

    def load_dictionary(self) -> pa.Array | None:
        """The values of the chunk's dictionary, in the column's type; None if there are none."""
        locations = self.locate()
        if self._kernel is None or locations is None:
            return None
        try:
            values = self._kernel.load_dictionary(locations[0])
        except PageError as error:
            self._give_up(error)
            return None
        self._count_kernel(with_pages=False)
        return values

    def _value_test(self, tree: Predicate) -> ValueTest | None:
        return value_test(tree, self._stored)

    def is_all_dictionary(self) -> bool:
        """Whether every page is proven to be dictionary-coded."""
        return len(self._chunks) == 1 and self._chunks[0].is_all_dictionary(self._index_file)

    def _make_kernel(self, given: pa.DataType) -> KernelDecoder | None:
        if not kernel_info().is_active or len(self._chunks) != 1:
            return None
        chunk = self._chunks[0]
        if chunk.is_for_kernels is None:
            chunk.is_for_kernels = can_decode(chunk, self._stored)
        if not chunk.is_for_kernels:
            return None
        return KernelDecoder(chunk, self._stored, given, self._files)

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
                path=self._facts.version.path,
                column=self._facts.elements.fields[self._column].name,
                offset_bytes=offset,
            ) from error
        self._kernel = None
        if isinstance(error, UnsupportedPageError):
            self._chunks[0].is_for_kernels = False
            return False
        return True

    def _note(self, rows: RowSelection) -> None:
        """Counts the pages that hold rows."""
        if self._locations is None or self._is_all_fetched:
            return
        if rows.selects_all():
            self._is_all_fetched = True
            return
        masks = [rows.page_mask(pages.first_rows) for pages in self._locations]
        self._add_fetched(masks)

    def _note_kernel_pages(self) -> None:
        """Counts the pages that kernels read."""
        assert self._kernel is not None
        if self._is_all_fetched:
            return
        numbers = self._kernel.pages_read
        if len(numbers) == self.pages_seen:
            self._is_all_fetched = True
            return
        if not self._fetched:
            self._fetched = [np.zeros(self.pages_seen, np.bool_)]
        self._fetched[0][numbers] = True

    def _add_fetched(self, masks: list[npt.NDArray[np.bool_]]) -> None:
        if self._fetched:
            masks = [mine | more for mine, more in zip(self._fetched, masks, strict=True)]
        self._fetched = masks

    def _count_kernel(self, *, with_pages: bool = True) -> None:
        assert self._kernel is not None
        if with_pages:
            self._note_kernel_pages()
        self._metrics.add(
            bytes_scanned=self._kernel.take_bytes_fetched(),
            chunks_by_kernels=0 if self._is_counted else 1,
        )
        self._is_counted = True

    def _count_splice(self) -> None:
        if not self._is_counted:
            self._metrics.add(chunks_by_splice=1)
        self._is_counted = True
