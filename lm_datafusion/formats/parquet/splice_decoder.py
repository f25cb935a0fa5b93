"""Decodes any column with PyArrow: nested ones, rare types, everything without kernels.

In: a top-level column of a row group and the rows wanted. Out: exactly those rows.

1. The rows wanted are extended to whole pages; for a nested column, to rows at which the pages of
   all its leaves are aligned.
2. The pages are fetched, spliced into a small Parquet file in memory, and decoded by PyArrow.
3. A chunk that cannot be spliced, or does not decode to the expected rows, is read whole by
   PyArrow. If that fails too, the file is corrupt.
4. The rows wanted are selected. Text is checked to be valid UTF-8: PyArrow does not check it, and
   DataFusion trusts its input.

Invariant: the values are those of exactly the rows asked for, in order.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lm_datafusion.errors import CorruptFileError, LateError, UnsupportedFeatureError
from lm_datafusion.formats.parquet.footer import open_reader
from lm_datafusion.formats.parquet.page_checks import BadPage, check_pages, largest_page_bytes
from lm_datafusion.formats.parquet.page_header import parse_page_header
from lm_datafusion.formats.parquet.spec import MAGIC
from lm_datafusion.formats.parquet.splice import (
    SplicedColumn,
    SplicedLeaf,
    can_splice,
    splice_footer,
)
from lm_datafusion.formats.parquet.thrift import ThriftError
from lm_datafusion.selection import RowSelection
from lm_datafusion.selection.values import select_values, without_views
from lm_datafusion.storage import ByteRange, coalesce

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from lm_datafusion.formats.parquet.chunk import ChunkFacts
    from lm_datafusion.formats.parquet.footer import FileFacts
    from lm_datafusion.metrics import ScanMetrics
    from lm_datafusion.selection import PageLocations
    from lm_datafusion.storage import OpenFile

    Values: TypeAlias = pa.Array | pa.ChunkedArray

# What PyArrow and our parsers raise for invalid pages.
_NOT_SPLICED = (pa.ArrowException, OSError, ThriftError, ValueError, NotImplementedError)


class SpliceDecoder:
    """One top-level column of one row group."""

    def __init__(
        self,
        facts: FileFacts,
        row_group: int,
        column: int,
        files: tuple[OpenFile, OpenFile],
        metrics: ScanMetrics,
        *,
        verify_checksums: bool = False,
    ) -> None:
        """Prepares to decode.

        Args:
            facts: The file.
            row_group: The row group.
            column: The top-level column.
            files: Where pages come from, and the same for reads that count as metadata.
            metrics: Counts bytes, and chunks that are read whole.
            verify_checksums: Whether to verify the checksums of pages.
        """
        self._facts = facts
        self._row_group = row_group
        self._column = column
        self._file, self._index_file = files
        self._metrics = metrics
        self._chunks = facts.chunks_of(row_group, column)
        self._row_count = facts.row_count(row_group)
        self._verify = verify_checksums
        self.rows_decoded = 0

    def read(
        self, locations: Sequence[PageLocations] | None, rows: RowSelection, *, whole: bool = False
    ) -> Values:
        """Values of rows, in the type of the file.

        Args:
            locations: The pages of each leaf; None if unknown.
            rows: Rows of the row group.
            whole: Whether to read whole chunks without trying to splice.

        Raises:
            CorruptFileError: PyArrow's own reader cannot decode the pages either.
        """
        values, covered = None, RowSelection.all(self._row_count)
        if self._chunks and all(map(can_splice, self._chunks)) and not whole:
            if locations is not None and not rows.selects_all():
                covered = _coverage(rows, locations)
            values = self._try_splice(locations, covered)
            if values is None and not covered.selects_all():
                covered = RowSelection.all(self._row_count)
                values = self._try_splice(None, covered)
        if values is None:
            values, covered = self._read_whole(), RowSelection.all(self._row_count)
        self.rows_decoded += len(values)
        self._check_text(values)
        single = without_views(values.chunk(0) if values.num_chunks == 1 else values)
        return self._as_stored(select_values(single, rows.relative_to(covered)))

    def _as_stored(self, values: Values) -> Values:
        """Dictionary-encodes values if the file has that type and PyArrow cannot decode to it."""
        stored = self._facts.schema.field(self._column).type
        if not pa.types.is_dictionary(stored) or pa.types.is_dictionary(values.type):
            return values
        return values.cast(stored.value_type).dictionary_encode().cast(stored)

    def _try_splice(
        self, locations: Sequence[PageLocations] | None, covered: RowSelection
    ) -> pa.ChunkedArray | None:
        """The values of the covered pages; None if they do not decode to the covered rows.

        Raises:
            CorruptFileError: A page must not be decoded, or all pages hold too many rows.
        """
        try:
            values = self._splice(locations, covered)
        except _NOT_SPLICED as error:
            if isinstance(error, LateError):
                raise
            return None
        if len(values) > covered.row_count and covered.selects_all():
            raise self._corrupt(f"pages hold more than the {self._row_count} rows of the row group")
        return values if len(values) == covered.row_count and _codes_fit(values) else None

    def _splice(
        self, locations: Sequence[PageLocations] | None, covered: RowSelection
    ) -> pa.ChunkedArray:
        if locations is None or covered.selects_all():
            ranges = [[chunk.byte_range] for chunk in self._chunks]
            counts: list[int | None] = [chunk.metadata.num_values for chunk in self._chunks]
        else:
            ranges = [
                self._page_ranges(chunk, pages, covered.page_mask(pages.first_rows))
                for chunk, pages in zip(self._chunks, locations, strict=True)
            ]
            counts = [covered.row_count if chunk.is_flat else None for chunk in self._chunks]
        wanted = [byte_range for leaf in ranges for byte_range in leaf]
        size_bytes = self._file.version.size_bytes
        if any(r.offset < 0 or r.length < 0 or r.stop > size_bytes for r in wanted):
            raise ValueError("pages lie outside the file")
        length = sum(r.length for r in wanted)
        self._metrics.add(bytes_scanned=length)
        space = np.empty(len(MAGIC) + length, dtype=np.uint8)
        view = space.data
        view[: len(MAGIC)] = MAGIC
        self._file.fetch_into(wanted, view[len(MAGIC) :])
        self._check_pages(view[len(MAGIC) :], wanted)
        leaves = []
        position = len(MAGIC)
        for chunk, leaf, count in zip(self._chunks, ranges, counts, strict=True):
            stop = position + sum(r.length for r in leaf)
            num_values = _count_values(view[position:stop]) if count is None else count
            leaves.append(
                SplicedLeaf(
                    chunk=chunk, offset=position, length=stop - position, num_values=num_values
                )
            )
            position = stop
        # Of repeated values PyArrow reads as many rows as the footer says: a surplus has to show.
        spare = any(not chunk.is_flat for chunk in self._chunks)
        spliced = SplicedColumn(
            column=self._column, leaves=tuple(leaves), row_count=covered.row_count + spare
        )
        footer = splice_footer(self._facts, [[spliced]])
        return open_reader(pa.py_buffer(b"".join([view, footer]))).read_column(0)

    def _check_pages(self, view: memoryview, ranges: Sequence[ByteRange]) -> None:
        """Checks the pages of ranges, which are back to back in `view`.

        Raises:
            CorruptFileError: A page must not be decoded.
            ThriftError: A range does not end with its last page; old writers give too few bytes.
        """
        largest_bytes, start = largest_page_bytes(self._chunks), 0
        for byte_range in ranges:
            pages = view[start : start + byte_range.length]
            try:
                check_pages(pages, largest_bytes=largest_bytes, verify=self._verify)
            except BadPage as error:
                raise self._corrupt(str(error), byte_range.offset + error.offset) from error
            start += byte_range.length

    def _check_chunks(self) -> None:
        """Checks all pages that can be found before PyArrow reads them."""
        size_bytes = self._file.version.size_bytes
        for byte_range in [chunk.byte_range for chunk in self._chunks]:
            if byte_range.offset < 0 or byte_range.length < 0 or byte_range.stop > size_bytes:
                continue
            data = self._file.fetch_ranges([byte_range])[0]
            with contextlib.suppress(ThriftError):
                self._check_pages(memoryview(data), [byte_range])

    def _page_ranges(
        self, chunk: ChunkFacts, pages: PageLocations, mask: npt.NDArray[np.bool_]
    ) -> list[ByteRange]:
        """Byte ranges of the chosen pages, preceded by the dictionary page if they need it."""
        if not mask.any():
            return []
        start = chunk.byte_range.offset
        dictionary = ByteRange(start, int(pages.offsets[0]) - start)
        ranges = coalesce(ByteRange(*page) for page in pages.byte_ranges(mask))
        if not dictionary.length:
            return ranges
        chosen = np.flatnonzero(mask).tolist()
        if not chunk.needs_dictionary(self._index_file, chosen):
            return ranges
        return [dictionary, *ranges]

    def _read_whole(self) -> pa.ChunkedArray:
        """The fallback: PyArrow reads whole column chunks from the file."""
        field = self._facts.elements.fields[self._column]
        self._metrics.add_fallback(field.name)
        self._metrics.add(bytes_scanned=sum(c.byte_range.length for c in self._chunks))
        path = self._facts.version.path
        self._check_chunks()
        try:
            leaves = list(range(field.first_leaf, field.stop_leaf))
            with self._file.arrow_file() as source:
                reader = open_reader(source, verify_checksums=self._verify)
                table = reader.read_row_group(self._row_group, column_indices=leaves)
            values = table.column(0)
        except LateError:
            raise
        except NotImplementedError as error:
            raise UnsupportedFeatureError(f'{path}, column "{field.name}": {error}') from error
        except (pa.ArrowException, OSError, IndexError) as error:
            if "Not yet implemented" in str(error):
                message = f'{path}, column "{field.name}": {error}'
                raise UnsupportedFeatureError(message) from error
            raise self._corrupt(f"pages cannot be decoded: {error}") from error
        if len(values) != self._row_count or not _codes_fit(values):
            raise self._corrupt(
                f"row group {self._row_group} has {len(values)} values for {self._row_count} rows,"
                " or values outside its dictionary"
            )
        return values

    def _check_text(self, values: pa.ChunkedArray) -> None:
        if not _has_text(values.type):
            return
        try:
            values.validate(full=True)
        except pa.ArrowException as error:
            raise self._corrupt(f"encountered non UTF-8 data: {error}") from error

    def _corrupt(self, message: str, offset: int | None = None) -> CorruptFileError:
        start = self._chunks[0].byte_range.offset if self._chunks and offset is None else offset
        return CorruptFileError(
            message,
            path=self._facts.version.path,
            column=self._facts.elements.fields[self._column].name,
            offset_bytes=start,
        )


def _has_text(data_type: pa.DataType) -> bool:
    types = pa.types
    if types.is_dictionary(data_type):
        return _has_text(data_type.value_type)
    if isinstance(data_type, pa.BaseExtensionType):
        return _has_text(data_type.storage_type)
    if data_type.num_fields:
        return any(_has_text(data_type.field(i).type) for i in range(data_type.num_fields))
    return bool(
        types.is_string(data_type)
        or types.is_large_string(data_type)
        or types.is_string_view(data_type)
    )


def _codes_fit(values: pa.ChunkedArray) -> bool:
    """Whether every code is in its dictionary: PyArrow checks only when it decodes values."""
    if not pa.types.is_dictionary(values.type):
        return True
    for chunk in values.chunks:
        bounds = pc.min_max(chunk.indices)
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
        if low is not None and not 0 <= low <= high < len(chunk.dictionary):
            return False
    return True


def _coverage(rows: RowSelection, locations: Sequence[PageLocations]) -> RowSelection:
    """The fewest rows that contain `rows` and only whole pages of every leaf."""
    covered = rows
    while True:
        grown = covered
        for pages in locations:
            grown = grown.expand_to_pages(pages.first_rows)
        if len(locations) == 1 or grown == covered:
            return grown
        covered = grown


def _count_values(buffer: memoryview) -> int:
    """Values of all data pages in a buffer; dictionary entries do not count."""
    total, position = 0, 0
    while position < len(buffer):
        header = parse_page_header(buffer, position)
        if header.kind.name.startswith("DATA"):
            total += header.num_values
        position += header.header_bytes + header.compressed_size
    return total
