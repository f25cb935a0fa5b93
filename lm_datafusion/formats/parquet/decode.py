"""Decodes one column of some row groups, by kernels or by PyArrow.

In: a column of a file, row groups, and the rows wanted. Out: exactly those rows; or the rows that
pass a condition.

Kernels decode flat columns (`kernel_chunk`). Nested columns, types that need conversion, and
everything if kernels are off are spliced and decoded by PyArrow (`splice_decoder`). The metadata of
the chunks decides; once kernels meet a page they do not support, the column is left to PyArrow.
Chunks that are read together have one codec (`scan.reading`).

Invariant: both return the same values for the same rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from lm_datafusion.errors import CorruptFileError
from lm_datafusion.formats.parquet.page_checks import largest_page_bytes
from lm_datafusion.formats.parquet.splice_decoder import SpliceDecoder
from lm_datafusion.kernels import kernel_info
from lm_datafusion.selection import RowSelection

if kernel_info().is_active:
    from lm_datafusion.formats.parquet.conditions import value_test
    from lm_datafusion.formats.parquet.kernel_chunk import (
        ChunkSource,
        load_chunk_pages,
        load_value_kind,
        wanted_rows,
    )
    from lm_datafusion.kernels.columns import ChunkReader
    from lm_datafusion.kernels.pages import (
        PageError,
        RefusedPageError,
        TooLargeError,
        UnsupportedPageError,
    )

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import EllipsisType

    import numpy.typing as npt

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
    """A top-level column of a file: the state shared by the decoders of its row groups.

    Args:
        facts: The file.
        column: The top-level column.
        given: The column's type in the table; text may be decoded directly to it.
        files: Where pages come from, and the same for reads that count as metadata.
        metrics: Counts chunks that PyArrow reads whole.
        verify_checksums: Whether to verify the checksums of pages.
    """

    def __init__(
        self,
        facts: FileFacts,
        column: int,
        given: pa.DataType,
        files: tuple[OpenFile, OpenFile],
        metrics: ScanMetrics,
        *,
        verify_checksums: bool = False,
    ) -> None:
        self.facts = facts
        self.verify_checksums = verify_checksums
        self.column = column
        self.files = files
        self.metrics = metrics
        self.stored = facts.column_type(column)
        self.field = facts.elements.fields[column]
        self.given = given
        # The kind of values that kernels make, loaded on first use.
        self._kind: ValueKind | EllipsisType | None = ...
        if not kernel_info().is_active or self.field.stop_leaf - self.field.first_leaf != 1:
            self._kind = None
        else:
            self._source = ChunkSource(files[0])

    def open(self, row_groups: Sequence[int]) -> PageDecoder:
        """A decoder of the column in some row groups; reads nothing."""
        return PageDecoder(self, row_groups)

    def open_kernel(self, chunks: Sequence[ChunkFacts]) -> ChunkReader | None:
        """A kernel that reads consecutive chunks of the column; None if none can."""
        if self._kind is ...:
            self._kind = load_value_kind(chunks[0], self.stored, self.given)
        if self._kind is None:
            return None
        pages = [load_chunk_pages(chunk, self.files[1]) for chunk in chunks]
        known = [page for page in pages if page is not None]
        if len(known) < len(chunks) or len({page.codec for page in known}) > 1:
            return None
        return ChunkReader(
            known,
            self._kind,
            self._source,
            verify=self.verify_checksums,
            largest_page=largest_page_bytes(chunks),
        )


class PageDecoder:
    """Decodes a top-level column in some row groups. Not thread-safe.

    Row numbers run across row groups: those of the second follow those of the first.
    """

    __slots__ = (
        "_chunks",
        "_file",
        "_is_all_fetched",
        "_kernel",
        "_kernel_bytes",
        "_locations",
        "_masks",
        "_row_groups",
        "_splices",
    )

    def __init__(self, file: FileColumn, row_groups: Sequence[int]) -> None:
        self._file = file
        self._row_groups = row_groups
        # By row group: a chunk, or one per leaf of a nested column.
        self._chunks = [file.facts.chunks_of(number, file.column) for number in row_groups]
        self._kernel: ChunkReader | EllipsisType | None = ...  # not opened yet
        self._kernel_bytes = 0
        self._splices: list[SpliceDecoder] = []
        # By row group: the pages of each leaf, or None.
        self._locations: list[list[PageLocations] | None] | None = None
        # Pages that splices read.
        self._masks: list[npt.NDArray[np.bool_]] = []
        self._is_all_fetched = False

    @property
    def uncompressed_bytes(self) -> int:
        """Bytes of the largest leaf of the column, by the footer."""
        return max(
            sum([c.uncompressed_bytes for c in leaf]) for leaf in zip(*self._chunks, strict=True)
        )

    @property
    def rows_decoded(self) -> int:
        """Rows of all pages that were decoded, wanted or not."""
        kernel = self._opened_kernel()
        count = 0 if kernel is None else kernel.rows_decoded
        return count + sum([splice.rows_decoded for splice in self._splices])

    @property
    def pages_seen(self) -> int:
        """Pages of the column, if they were located or kernels read it."""
        kernel = self._opened_kernel()
        if kernel is not None:
            return kernel.page_count
        if self._locations is None:
            return 0
        return sum(len(leaf) for leaves in self._locations for leaf in leaves or ())

    @property
    def pages_fetched(self) -> int:
        """Pages that were read, each counted once."""
        if self._is_all_fetched:
            return self.pages_seen
        kernel = self._opened_kernel()
        count = 0 if kernel is None else kernel.pages_fetched
        return max(count, sum([int(np.count_nonzero(mask)) for mask in self._masks]))

    @property
    def chunk_count(self) -> int:
        """The number of row groups."""
        return len(self._chunks)

    @property
    def is_spliced(self) -> bool | None:
        """Whether PyArrow decoded pages; None if none were decoded."""
        if self._splices:
            return True
        return False if self.bytes_fetched else None

    @property
    def bytes_fetched(self) -> int:
        """Bytes that kernels fetched; splices count separately."""
        kernel = self._opened_kernel()
        return self._kernel_bytes + (0 if kernel is None else kernel.bytes_fetched)

    def join(self, other: PageDecoder) -> None:
        """Adds the counts of another decoder of the same chunks."""
        mine, theirs = self._open_kernel(), other._opened_kernel()
        if mine is not None and theirs is not None:
            mine.join(theirs)
        self._kernel_bytes += other._kernel_bytes
        other._kernel_bytes = 0
        self._is_all_fetched |= other._is_all_fetched
        self._splices = self._splices or other._splices
        if other._masks:
            self._add_masks(other._masks)

    def share_dictionaries(self, other: PageDecoder) -> None:
        """Takes over the dictionaries that another decoder of the same chunks has read."""
        mine, theirs = self._open_kernel(), other._opened_kernel()
        if mine is not None and theirs is not None:
            mine.share_dictionaries(theirs)

    def locate(self) -> list[list[PageLocations] | None]:
        """By row group: the pages of each leaf; None where unknown."""
        if self._locations is None:
            self._locations = [self._located(leaves) for leaves in self._chunks]
        return self._locations

    def _located(self, leaves: Sequence[ChunkFacts]) -> list[PageLocations] | None:
        tables = [chunk.load_pages(self._file.files[1]) for chunk in leaves]
        known = [table.locations for table in tables if table is not None]
        return known if known and len(known) == len(tables) else None

    def read(self, rows: RowSelection) -> Values:
        """Values of rows, in order.

        Raises:
            CorruptFileError: Pages cannot be decoded, or text is not UTF-8.
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
        file = self._file
        if not self._splices:
            self._splices = [
                SpliceDecoder(
                    file.facts,
                    number,
                    file.column,
                    file.files,
                    file.metrics,
                    verify_checksums=file.verify_checksums,
                )
                for number in self._row_groups
            ]
        parts = self._parts(rows)
        self._note(parts)
        values = [
            splice.read(locations, part, whole=is_broken)
            for splice, locations, part in zip(self._splices, self.locate(), parts, strict=True)
            if part.selects_any()
        ]
        if len(values) == 1:
            return values[0]
        return pa.chunked_array(
            [c for v in values for c in (v.chunks if isinstance(v, pa.ChunkedArray) else [v])]
        )

    def _parts(self, rows: RowSelection) -> list[RowSelection]:
        """The rows of each row group, counted from its start."""
        if len(self._chunks) == 1:
            return [rows]
        stops = np.cumsum([leaves[0].row_count for leaves in self._chunks]).tolist()
        starts = [0, *stops[:-1]]
        return [rows.slice(start, stop) for start, stop in zip(starts, stops, strict=True)]

    def filter(
        self,
        rows: RowSelection,
        tree: Predicate,
        passes: Sequence[Passes | None] | None,
        *,
        is_held: bool,
    ) -> tuple[RowSelection, Values | None] | None:
        """The rows that pass a condition, and their values if wanted and available.

        Args:
            rows: Rows to test.
            tree: The condition.
            passes: By row group, where known: which values of the chunk's dictionary pass; the
                last entry is for null.
            is_held: Whether the values of the rows that pass will be needed.

        Returns:
            None if kernels cannot test it: the values must be read and evaluated.
        """
        kernel = self._open_kernel()
        if kernel is None:
            return None
        test = value_test(tree, self._file.stored)
        is_known = passes is not None and all(known is not None for known in passes)
        if test is None and not (is_known and self.is_all_dictionary()):
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

    def load_dictionary(self, chunk: int) -> pa.Array | None:
        """The values of a chunk's dictionary, in the column's type; None without one."""
        kernel = self._open_kernel()
        if kernel is None:
            return None
        try:
            return kernel.dictionary_values(chunk)
        except PageError as error:
            self._give_up(error)
            return None

    def is_all_dictionary(self) -> bool:
        """Whether every page is proven to be dictionary-encoded."""
        return all(
            len(leaves) == 1 and leaves[0].is_all_dictionary(self._file.files[1])
            for leaves in self._chunks
        )

    def _open_kernel(self) -> ChunkReader | None:
        """The kernel that reads the column; None if kernels do not support it."""
        if self._kernel is ...:
            is_flat = len(self._chunks[0]) == 1
            chunks = [leaves[0] for leaves in self._chunks]
            self._kernel = self._file.open_kernel(chunks) if is_flat else None
        return self._kernel

    def _opened_kernel(self) -> ChunkReader | None:
        """The same, if it has been opened."""
        return None if self._kernel is ... else self._kernel

    def _give_up(self, error: PageError) -> bool:
        """Leaves the column to PyArrow from now on; True if pages are corrupt, not unsupported.

        Raises:
            CorruptFileError: PyArrow would not notice: text is not UTF-8, or a wrong checksum.
        """
        chunk, offset = self._find_page(error)
        if isinstance(error, RefusedPageError):
            raise CorruptFileError(
                str(error),
                path=self._file.facts.version.path,
                column=self._file.field.name,
                offset_bytes=offset,
            ) from error
        self._kernel_bytes = self.bytes_fetched
        self._kernel = None
        if not isinstance(error, UnsupportedPageError):
            return True
        if error.page is not None and not isinstance(error, TooLargeError):
            chunk.kernel_pages = None
        return False

    def _find_page(self, error: PageError) -> tuple[ChunkFacts, int | None]:
        """The chunk of an error (the first if unknown), and the offset of its page."""
        page = error.page
        if error.chunk is not None:
            dictionary = self._chunks[error.chunk][0]
            return dictionary, dictionary.byte_range.offset
        for leaves, locations in zip(self._chunks, self.locate(), strict=True):
            if page is None or locations is None:
                break
            if page < len(locations[0]):
                return leaves[0], int(locations[0].offsets[page])
            page -= len(locations[0])
        return self._chunks[0][0], None

    def _note(self, parts: Sequence[RowSelection]) -> None:
        """Counts the pages that hold rows."""
        if self._is_all_fetched:
            return
        if all(part.selects_all() for part in parts):
            self._is_all_fetched = True
            return
        located = zip(parts, self.locate(), strict=True)
        self._add_masks(
            [part.page_mask(leaf.first_rows) for part, leaves in located for leaf in leaves or ()]
        )

    def _add_masks(self, masks: list[npt.NDArray[np.bool_]]) -> None:
        if self._masks:
            masks = [mine | more for mine, more in zip(self._masks, masks, strict=True)]
        self._masks = masks
