"""A column chunk as the kernels get it: pages fetched for some rows, and written over afterwards.

In: the bytes of a Parquet file, or pages made by hand. Out: what the kernels make of them.

`Chunk.read` and `Chunk.filter` do what `ChunkReader` does: only pages with wanted rows are handed
in, the page that was kept is not, and the memory they stood in is used again at once. An array
that points into it then has other values than it should.
"""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lm_datafusion.formats.parquet.codecs import make_decompressor
from lm_datafusion.formats.parquet.kernel_chunk import value_kind
from lm_datafusion.formats.parquet.thrift import Kind, write_struct
from lm_datafusion.kernels.columns import Dictionary, filter_rows, read_rows
from lm_datafusion.kernels.pages import HEADER_FIELDS, PageReader, Scratch, walk_pages
from tests.parquet_files import chunk_bytes, metadata_of

CODECS = {
    "none": None,
    "snappy": "SNAPPY",
    "gzip": "GZIP",
    "brotli": "BROTLI",
    "zstd": "ZSTD",
    "lz4": "LZ4",
}
DICTIONARY_PAGE = 2


class Chunk:
    """The first row group's pages of one column."""

    def __init__(self, pages: bytes, *, physical, stored, nullable, codec="none", length=None):
        self.bytes = pages
        self.stored = stored
        self.nullable = nullable
        self.physical, self.length = physical, length
        name = CODECS[codec]
        self.decompress = None if name is None else make_decompressor(name)
        headers = walk_pages(pages)
        kinds = headers[:, HEADER_FIELDS.index("kind")]
        self.dictionary = None
        if len(kinds) and kinds[0] == DICTIONARY_PAGE:
            self.dictionary = Dictionary(pa.py_buffer(pages), 0, self.decompress)
        self.headers = headers = headers[kinds != DICTIONARY_PAGE]
        counts = headers[:, HEADER_FIELDS.index("num_values")]
        self.row_count = int(counts.sum())
        self.row_ends = np.cumsum(counts)
        self.first_rows = self.row_ends - counts
        self.offsets = headers[:, 0]
        self.sizes = headers[:, 1] + headers[:, 2]
        self.reader = PageReader(int(nullable), physical, length)
        self.scratch = Scratch()

    @classmethod
    def of(cls, data: bytes, column=0, codec="none"):
        """A column of a file."""
        leaf = metadata_of(data).schema.column(column)
        return cls(
            chunk_bytes(data, 0, column),
            physical=leaf.physical_type,
            stored=pq.read_schema(io.BytesIO(data)).field(column).type,
            nullable=leaf.max_definition_level > 0,
            codec=codec,
            length=leaf.length or None,
        )

    @property
    def encodings(self):
        return {int(number) for number in self.headers[:, HEADER_FIELDS.index("encoding")]}

    def builder(self, given=None):
        kind = value_kind(self.physical, self.length, self.stored, given or self.stored)
        return None if kind is None else kind.make(self.dictionary)

    def _hand_over(self, rows, start, stop):
        """Makes pages ready; a function that writes over them."""
        if rows is None:
            touched = (self.row_ends > start) & (self.first_rows < stop)
        else:
            touched = np.searchsorted(rows, self.row_ends) > np.searchsorted(rows, self.first_rows)
        numbers = np.flatnonzero(touched)
        kept = (numbers == self.reader.kept_page) & (numbers == numbers[:1])
        room, starts = bytearray(b"\x55" * 3), []
        for number, is_kept in zip(numbers.tolist(), kept.tolist(), strict=True):
            starts.append(-1 if is_kept else len(room))
            if not is_kept:
                offset = int(self.offsets[number])
                room += self.bytes[offset : offset + int(self.sizes[number])]
        self.reader.set_pages(
            self.scratch,
            self.decompress,
            pa.py_buffer(room),
            numbers,
            np.array(starts, dtype=np.int64),
            self.first_rows[numbers],
            self.row_ends[numbers],
        )

        def write_over():
            self.reader.release()
            room[:] = b"\xaa" * len(room)

        return write_over

    def read(self, rows=None, start=0, stop=None, *, given=None):
        """The values of rows, or of the range."""
        stop = self.row_count if stop is None else stop
        write_over = self._hand_over(rows, start, stop)
        try:
            return read_rows(self.reader, self.builder(given), rows, start, stop)
        finally:
            write_over()

    def filter(self, test, rows=None, start=0, stop=None, *, is_held=False, **options):
        """The rows that pass, and their values if they are held."""
        stop = self.row_count if stop is None else stop
        passes = None if self.dictionary is None else self.dictionary.test(test)
        write_over = self._hand_over(rows, start, stop)
        builder = self.builder(options.pop("given", None)) if is_held else None
        try:
            return filter_rows(
                self.reader,
                test,
                passes,
                rows,
                start,
                stop,
                builder=builder,
                **options,
            )
        finally:
            write_over()


def some_rows(rng: np.random.Generator, row_count: int, kind: str):
    """Row numbers of a kind; None for all."""
    every = np.arange(row_count, dtype=np.int32)
    if kind == "all":
        return None
    if kind == "every row by number":
        return every
    if kind == "none":
        return every[:0]
    if kind == "one":
        return every[rng.integers(row_count) :][:1] if row_count else every
    if kind == "every other":
        return every[rng.integers(2) :: 2].copy()
    if kind == "few":
        return every[rng.random(row_count) < 0.03]
    if kind == "most":
        return every[rng.random(row_count) < 0.95]
    if kind == "ranges":
        cuts = np.sort(rng.integers(0, row_count + 1, 8))
        return np.concatenate([every[a:b] for a, b in cuts.reshape(-1, 2).tolist()])
    raise ValueError(kind)


ROW_KINDS = (
    "all",
    "every row by number",
    "none",
    "one",
    "every other",
    "few",
    "most",
    "ranges",
)


# --- pages made by hand ---------------------------------------------------------------------------


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def rle_run(value: int, count: int, width: int) -> bytes:
    return varint(count << 1) + value.to_bytes((width + 7) // 8, "little")


def packed_run(values, width: int) -> bytes:
    """Bit-packed values, filled up to a multiple of eight."""
    groups = (len(values) + 7) // 8
    number = sum(value << (index * width) for index, value in enumerate(values))
    return varint(groups << 1 | 1) + number.to_bytes(groups * width, "little")


def random_runs(rng: np.random.Generator, values, width: int) -> bytes:
    """The hybrid of values: runs of equal ones as either kind, of any length."""
    out, at, values = bytearray(), 0, list(values)
    while at < len(values):
        equal = 1
        while at + equal < len(values) and values[at + equal] == values[at]:
            equal += 1
        left = len(values) - at
        if equal > 1 and rng.random() < 0.7:
            count = int(rng.integers(1, equal + 1))
            out += rle_run(values[at], count, width)
        else:
            # All runs but the last hold a multiple of eight values.
            count = min(left, 8 * int(rng.integers(1, 200)))
            out += packed_run(values[at : at + count], width)
        at += count
        if rng.random() < 0.05:
            out += rle_run(0, 0, width)
    return bytes(out)


def data_page(body: bytes, count: int, encoding: int, *, levels=None, version=1) -> bytes:
    """An uncompressed data page; `levels` are the runs of the definition levels."""
    if version == 1:
        if levels is not None:
            body = len(levels).to_bytes(4, "little") + levels + body
        page = [(1, Kind.I32, count), (2, Kind.I32, encoding), (3, Kind.I32, 3), (4, Kind.I32, 3)]
        kind, field = 0, 5
    else:
        levels = levels or b""
        body = levels + body
        numbers = [count, 0, count, encoding, len(levels), 0]
        page = [(number, Kind.I32, value) for number, value in enumerate(numbers, start=1)]
        kind, field = 3, 8
    return _page(kind, field, page, body)


def dictionary_page(body: bytes, count: int) -> bytes:
    return _page(DICTIONARY_PAGE, 7, [(1, Kind.I32, count), (2, Kind.I32, 0)], body)


def compressed_page(packed: bytes, size: int, count: int) -> bytes:
    """A page of PLAIN values without levels that claims to have a size."""
    page = [(1, Kind.I32, count), (2, Kind.I32, 0), (3, Kind.I32, 3), (4, Kind.I32, 3)]
    return _page(0, 5, page, packed, size)


def _page(kind: int, field: int, page, body: bytes, size: int | None = None) -> bytes:
    size = len(body) if size is None else size
    sizes = [(1, Kind.I32, kind), (2, Kind.I32, size), (3, Kind.I32, len(body))]
    return write_struct([*sizes, (field, Kind.STRUCT, write_struct(page))]) + body


def plain_text(values) -> bytes:
    return b"".join(len(value).to_bytes(4, "little") + value for value in values)
