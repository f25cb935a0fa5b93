"""Byte ranges in, Arrow arrays out: fetch the pages that rows lie in, splice them, decode them.

In: columns of a row group, or of several that are read as one, and the rows wanted of them. Out:
for each column the rows its pages cover, and their values.

1. The rows wanted grow to whole pages; for a nested column to rows where the pages of all its
   leaves begin and end together.
2. Touching pages become one byte range; ranges of all columns are fetched together.
3. The pages are spliced, and pyarrow decodes them column by column.
4. What cannot be spliced, or does not decode to the rows it should, is read whole through
   pyarrow. If that fails too, the file is corrupt.

Several row groups of a file are decoded with one splice, which has as many: what a splice costs in
Python is shared among their rows. Rows count through all of them.

Invariant: the values of a `DecodedColumn` are those of exactly its rows, in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lm_datafusion.errors import CorruptFileError, LateError, UnsupportedFeatureError
from lm_datafusion.formats.parquet.footer import open_reader
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
from lm_datafusion.storage import ByteRange, coalesce

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from lm_datafusion.formats.parquet.chunk import ChunkFacts
    from lm_datafusion.formats.parquet.footer import FileFacts, ParquetReader
    from lm_datafusion.metrics import ScanMetrics
    from lm_datafusion.selection import PageLocations
    from lm_datafusion.storage import OpenFile

# What pyarrow and our own parsers raise for pages that are not as they should be.
_NOT_SPLICED = (pa.ArrowException, OSError, ThriftError, ValueError, NotImplementedError)

# Compressed bytes that go into one splice: enough to share its fixed cost among many columns,
# few enough that fetched pages do not pile up before they are decoded.
SPLICE_LIMIT_BYTES = 16 << 20
# Room kept behind the pages for the footer: about 100 bytes a column.
_FOOTER_SPACE_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRequest:
    """Rows wanted of one top-level column.

    `is_encoded` asks for dictionary codes; the chunks must be all dictionary.
    """

    column: int
    rows: RowSelection
    is_encoded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedColumn:
    """Values of the rows that were decoded; at least those wanted."""

    rows: RowSelection
    values: pa.Array | pa.ChunkedArray


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """What is read of one column in one row group, leaf by leaf; no ranges if nothing is."""

    chunks: tuple[ChunkFacts, ...]
    ranges: tuple[tuple[ByteRange, ...], ...]
    row_count: int
    is_whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """A request with the pages it comes to, in each row group."""

    request: ColumnRequest
    covered: RowSelection
    parts: tuple[_Part, ...]
    page_count: int

    @property
    def length_bytes(self) -> int:
        return sum(r.length for part in self.parts for leaf in part.ranges for r in leaf)


@dataclass(frozen=True, slots=True, kw_only=True)
class _LeafPages:
    """The pages of one leaf: by row group, and where they begin among the rows of all."""

    by_row_group: tuple[PageLocations, ...]
    first_rows: npt.NDArray[np.int64]

    def split(self, mask: npt.NDArray[np.bool_]) -> list[npt.NDArray[np.bool_]]:
        """A mask over all pages, by row group."""
        stops = np.cumsum([len(pages) for pages in self.by_row_group])
        return np.split(mask, stops[:-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Touched:
    """Pages that hold `rows` (kept here, for its id is the key), and all rows of those."""

    rows: RowSelection
    covered: RowSelection
    masks: list[npt.NDArray[np.bool_]]


class RowGroupDecoder:
    """Decodes columns of one row group, or of several of a file as if they were one.

    Pages come from `file`; what tells where they are comes from `index_file`, which counts its
    bytes as metadata.
    """

    def __init__(
        self,
        facts: FileFacts,
        row_groups: tuple[int, ...],
        file: OpenFile,
        index_file: OpenFile,
        metrics: ScanMetrics,
    ) -> None:
        self._facts = facts
        self._row_groups = row_groups
        self._file = file
        self._index_file = index_file
        self._metrics = metrics
        # Pages by column and row group, of those the scan decided about.
        self._pages_seen: dict[tuple[int, int], int] = {}
        self._pages_fetched = 0
        self.rows_decoded = 0  # over all columns, those of pages that were decoded for others too
        self._touched: dict[tuple[int, bytes], _Touched] = {}

    def note_pages(self, column: int, row_group: int) -> None:
        """Counts the pages of a column in a row group among those the scan decided about."""
        if (column, row_group) not in self._pages_seen:
            self._load_locations(column, row_group)

    def finish(self, *, is_part: bool = False) -> None:
        """Adds the page counters to the metrics.

        Args:
            is_part: Whether somebody else counts the pages that nobody fetched.
        """
        total = self._pages_fetched if is_part else sum(self._pages_seen.values())
        pruned = max(0, total - self._pages_fetched)
        self._metrics.add(pages_total=total, pages_pruned=pruned, pages_fetched=self._pages_fetched)

    def fork(self) -> RowGroupDecoder:
        """A decoder of the same row groups for another thread; `join` takes its counts back."""
        other = RowGroupDecoder(
            self._facts, self._row_groups, self._file, self._index_file, self._metrics
        )
        other._pages_seen = self._pages_seen
        return other

    def join(self, other: RowGroupDecoder) -> None:
        """Takes over what a fork counted."""
        self._pages_fetched += other._pages_fetched

    def decode(self, requests: Sequence[ColumnRequest]) -> Iterator[DecodedColumn]:
        """Decodes the pages that the requests touch, one column after the other.

        A column is decoded when it is asked for, so that the caller can let go of one before
        the next: memory holds one whole column of a window, not all of them.

        Raises:
            CorruptFileError: Pages that even pyarrow's own reader cannot decode.
        """
        group: list[_Piece] = []
        length = 0
        for request in requests:
            piece = self._plan(request)
            length += 0 if piece is None else piece.length_bytes
            if piece is None or length > SPLICE_LIMIT_BYTES:
                yield from self._decode_spliced(group)
                group = []
                length = 0 if piece is None else piece.length_bytes
            if piece is None:
                yield self._decode_whole(request)
            else:
                group.append(piece)
        yield from self._decode_spliced(group)

    def _locations(self, column: int) -> list[_LeafPages] | None:
        """The pages of a column by leaf; None where some are not known."""
        loaded = [self._load_locations(column, row_group) for row_group in self._row_groups]
        known = [locations for locations in loaded if locations is not None]
        if len(known) < len(loaded):
            return None
        return [
            _LeafPages(by_row_group=pages, first_rows=self._first_rows(pages))
            for pages in zip(*known, strict=True)
        ]

    def _first_rows(self, locations: tuple[PageLocations, ...]) -> npt.NDArray[np.int64]:
        """The first rows of a leaf's pages, counted through all row groups."""
        if len(locations) == 1:
            return locations[0].first_rows
        starts = self._borders()[:-1]
        return np.concatenate(
            [pages.first_rows + start for pages, start in zip(locations, starts, strict=True)]
        )

    def _borders(self) -> npt.NDArray[np.int64]:
        """Where row groups begin and end, counted through all of them."""
        counts = [self._facts.row_count(row_group) for row_group in self._row_groups]
        return np.cumsum([0, *counts])

    def _load_locations(self, column: int, row_group: int) -> list[PageLocations] | None:
        chunks = self._facts.chunks_of(row_group, column)
        tables = [chunk.load_pages(self._index_file) for chunk in chunks]
        if any(table is None for table in tables):
            return None
        locations = [table.locations for table in tables if table is not None]
        self._pages_seen[column, row_group] = sum(map(len, locations))
        return locations

    def _plan(self, request: ColumnRequest) -> _Piece | None:
        """The pages of a request, or None if the column has to be read whole."""
        chunks = [
            tuple(self._facts.chunks_of(row_group, request.column))
            for row_group in self._row_groups
        ]
        if not chunks[0] or not all(can_splice(chunk) for group in chunks for chunk in group):
            return None
        if request.rows.selects_all():
            return self._whole(request, chunks)
        locations = self._locations(request.column)
        if locations is None:
            return None
        touched = self._touch(request.rows, locations)
        if touched.covered.selects_all():
            return self._whole(request, chunks)
        masks = [leaf.split(mask) for leaf, mask in zip(locations, touched.masks, strict=True)]
        return _Piece(
            request=request,
            covered=touched.covered,
            parts=tuple(
                self._part(place, group, locations, [leaf[place] for leaf in masks])
                for place, group in enumerate(chunks)
            ),
            page_count=sum(int(mask.sum()) for mask in touched.masks),
        )

    def _part(
        self,
        place: int,
        chunks: tuple[ChunkFacts, ...],
        locations: list[_LeafPages],
        masks: list[npt.NDArray[np.bool_]],
    ) -> _Part:
        """The chosen pages of one row group."""
        ranges = tuple(
            self._page_ranges(chunk, leaf.by_row_group[place], mask)
            for chunk, leaf, mask in zip(chunks, locations, masks, strict=True)
        )
        first_rows = locations[0].by_row_group[place].first_rows
        lengths = np.diff(first_rows, append=self._facts.row_count(self._row_groups[place]))
        row_count = int(lengths[masks[0]].sum())
        return _Part(chunks=chunks, ranges=ranges, row_count=row_count, is_whole=False)

    def _whole(self, request: ColumnRequest, chunks: list[tuple[ChunkFacts, ...]]) -> _Piece:
        """All pages of a column, as they stand in the file."""
        parts = tuple(
            _Part(
                chunks=group,
                ranges=tuple((chunk.byte_range,) for chunk in group),
                row_count=self._facts.row_count(row_group),
                is_whole=True,
            )
            for row_group, group in zip(self._row_groups, chunks, strict=True)
        )
        column = request.column
        return _Piece(
            request=request,
            covered=RowSelection.all(request.rows.total_rows),
            parts=parts,
            page_count=sum(self._pages_seen.get((column, group), 0) for group in self._row_groups),
        )

    def _touch(self, rows: RowSelection, locations: list[_LeafPages]) -> _Touched:
        """The pages of one column that rows touch; columns cut alike share the answer."""
        key = (id(rows), b"|".join(pages.first_rows.tobytes() for pages in locations))
        found = self._touched.get(key)
        if found is None:
            covered = _coverage(rows, locations)
            masks = [covered.page_mask(pages.first_rows) for pages in locations]
            found = self._touched[key] = _Touched(rows=rows, covered=covered, masks=masks)
        return found

    def _page_ranges(
        self, chunk: ChunkFacts, pages: PageLocations, mask: npt.NDArray[np.bool_]
    ) -> tuple[ByteRange, ...]:
        """Byte ranges of the chosen pages, and before them the dictionary page if they need it."""
        if not mask.any():
            return ()
        start = chunk.byte_range.offset
        dictionary = ByteRange(start, int(pages.offsets[0]) - start)
        ranges = tuple(coalesce(ByteRange(*page) for page in pages.byte_ranges(mask)))
        if not dictionary.length:
            return ranges
        chosen = np.flatnonzero(mask).tolist()
        if not chunk.needs_dictionary(self._index_file, chosen):
            return ranges
        return (dictionary, *ranges)

    def _decode_spliced(self, pieces: list[_Piece]) -> Iterator[DecodedColumn]:
        if not pieces:
            return
        try:
            reader = self._open(pieces)
        except _NOT_SPLICED as error:
            if isinstance(error, LateError):
                raise
            reader = None
        for index, piece in enumerate(pieces):
            decoded = None if reader is None else self._try_read(reader, index, piece)
            yield self._decode_whole(piece.request) if decoded is None else decoded

    def _open(self, pieces: list[_Piece]) -> ParquetReader:
        encoded, leaf = [], 0
        for piece in pieces:
            if piece.request.is_encoded:
                encoded.append(leaf)
            leaf += len(piece.parts[0].chunks)
        return open_reader(self._fetch(pieces), dictionary_columns=encoded or None)

    def _try_read(self, reader: ParquetReader, index: int, piece: _Piece) -> DecodedColumn | None:
        """A spliced column, or None if it does not decode to the rows it should."""
        try:
            values = reader.read_column(index)
        except _NOT_SPLICED:
            return None
        if len(values) != piece.covered.row_count or not _codes_fit(values):
            return None
        self.rows_decoded += len(values)
        return DecodedColumn(rows=piece.covered, values=_single(values))

    def _fetch(self, pieces: list[_Piece]) -> pa.Buffer:
        """Fetches the pages of all pieces straight to their places in a spliced file."""
        # What is next to each other in the file is so in the splice.
        wanted = [
            byte_range
            for parts in zip(*(piece.parts for piece in pieces), strict=True)
            for part in parts
            for leaf in part.ranges
            for byte_range in leaf
        ]
        size_bytes = self._file.version.size_bytes
        if any(r.offset < 0 or r.length < 0 or r.stop > size_bytes for r in wanted):
            raise ValueError("pages lie outside the file")
        length = sum(r.length for r in wanted)
        self._metrics.add(bytes_scanned=length)
        self._pages_fetched += sum(piece.page_count for piece in pieces)
        space = np.empty(len(MAGIC) + length + _FOOTER_SPACE_BYTES, dtype=np.uint8)
        view = space.data
        view[: len(MAGIC)] = MAGIC
        stop = len(MAGIC) + length
        self._file.fetch_into(wanted, view[len(MAGIC) : stop])
        footer = splice_footer(self._facts, _spliced(pieces, view))
        if stop + len(footer) > len(space):
            return pa.py_buffer(bytes(view[:stop]) + footer)
        view[stop : stop + len(footer)] = footer
        return pa.py_buffer(view[: stop + len(footer)])

    def _decode_whole(self, request: ColumnRequest) -> DecodedColumn:
        """The fallback: pyarrow reads whole column chunks from the file."""
        borders = self._borders()
        touched = request.rows.page_mask(borders[:-1])
        row_groups = np.array(self._row_groups)[touched].tolist()
        field = self._facts.elements.fields[request.column]
        self._metrics.add_fallback(field.name, len(row_groups))
        with self._file.arrow_file() as source:
            # One by one: pyarrow does not put everything together that it can read.
            tables = [self._read_chunk(source, row_group, request) for row_group in row_groups]
        values = pa.chunked_array([chunk for column in tables for chunk in column.chunks])
        self.rows_decoded += len(values)
        starts, stops = borders[:-1][touched], borders[1:][touched]
        rows = RowSelection.from_ranges(starts, stops, request.rows.total_rows)
        return DecodedColumn(rows=rows, values=_single(values))

    def _read_chunk(
        self, source: pa.NativeFile, row_group: int, request: ColumnRequest
    ) -> pa.ChunkedArray:
        """A column of a row group, as pyarrow reads it."""
        field = self._facts.elements.fields[request.column]
        chunks = self._facts.chunks_of(row_group, request.column)
        self._metrics.add(bytes_scanned=sum(chunk.byte_range.length for chunk in chunks))
        path = self._facts.version.path
        try:
            leaves = list(range(field.first_leaf, field.stop_leaf))
            table = open_reader(source).read_row_group(row_group, column_indices=leaves)
            values = table.column(0)
        except LateError:
            raise
        except NotImplementedError as error:
            raise UnsupportedFeatureError(f'{path}, column "{field.name}": {error}') from error
        except (pa.ArrowException, OSError, IndexError) as error:
            start = chunks[0].byte_range.offset if chunks else None
            raise CorruptFileError(
                f"pages cannot be decoded: {error}",
                path=path,
                column=field.name,
                offset_bytes=start,
            ) from error
        row_count = self._facts.row_count(row_group)
        if len(values) != row_count or not _codes_fit(values):
            raise CorruptFileError(
                f"row group {row_group} has {len(values)} values for {row_count} rows, or values"
                " outside its dictionary",
                path=path,
                column=field.name,
            )
        return values


def without_views(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Views as plain text or bytes: PyArrow cannot filter them."""
    if pa.types.is_string_view(values.type):
        return values.cast(pa.large_string())
    if pa.types.is_binary_view(values.type):
        return values.cast(pa.large_binary())
    return values


def _single(values: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """One array where there is one; chunks that overflow an array together stay apart."""
    return without_views(values.chunk(0) if values.num_chunks == 1 else values)


def _codes_fit(values: pa.ChunkedArray) -> bool:
    """Whether every code is one of its dictionary: pyarrow looks only when it decodes values."""
    if not pa.types.is_dictionary(values.type):
        return True
    for chunk in values.chunks:
        bounds = pc.min_max(chunk.indices)
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
        if low is not None and not 0 <= low <= high < len(chunk.dictionary):
            return False
    return True


def _coverage(rows: RowSelection, locations: list[_LeafPages]) -> RowSelection:
    """The fewest rows that hold `rows` and only whole pages of every leaf."""
    covered = rows
    while True:
        grown = covered
        for pages in locations:
            grown = grown.expand_to_pages(pages.first_rows)
        if len(locations) == 1 or grown == covered:
            return grown
        covered = grown


def _spliced(pieces: list[_Piece], view: memoryview) -> list[list[SplicedColumn]]:
    """What was laid out behind the opening magic, by row group."""
    position = len(MAGIC)
    row_groups = []
    for parts in zip(*(piece.parts for piece in pieces), strict=True):
        columns = []
        for piece, part in zip(pieces, parts, strict=True):
            leaves = []
            for chunk, ranges in zip(part.chunks, part.ranges, strict=True):
                length = sum(r.length for r in ranges)
                pages = view[position : position + length]
                leaves.append(_spliced_leaf(chunk, pages, position, part))
                position += length
            columns.append(
                SplicedColumn(
                    column=piece.request.column, leaves=tuple(leaves), row_count=part.row_count
                )
            )
        row_groups.append(columns)
    return row_groups


def _spliced_leaf(chunk: ChunkFacts, pages: memoryview, offset: int, part: _Part) -> SplicedLeaf:
    """Pages in file order; a dictionary page is simply the first of them."""
    if part.is_whole:
        num_values = chunk.metadata.num_values
    elif chunk.is_flat:
        num_values = part.row_count
    else:
        num_values = _count_values(pages)
    return SplicedLeaf(chunk=chunk, offset=offset, length=len(pages), num_values=num_values)


def _count_values(buffer: memoryview) -> int:
    """Values of all data pages in a buffer; dictionary entries do not count."""
    total, position = 0, 0
    while position < len(buffer):
        header = parse_page_header(buffer, position)
        if header.kind.name.startswith("DATA"):
            total += header.num_values
        position += header.header_bytes + header.compressed_size
    return total
