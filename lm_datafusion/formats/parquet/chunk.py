"""Facts about one column chunk, each loaded on first use.

In: an open file and the footer. Out: page locations, bounds of pages, bloom filter, dictionary.

Invariant: a `load_` method reads storage at most once per chunk; a fact that cannot be read or
does not fit the chunk is absent, never wrong. Facts are frozen; two threads that load the same fact
concurrently get equal results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lm_datafusion.errors import StorageError
from lm_datafusion.formats.parquet.bloom_filter import BloomFilter, parse_bloom_filter_header
from lm_datafusion.formats.parquet.page_header import PageHeader, parse_page_header
from lm_datafusion.formats.parquet.page_index import (
    ColumnIndex,
    OffsetIndex,
    parse_column_index,
    parse_offset_index,
)
from lm_datafusion.formats.parquet.spec import DICTIONARY_ENCODINGS, PageType
from lm_datafusion.formats.parquet.thrift import NeedMoreData, ThriftError
from lm_datafusion.selection import PageLocations
from lm_datafusion.storage import ByteRange

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt
    import pyarrow as pa
    import pyarrow.parquet as pq

    from lm_datafusion.formats.parquet.chunk_tail import ChunkTail
    from lm_datafusion.formats.parquet.schema_elements import Leaf
    from lm_datafusion.storage import OpenFile

# A page header takes 20 to 60 bytes, one with statistics of two long strings a few hundred.
_HEADER_GUESS_BYTES: Final = 256
_HEADER_LIMIT_BYTES: Final = 1 << 20
_BLOOM_HEADER_BYTES: Final = 64
# Reading and parsing a header takes about 10 microseconds, decoding a dictionary a millisecond.
_HEADERS_WORTH_A_LOOK: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTable:
    """The data pages of a chunk: where they are, and which rows they hold.

    `encodings` is known if the headers were walked.
    """

    locations: PageLocations
    encodings: frozenset[int] | None


_UNKNOWN: Final = object()
# Bytes per value; FIXED_LEN_BYTE_ARRAY declares its own, BYTE_ARRAY has any.
_WIDTHS: Final = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}


class ChunkFacts:
    """One leaf column of one row group."""

    __slots__ = (
        "_bloom_filter",
        "_column_index",
        "_page_encodings",
        "_pages",
        "_tail",
        "_tail_source",
        "codec",
        "encodings",
        "fixed_length",
        "kernel_kind",
        "kernel_pages",
        "leaf",
        "metadata",
        "path",
        "physical_type",
        "row_count",
        "splice_head",
        "uncompressed_bytes",
    )

    def __init__(
        self,
        metadata: pq.ColumnChunkMetaData,
        leaf: Leaf,
        row_count: int,
        tail_source: Callable[[], ChunkTail | None],
        fixed_length: int | None = None,
    ) -> None:
        self.metadata = metadata
        self.leaf = leaf
        self.row_count = row_count
        self.fixed_length = fixed_length
        self.physical_type: str = metadata.physical_type
        self.codec: str = metadata.compression
        self.uncompressed_bytes = int(metadata.total_uncompressed_size)
        self.encodings: tuple[str, ...] = metadata.encodings
        self.path = ".".join(leaf.path)
        self._tail_source = tail_source
        self._tail: object = _UNKNOWN
        self._pages: object = _UNKNOWN
        self._column_index: object = _UNKNOWN
        self._bloom_filter: object = _UNKNOWN
        self._page_encodings: dict[int, int] = {}
        # The chunk for kernels, loaded on first use; None if they do not support it.
        self.kernel_pages: Any = ...
        # The type last requested, and the kind of values that kernels make for it.
        self.kernel_kind: tuple[pa.DataType, Any] | None = None
        # The part of a splice's metadata that does not depend on the pages, once written.
        self.splice_head: bytes | None = None

    @property
    def tail(self) -> ChunkTail | None:
        """The footer fields that pyarrow does not expose; None if they cannot be found."""
        if self._tail is _UNKNOWN:
            self._tail = self._tail_source()
        return self._tail  # type: ignore[return-value]

    @property
    def statistics(self) -> pq.Statistics | None:
        """The chunk's statistics as pyarrow reads them; None if absent or unsound.

        pyarrow aborts the process on a bound that is shorter than its type, even an empty one, and
        DataFusion writes such bounds: it truncates those of long FIXED_LEN_BYTE_ARRAYs like those
        of text.
        """
        if self.physical_type == "BYTE_ARRAY":
            return self.metadata.statistics
        width = _WIDTHS.get(self.physical_type, self.fixed_length)
        is_sound = self.tail is not None and self.tail.bound_lengths <= {width}
        return self.metadata.statistics if is_sound else None

    @property
    def byte_range(self) -> ByteRange:
        """All pages of the chunk, with the dictionary page first."""
        # Some writers omit an offset or write 0.
        offsets = (self.metadata.data_page_offset, self.metadata.dictionary_page_offset)
        start = min((offset for offset in offsets if offset), default=0)
        return ByteRange(start, self.metadata.total_compressed_size)

    @property
    def stored_bytes(self) -> int:
        """Bytes of the file."""
        return self.byte_range.length

    @property
    def is_text(self) -> bool:
        """Whether its values are of different lengths."""
        return self.physical_type == "BYTE_ARRAY"

    @property
    def is_flat(self) -> bool:
        """Whether each value is one row."""
        return self.leaf.max_repetition_level == 0

    def load_pages(self, file: OpenFile) -> PageTable | None:
        """The data pages, from the offset index or from the page headers."""
        if self._pages is _UNKNOWN:
            self._pages = self._indexed_pages(file) or self._walked_pages(file)
        return self._pages  # type: ignore[return-value]

    def plan_index_ranges(self, *, is_pruned: bool, with_filter: bool) -> list[ByteRange]:
        """Where facts are that have not been loaded; page headers lie among the pages."""
        tail = self.tail
        if tail is not None and tail.is_encrypted:
            return []
        found = []
        if self._pages is _UNKNOWN:
            has_index = tail is not None and tail.offset_index is not None
            found.append(tail.offset_index if tail and has_index else self.byte_range)
        if is_pruned and self._column_index is _UNKNOWN and tail and tail.column_index:
            found.append(tail.column_index)
        offset = self.metadata.bloom_filter_offset
        if with_filter and offset and self._bloom_filter is _UNKNOWN:
            length = self.metadata.bloom_filter_length or _BLOOM_HEADER_BYTES
            found.append(ByteRange(offset, length))
        return [wanted for wanted in found if wanted is not None]

    def load_first_rows(self, file: OpenFile) -> npt.NDArray[np.int64] | None:
        """The first row of each data page; None if that is not known."""
        table = self.load_pages(file)
        return None if table is None else table.locations.first_rows

    def load_column_index(self, file: OpenFile) -> ColumnIndex | None:
        """Bounds of the pages, if they fit the pages of the offset index."""
        if self._column_index is _UNKNOWN:
            self._column_index = self._fitting_column_index(file)
        return self._column_index  # type: ignore[return-value]

    def load_bloom_filter(self, file: OpenFile) -> BloomFilter | None:
        """The bloom filter, if there is a readable one."""
        if self._bloom_filter is _UNKNOWN:
            self._bloom_filter = self._readable_bloom_filter(file)
        return self._bloom_filter  # type: ignore[return-value]

    def load_dictionary_page(self, file: OpenFile) -> bytes | None:
        """The dictionary page with its header; None if the chunk has none.

        Not cached: dictionaries are large, and a read that needs one has it at hand.
        """
        table = self.load_pages(file)
        if table is None or not len(table.locations):
            return None
        start = self.byte_range.offset
        length = int(table.locations.offsets[0]) - start
        return file.fetch_ranges([ByteRange(start, length)])[0] if length > 0 else None

    @property
    def dictionary_page_bytes(self) -> int:
        """An upper bound for the size of the dictionary page; 0 without one."""
        return int(self.metadata.data_page_offset) - self.byte_range.offset

    def is_all_dictionary(self, file: OpenFile) -> bool:
        """Whether every data page is proven to be dictionary-encoded."""
        names = set(self.encodings)
        if "PLAIN_DICTIONARY" not in names and "RLE_DICTIONARY" not in names:
            return False
        if self.tail is not None and self.tail.is_all_dictionary is not None:
            return self.is_declared_all_dictionary()
        if names <= {"PLAIN_DICTIONARY", "RLE", "BIT_PACKED"}:
            return True
        table = self.load_pages(file)
        return (
            table is not None
            and table.encodings is not None
            and bool(table.encodings <= DICTIONARY_ENCODINGS)
        )

    def needs_dictionary(self, file: OpenFile, pages: Sequence[int]) -> bool:
        """Whether one of the data pages is dictionary-encoded.

        A chunk whose dictionary grew too large continues with PLAIN pages, which decode without it:
        checking their headers saves up to a megabyte per column.
        """
        if self.is_declared_all_dictionary() or len(pages) > _HEADERS_WORTH_A_LOOK:
            return True
        try:
            return any(self._load_encoding(file, page) in DICTIONARY_ENCODINGS for page in pages)
        except (ThriftError, StorageError):
            return True  # decoding the page will report the error

    def is_declared_all_dictionary(self) -> bool:
        """Whether the writer declares every data page to be dictionary-encoded."""
        return self.tail is not None and self.tail.is_all_dictionary is True

    def _load_encoding(self, file: OpenFile, page: int) -> int:
        encoding = self._page_encodings.get(page)
        if encoding is None:
            table = self.load_pages(file)
            assert table is not None
            offset = int(table.locations.offsets[page])
            encoding = self._page_encodings[page] = self._load_header(file, offset).encoding
        return encoding

    def memory_bytes(self) -> int:
        """The approximate size of the loaded facts."""
        size = 500
        if isinstance(self._pages, PageTable):
            size += 24 * len(self._pages.locations) + 200
        if isinstance(self._column_index, ColumnIndex):
            bounds = (*self._column_index.min_values, *self._column_index.max_values)
            size += sum(len(bound) + 40 for bound in bounds)
        if self.kernel_pages is not None and self.kernel_pages is not ...:
            size += 4 * self.kernel_pages.dictionary_size + 500
        if isinstance(self._bloom_filter, BloomFilter):
            size += len(self._bloom_filter.bitset)
        return size

    def _indexed_pages(self, file: OpenFile) -> PageTable | None:
        tail = self.tail
        if tail is None or tail.offset_index is None or tail.is_encrypted:
            return None
        try:
            index = parse_offset_index(file.fetch_ranges([tail.offset_index])[0])
        except (ThriftError, StorageError):
            return None
        if not self._fits(index, file.version.size_bytes):
            return None
        return PageTable(
            locations=PageLocations(
                offsets=index.offsets, sizes=index.sizes, first_rows=index.first_rows
            ),
            encodings=None,
        )

    def _fits(self, index: OffsetIndex, file_bytes: int) -> bool:
        """Whether an offset index belongs to this chunk, and the chunk to the file."""
        return (
            len(index.offsets) > 0
            and int(index.offsets[0]) == self.metadata.data_page_offset
            and int(index.offsets[-1] + index.sizes[-1]) <= self.byte_range.stop <= file_bytes
            and int(index.first_rows[-1]) < self.row_count
        )

    def _walked_pages(self, file: OpenFile) -> PageTable | None:
        """Page locations from the headers, if they give the number of rows.

        Sizes come from the headers alone: old writers omit the dictionary page's header from the
        chunk's size (PARQUET-816), so the last page ends after the end given by the footer.
        """
        if self.tail is not None and self.tail.is_encrypted:
            return None
        offsets: list[int] = []
        sizes: list[int] = []
        rows: list[int] = []
        encodings: set[int] = set()
        position, stop = self.byte_range.offset, self.byte_range.stop
        try:
            while position < stop:
                header = self._load_header(file, position)
                length = header.header_bytes + header.compressed_size
                if header.kind in (PageType.DATA_V1, PageType.DATA_V2):
                    offsets.append(position)
                    sizes.append(length)
                    rows.append(self._rows_of(header))
                    encodings.add(header.encoding)
                position += length
        except (ThriftError, StorageError):
            return None
        if sum(rows) != self.row_count or position > file.version.size_bytes:
            return None
        first_rows = np.concatenate([[0], np.cumsum(rows)[:-1]]) if rows else np.zeros(0)
        return PageTable(
            locations=PageLocations(
                offsets=np.array(offsets, np.int64),
                sizes=np.array(sizes, np.int64),
                first_rows=first_rows.astype(np.int64),
            ),
            encodings=frozenset(encodings),
        )

    def _rows_of(self, header: PageHeader) -> int:
        """Rows of a page: its values in a flat column; V2 headers give them for any column."""
        if self.is_flat:
            return header.num_values
        if header.num_rows is None:
            raise ThriftError("a V1 page of a repeated column does not tell its rows")
        return header.num_rows

    def _load_header(self, file: OpenFile, position: int) -> PageHeader:
        guess = _HEADER_GUESS_BYTES
        while True:
            length = min(guess, file.version.size_bytes - position)
            try:
                return parse_page_header(file.fetch_ranges([ByteRange(position, length)])[0])
            except NeedMoreData:
                if length < guess or guess >= _HEADER_LIMIT_BYTES:
                    raise
                guess *= 16

    def _fitting_column_index(self, file: OpenFile) -> ColumnIndex | None:
        tail = self.tail
        if tail is None or tail.column_index is None or tail.is_encrypted:
            return None
        table = self._indexed_pages(file) if self._pages is _UNKNOWN else self.load_pages(file)
        try:
            index = parse_column_index(file.fetch_ranges([tail.column_index])[0])
        except (ThriftError, StorageError):
            return None
        if table is None or len(table.locations) != len(index.null_pages):
            return None
        return index if self._null_pages_hold(index, table) else None

    def _null_pages_hold(self, index: ColumnIndex, table: PageTable) -> bool:
        """Whether pages marked as null are all null; some writers mark pages without bounds."""
        if not index.null_pages.any():
            return True
        if self.leaf.max_definition_level == 0 or index.null_counts is None:
            return False
        rows = np.diff(np.append(table.locations.first_rows, self.row_count))
        return bool((index.null_counts == rows)[index.null_pages].all())

    def _readable_bloom_filter(self, file: OpenFile) -> BloomFilter | None:
        offset = self.metadata.bloom_filter_offset
        if not offset or (self.tail is not None and self.tail.is_encrypted):
            return None
        try:
            available = file.version.size_bytes - offset
            start = file.fetch_ranges([ByteRange(offset, min(_BLOOM_HEADER_BYTES, available))])[0]
            parsed = parse_bloom_filter_header(start)
            if parsed is None:
                return None
            num_bytes, header_length = parsed
            if num_bytes > available:
                return None
            bitset = file.fetch_ranges([ByteRange(offset + header_length, num_bytes)])[0]
            return BloomFilter(bitset)
        except (ThriftError, StorageError):
            return None
