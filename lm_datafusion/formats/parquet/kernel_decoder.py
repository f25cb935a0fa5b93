"""Flat columns, decoded by compiled kernels.

In: a column chunk and the rows wanted. Out: exactly those rows as an Arrow array, or the rows that
pass a condition.

1. The page table says which pages hold the rows; only those are fetched, neighbours in one read.
2. A kernel opens one page after the other, and takes what is wanted from each.

Memory is used again: fetched bytes and a kernel's scratch are of a workspace, which is one thread's
for the time of a call.

Invariant: what kernels do not know raises `UnsupportedPageError`, and pages that are not as they
should be raise `PageError`. Nothing that is handed out points into memory that is used again.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from lm_datafusion.formats.parquet.codecs import CODECS, make_decompressor
from lm_datafusion.kernels.columns import (
    BooleanBuilder,
    Dictionary,
    FixedBuilder,
    TextBuilder,
    filter_rows,
    read_rows,
    rows_of_mask,
    rows_of_ranges,
)
from lm_datafusion.kernels.pages import (
    PageError,
    PageReader,
    Scratch,
    UnsupportedPageError,
    plan_pages,
)
from lm_datafusion.predicate.kinds import is_text, is_text_or_bytes
from lm_datafusion.selection import RowSelection
from lm_datafusion.storage import ByteRange, coalesce

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from lm_datafusion.formats.parquet.chunk import ChunkFacts
    from lm_datafusion.kernels.columns import Builder, ValueTest
    from lm_datafusion.selection import PageLocations
    from lm_datafusion.storage import OpenFile

    Rows: TypeAlias = npt.NDArray[np.int32]
    # Row numbers, or None for all of a range; and the range.
    Wanted: TypeAlias = tuple[Rows | None, int, int]

_STORED_WIDTHS: Final = {"INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8}
# Kept with the facts of the file: most of what reading such a dictionary costs is the call.
SMALL_DICTIONARY_BYTES: Final = 2048
# A workspace keeps no more room than this of one kind.
LARGEST_ROOM_BYTES: Final = 16 << 20
# Text is at most this long in one array: its offsets have 32 bits.
MOST_ROWS: Final = 2**31 - 1


class _Workspace:
    """What a decoder works with: scratch memory, room for fetched bytes, codecs."""

    def __init__(self) -> None:
        self.scratch = Scratch()
        self.room: pa.Buffer = pa.allocate_buffer(1 << 16)
        self.codecs: dict[str, Callable[[pa.Buffer, int], pa.Buffer]] = {}

    def fetch(self, file: OpenFile, ranges: list[ByteRange], length: int) -> pa.Buffer:
        """The bytes of ranges, one behind the other, until the next call."""
        room = self.room
        if room.size < length:
            room = pa.allocate_buffer(length + length // 4)
            if length <= LARGEST_ROOM_BYTES:
                self.room = room
        file.fetch_into(ranges, memoryview(room).cast("B")[:length])
        return room.slice(0, length)

    def decompress(self, codec: str) -> Callable[[pa.Buffer, int], pa.Buffer] | None:
        """What decompresses the pages of a chunk; None if they are not compressed."""
        if codec == "UNCOMPRESSED":
            return None
        found = self.codecs.get(codec)
        if found is None:
            found = self.codecs[codec] = make_decompressor(codec)
        return found


# Workspaces that nobody uses. Not thread-local: an engine's threads are new to Python each time it
# asks for a batch, and what is local to them would be fresh memory every time.
_WORKSPACES: Final[list[_Workspace]] = []


@contextlib.contextmanager
def _workspace() -> Iterator[_Workspace]:
    """A workspace for one call."""
    try:
        workspace = _WORKSPACES.pop()
    except IndexError:
        workspace = _Workspace()
    try:
        yield workspace
    finally:
        workspace.scratch.trim(LARGEST_ROOM_BYTES)
        _WORKSPACES.append(workspace)


def can_decode(chunk: ChunkFacts, stored: pa.DataType) -> bool:
    """Whether kernels may know a chunk's pages, as far as its metadata tells."""
    return (
        chunk.leaf.max_repetition_level == 0
        and len(chunk.leaf.path) == 1
        and chunk.leaf.max_definition_level <= 1
        and (chunk.codec in CODECS or chunk.codec == "UNCOMPRESSED")
        and chunk.row_count <= MOST_ROWS
        and not chunk.metadata.file_path
        and not (chunk.tail is not None and chunk.tail.is_encrypted)
        and _make_builder(chunk, stored, stored, None) is not None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fetch:
    """Pages to read: their byte ranges, and where each begins when those lie together."""

    ranges: list[ByteRange]
    length: int
    numbers: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    first_rows: npt.NDArray[np.int64]
    row_ends: npt.NDArray[np.int64]
    has_dictionary: bool


class KernelDecoder:
    """One flat column of one row group. Not to be used by two threads at the same time."""

    def __init__(
        self,
        chunk: ChunkFacts,
        stored: pa.DataType,
        given: pa.DataType,
        files: tuple[OpenFile, OpenFile],
    ) -> None:
        """Prepares to decode.

        Args:
            chunk: The column chunk.
            stored: Its Arrow type, as the file says.
            given: The type wanted; another kind of text than `stored` is made at once, any other
                type is left to the caller to cast to.
            files: Where pages come from, and the same for what counts as metadata.
        """
        self._chunk = chunk
        self._stored = stored
        self._given = _given_type(stored, given)
        self._file, self._index_file = files
        self._reader = PageReader(
            chunk.leaf.max_definition_level, chunk.physical_type, chunk.fixed_length
        )
        self._dictionary: Dictionary | None = chunk.small_dictionary
        self._is_dictionary_loaded = self._dictionary is not None
        self._numbers = np.zeros(0, dtype=np.int64)
        self._bytes_fetched = 0

    def share_dictionary(self, other: KernelDecoder) -> None:
        """Takes over the dictionary that another decoder of the same chunk has read."""
        if self._dictionary is None and other._dictionary is not None:
            self._dictionary = other._dictionary
            self._is_dictionary_loaded = True

    def take_bytes_fetched(self) -> int:
        """Bytes fetched since the last call."""
        count, self._bytes_fetched = self._bytes_fetched, 0
        return count

    @property
    def rows_decoded(self) -> int:
        """Rows of all pages that were opened."""
        return self._reader.rows_decoded

    @property
    def pages_read(self) -> npt.NDArray[np.int64]:
        """The numbers of the pages that the last call read."""
        return self._numbers

    def read(self, locations: PageLocations, rows: RowSelection) -> pa.Array:
        """Values of rows, in the type that is given."""
        wanted = _row_numbers(rows)
        with _workspace() as workspace, self._pages_named():
            self._fetch(workspace, locations, wanted)
            return read_rows(self._reader, self._builder(), *wanted)

    def filter(
        self,
        locations: PageLocations,
        rows: RowSelection,
        test: ValueTest | None,
        passes: npt.NDArray[np.bool_] | None,
        *,
        is_held: bool,
    ) -> tuple[RowSelection, pa.Array | None]:
        """The rows that pass a condition.

        Args:
            locations: The pages of the chunk.
            rows: Rows to test.
            test: The condition; None if all pages are coded and `passes` is known.
            passes: Which values of the dictionary pass, and last whether null does, if known.
            is_held: Whether values of the rows that pass are wanted too.
        """
        wanted = _row_numbers(rows)
        with _workspace() as workspace, self._pages_named():
            self._fetch(workspace, locations, wanted)
            answers, null_passes = self._dictionary_answers(test, passes)
            found, values = filter_rows(
                self._reader,
                test,
                self._dictionary,
                answers,
                *wanted,
                null_passes=null_passes,
                builder=self._builder() if is_held and not null_passes else None,
            )
        if len(found) == rows.row_count:
            return rows, values
        return RowSelection.from_rows(found, rows.total_rows), values

    def _dictionary_answers(
        self, test: ValueTest | None, passes: npt.NDArray[np.bool_] | None
    ) -> tuple[npt.NDArray[np.uint8] | None, bool]:
        """Which values of the dictionary pass, if there is one, and whether null does."""
        dictionary = self._dictionary
        null_passes = passes is not None and bool(passes[-1])
        if dictionary is None:
            return None, null_passes
        if passes is not None and len(passes) == dictionary.value_count + 1:
            return passes[:-1].view(np.uint8), null_passes
        if test is None:
            raise UnsupportedPageError("nobody knows which values of the dictionary pass")
        return dictionary.test(test), False

    def load_dictionary(self, locations: PageLocations) -> pa.Array | None:
        """The values of the dictionary; None if the chunk has none."""
        length = int(locations.offsets[0]) - self._chunk.byte_range.offset
        if not self._is_dictionary_loaded and length > 0:
            where = ByteRange(self._chunk.byte_range.offset, length)
            with _workspace() as workspace:
                self._open_dictionary(workspace, workspace.fetch(self._file, [where], length))
            self._bytes_fetched += length
        if self._dictionary is None:
            return None
        return self._dictionary.to_array(self._builder())

    def _fetch(
        self,
        workspace: _Workspace,
        locations: PageLocations,
        wanted: Wanted,
    ) -> None:
        """Makes the pages that hold rows, and the dictionary, ready for the reader."""
        fetch = self._plan_fetch(locations, wanted)
        buffer = workspace.fetch(self._file, fetch.ranges, fetch.length)
        self._bytes_fetched += fetch.length
        if fetch.has_dictionary and self._dictionary is None:
            self._open_dictionary(workspace, buffer)
        self._numbers = fetch.numbers
        self._reader.set_pages(
            workspace.scratch,
            workspace.decompress(self._chunk.codec),
            buffer,
            fetch.numbers,
            fetch.starts,
            fetch.first_rows,
            fetch.row_ends,
        )

    @contextlib.contextmanager
    def _pages_named(self) -> Iterator[None]:
        """Lets the reader go in the end; errors name a page by its number in the chunk."""
        try:
            yield
        except PageError as error:
            if error.page is not None:
                error.page = int(self._numbers[error.page])
            raise
        finally:
            self._reader.release()

    def _open_dictionary(self, workspace: _Workspace, buffer: pa.Buffer) -> None:
        dictionary = Dictionary(buffer, 0, workspace.decompress(self._chunk.codec))
        if dictionary.size_bytes <= SMALL_DICTIONARY_BYTES:
            self._chunk.small_dictionary = dictionary
        self._dictionary = dictionary
        self._is_dictionary_loaded = True

    def _plan_fetch(self, locations: PageLocations, wanted: Wanted) -> _Fetch:
        chunk, kept_page = self._chunk, self._reader.kept_page
        is_whole = wanted[0] is None and wanted[1:] == (0, chunk.row_count) and kept_page < 0
        if is_whole and isinstance(chunk.whole_fetch, _Fetch):
            return chunk.whole_fetch
        # The page that was opened last is still there, until another is opened.
        numbers, starts, first_rows, row_ends, found, length = plan_pages(
            locations.offsets,
            locations.sizes,
            locations.first_rows,
            chunk.row_count,
            *wanted,
            kept_page=kept_page,
        )
        ranges = [ByteRange(*where) for where in found]
        lead = int(locations.offsets[0]) - chunk.byte_range.offset
        has_dictionary = lead > 0 and (
            is_whole
            or (
                not self._is_dictionary_loaded
                and chunk.needs_dictionary(self._index_file, numbers.tolist())
            )
        )
        if has_dictionary:
            starts = np.where(starts < 0, starts, starts + lead)
            ranges = coalesce([ByteRange(chunk.byte_range.offset, lead), *ranges])
            length += lead
        fetch = _Fetch(
            ranges=ranges,
            length=length,
            numbers=numbers,
            starts=starts,
            first_rows=first_rows,
            row_ends=row_ends,
            has_dictionary=has_dictionary,
        )
        if is_whole:
            chunk.whole_fetch = fetch
        return fetch

    def _builder(self) -> Builder:
        builder = _make_builder(self._chunk, self._stored, self._given, self._dictionary)
        assert builder is not None
        return builder


def _row_numbers(rows: RowSelection) -> Wanted:
    """Rows as kernels take them: numbers, or None for all of a range; and the range."""
    numbers = rows.to_rows()
    if numbers is not None:
        return numbers, 0, rows.total_rows
    if rows.selects_all():
        return None, 0, rows.total_rows
    if rows.prefers_mask():
        return rows_of_mask(rows.to_mask().view(np.uint8)), 0, rows.total_rows
    starts, stops = rows.to_ranges()
    if len(starts) == 1:
        return None, int(starts[0]), int(stops[0])
    return rows_of_ranges(starts, stops, rows.row_count), 0, rows.total_rows


def _given_type(stored: pa.DataType, given: pa.DataType) -> pa.DataType:
    """The type that values are made in: that wanted, if both are text or bytes."""
    if not is_text_or_bytes(stored):
        return stored
    wanted = given if is_text_or_bytes(given) else stored
    # Long offsets are the caller's to make.
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(wanted, wanted)


def _make_builder(
    chunk: ChunkFacts, stored: pa.DataType, given: pa.DataType, dictionary: Dictionary | None
) -> Builder | None:
    """What makes arrays of a type from values of a chunk; None if nothing does."""
    physical = chunk.physical_type
    if physical == "BYTE_ARRAY" and is_text_or_bytes(stored):
        given = _given_type(stored, given)
        is_view = pa.types.is_string_view(given) or pa.types.is_binary_view(given)
        return TextBuilder(given, dictionary, is_text=is_text(given), is_view=is_view)
    if physical == "BOOLEAN" and pa.types.is_boolean(stored):
        return BooleanBuilder()
    if physical == "FIXED_LEN_BYTE_ARRAY":
        width = chunk.fixed_length or 0
        is_same = stored == pa.float16() or stored == pa.binary(width)
        return FixedBuilder(stored, width, width, dictionary) if is_same and width else None
    width = _STORED_WIDTHS.get(physical, 0)
    if not width or not _has_same_bits(physical, stored):
        return None
    return FixedBuilder(stored, width, stored.bit_width // 8, dictionary)


def _has_same_bits(physical: str, data_type: pa.DataType) -> bool:
    """Whether an Arrow value is the stored one, perhaps narrowed or widened."""
    types = pa.types
    if physical == "FLOAT":
        return bool(types.is_float32(data_type))
    if physical == "DOUBLE":
        return bool(types.is_float64(data_type))
    if types.is_decimal128(data_type):
        return True
    if physical == "INT32":
        is_small = types.is_integer(data_type) and data_type.bit_width <= 32
        return bool(is_small or types.is_date32(data_type) or types.is_time32(data_type))
    is_wide = types.is_integer(data_type) and data_type.bit_width == 64
    # No file stores seconds: where Arrow has them, values are converted.
    is_time = types.is_timestamp(data_type) and data_type.unit != "s"
    return bool(is_wide or is_time or types.is_time64(data_type))
