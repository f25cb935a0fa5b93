"""Small Parquet files of many kinds, taken apart into pages, and the ways to damage those.

In: a number, which stands for a file; a `random.Random`. Out: a `Source`; its pages with damage in
them, laid out one behind the other (`Laid`); or its file with damage in it.

Most files are not compressed, and damage comes before pages are compressed more often than behind:
a codec that notices it saves the decoders from having to.
"""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import io
import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lm_datafusion.formats.parquet.spec import PYARROW_CODECS
from lm_datafusion.formats.parquet.thrift import Kind
from tests.footers import read_typed, write_typed
from tests.parquet_files import column_index_bytes, offset_index_bytes, unpacked_encodings

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.footers import Struct

SOURCES = 240
WORDS = ["", "a", "ab", "google", "x" * 13, "y" * 40, "ü", "日本語", "Ж" * 20, "😀", "a%b", "\0"]
LONG_WORD = "Ж" * 350  # blocks of text have to grow
COUNTS = [0, 1, 7, 8, 9, 63, 64, 65, 255, 1023, 1024, 1025, 3000, 20_000]
INTEGERS = [0, 1, 2, 3, 7, 8, 31, 32, 127, 128, 255, 256, 2**15, 2**16, 2**24, 2**30, 2**31 - 1]
WIDTHS = [0, 1, 7, 8, 31, 32, 33, 56, 57, 58, 63, 64, 65, 255]
BYTES = list(bytes.fromhex("00 01 02 03 07 08 09 10 18 1f 20 21 40 7e 7f 80 81 c0 ed f4 ff"))

_DAY = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
TYPES: list[tuple[pa.DataType, Callable[[random.Random], Any]]] = [
    (pa.int8(), lambda r: r.randint(-128, 127)),
    (pa.int16(), lambda r: r.randint(-9, 9)),
    (pa.int32(), lambda r: r.choice([-(2**31), 2**31 - 1, 0, 5, r.randint(-50, 50)])),
    (pa.int64(), lambda r: r.choice([-(2**63), 2**63 - 1, 0, r.randint(-5, 5)])),
    (pa.uint8(), lambda r: r.randint(0, 255)),
    (pa.uint16(), lambda r: r.randint(0, 2**16 - 1)),
    (pa.uint32(), lambda r: r.choice([0, 2**32 - 1, r.randint(0, 40)])),
    (pa.uint64(), lambda r: r.choice([0, 2**64 - 1, r.randint(0, 40)])),
    (pa.float16(), lambda r: np.float16(r.random())),
    (pa.float32(), lambda r: r.random()),
    (pa.float64(), lambda r: r.choice([r.random(), 0.0, float("nan")])),
    (pa.bool_(), lambda r: r.random() < 0.5),
    (pa.bool_(), lambda r: r.random() < 0.05),
    (pa.date32(), lambda r: _DAY.date() + dt.timedelta(r.randint(0, 30))),
    (pa.timestamp("us"), lambda r: _DAY.replace(tzinfo=None) + dt.timedelta(r.randint(0, 30))),
    (pa.time32("ms"), lambda r: dt.time(r.randint(0, 23), 3)),
    (pa.time64("us"), lambda r: dt.time(r.randint(0, 23), 3)),
    (pa.decimal128(9, 2), lambda r: decimal.Decimal(r.randint(-999, 999)) / 100),
    (pa.decimal128(18, 3), lambda r: decimal.Decimal(r.randint(-9999, 9999)) / 1000),
    (pa.binary(1), lambda r: r.choice([b"a", b"\xff"])),
    (pa.binary(3), lambda r: r.choice([b"abc", b"\xff\x00a", b"xyz"])),
    (pa.binary(40), lambda r: bytes([r.randint(0, 9)]) * 40),
    *[
        (
            pa.string(),
            lambda r: r.choice(WORDS) + (str(r.randint(0, 99)) if r.random() < 0.5 else ""),
        )
    ]
    * 6,
    *[(pa.binary(), lambda r: r.choice(WORDS).encode() + bytes([r.randint(0, 255)]))] * 3,
]


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page: its header, and its body as it is before it is compressed, levels first."""

    header: Struct
    body: bytes
    level_bytes: int = 0  # of a V2 page: they are never compressed
    row_count: int = 0
    raw: bytes = b""  # header and body as the file has them

    @property
    def fields(self) -> Struct:
        """The header of its kind of page."""
        return next(self.header[i][1] for i in (5, 7, 8) if i in self.header)


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file of the columns `c`, whose pages are taken apart, and `d`, the row number."""

    data: bytes
    data_type: pa.DataType
    physical_type: str
    fixed_length: int | None
    is_nullable: bool
    codec: str | None
    row_count: int
    start: int
    stop: int
    dictionary: Page | None
    pages: list[Page]
    offset_index: bytes
    column_index: bytes
    words: list[Any] = field(default_factory=list)
    # The same table, perhaps in several row groups.
    scanned: bytes = b""


@dataclass(frozen=True, kw_only=True)
class Laid:
    """Pages one behind the other; which rows each claims to hold."""

    data: bytes
    dictionary_start: int | None
    starts: list[int]
    first_rows: list[int]
    row_ends: list[int]


@functools.lru_cache(maxsize=SOURCES)
def make_source(number: int) -> Source:
    """The file that a number stands for."""
    rng = random.Random(number)
    data_type, draw = TYPES[number % len(TYPES)]
    codec = rng.choice(list(PYARROW_CODECS)) if rng.random() < 0.35 else None
    # Codecs take long to begin with a page.
    row_count = rng.choice([1, 8, 30, 60] if codec else [1, 8, 30, 100, 300, 300, 1100, 3000])
    is_nullable = rng.random() < 0.5
    null_share = rng.choice([0, 0.1, 0.5, 1]) if is_nullable else 0
    variety = rng.choice([1, 2, 5, 20, 300])
    domain = [draw(rng) for _ in range(variety)]
    if pa.types.is_string(data_type) and rng.random() < 0.3:
        domain.append(LONG_WORD)
    values = [None if rng.random() < null_share else rng.choice(domain) for _ in range(row_count)]
    if rng.random() < 0.3:
        values.sort(key=str)  # long runs
    dictionary = rng.choice(["yes", "yes", "no", "mixed", "unpacked", "unpacked"])
    options: dict[str, Any] = {
        "compression": codec or "NONE",
        "use_dictionary": dictionary in ("yes", "mixed"),
        "data_page_version": rng.choice(["1.0", "2.0"]),
        "data_page_size": rng.choice([16, 100, 1000, 1 << 20]),
        "write_batch_size": rng.choice([8, 30] if codec else [1, 8, 50, 1024]),
        "write_page_index": True,
        "store_decimal_as_integer": True,
    }
    if dictionary == "mixed":
        options["dictionary_pagesize_limit"] = 50
    if dictionary == "unpacked":
        options["column_encoding"] = {"c": rng.choice(unpacked_encodings(data_type))}
    schema = pa.schema(
        [pa.field("c", data_type, nullable=is_nullable), pa.field("d", pa.int32(), nullable=False)]
    )
    table = pa.table(
        [pa.array(values, data_type), pa.array(range(row_count), pa.int32())], schema=schema
    )
    sink, scanned = io.BytesIO(), io.BytesIO()
    pq.write_table(table, sink, **options)
    row_group_size = rng.choice([max(1, row_count), max(1, row_count // 3), max(1, row_count // 7)])
    pq.write_table(table, scanned, row_group_size=row_group_size, **options)
    source = _take_apart(sink.getvalue(), table.column(0), codec)
    return replace(source, scanned=scanned.getvalue())


def _take_apart(data: bytes, column: pa.ChunkedArray, codec: str | None) -> Source:
    file = pq.ParquetFile(io.BytesIO(data))
    chunk = file.metadata.row_group(0).column(0)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    stop = start + chunk.total_compressed_size
    physical = file.schema.column(0)
    dictionary, pages = None, []
    position = start
    while position < stop:
        page_start = position
        header, body_start = read_typed(data, position)
        position = body_start + header[3][1]
        page = _read_page(header, data[body_start:position], codec)
        page = replace(page, raw=data[page_start:position])
        if header[1][1] == 2:
            dictionary = page
        else:
            pages.append(page)
    return Source(
        data=data,
        data_type=column.type,
        physical_type=chunk.physical_type,
        fixed_length=physical.length if chunk.physical_type == "FIXED_LEN_BYTE_ARRAY" else None,
        is_nullable=physical.max_definition_level > 0,
        codec=codec,
        row_count=len(column),
        start=start,
        stop=stop,
        dictionary=dictionary,
        pages=pages,
        offset_index=offset_index_bytes(data, 0, 0),
        column_index=column_index_bytes(data, 0, 0) if chunk.has_column_index else b"",
        words=[value for value in column.unique().to_pylist() if value is not None],
    )


def _read_page(header: Struct, packed: bytes, codec: str | None) -> Page:
    levels, is_compressed = 0, codec is not None
    if 8 in header:
        fields = header[8][1]
        levels = fields[5][1] + fields[6][1]
        is_compressed = is_compressed and fields.get(7, (Kind.BOOL, True))[1]
    body, size = packed, header[2][1]
    if is_compressed and size > levels:
        values = pa.Codec(PYARROW_CODECS[codec or ""]).decompress(packed[levels:], size - levels)
        body = packed[:levels] + values.to_pybytes()
    count = next(header[i][1][1][1] for i in (5, 7, 8) if i in header)
    return Page(header=header, body=body, level_bytes=levels, row_count=count)


# --- bytes --------------------------------------------------------------------------------------


def mutate_bytes(rng: random.Random, data: bytes, *, keep_size: bool = False) -> bytes:
    """Damage anywhere: bits, bytes, ranges."""
    out = bytearray(data)
    kinds = [_flip, _set_byte, _set_number, _swap, _repeat, _fill]
    if not keep_size:
        kinds += [_cut, _insert, _drop, _repeat_longer]
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        if out:
            rng.choice(kinds)(rng, out)
    return bytes(out)


def _flip(rng: random.Random, out: bytearray) -> None:
    out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)


def _set_byte(rng: random.Random, out: bytearray) -> None:
    # What comes first says most.
    at = rng.randrange(min(len(out), rng.choice([8, 1 << 30])))
    out[at] = rng.choice(BYTES)


def _set_number(rng: random.Random, out: bytearray) -> None:
    """A length of four bytes."""
    at = rng.randrange(max(1, min(len(out) - 3, rng.choice([8, 1 << 30]))))
    left = len(out) - at - 4
    number = rng.choice([*INTEGERS, -1, -(2**31), left - 1, left, left + 1, len(out)])
    out[at : at + 4] = (number & 0xFFFFFFFF).to_bytes(4, "little")[: len(out) - at]


def _range(rng: random.Random, out: bytearray) -> tuple[int, int]:
    at = rng.randrange(len(out))
    return at, min(len(out), at + rng.choice([1, 2, 4, 8, 30]))


def _swap(rng: random.Random, out: bytearray) -> None:
    start, stop = _range(rng, out)
    other = rng.randrange(len(out) - (stop - start) + 1)
    size = stop - start
    here, there = bytes(out[start:stop]), bytes(out[other : other + size])
    out[start:stop] = there
    out[other : other + size] = here


def _repeat(rng: random.Random, out: bytearray) -> None:
    start, stop = _range(rng, out)
    other = rng.randrange(len(out) - (stop - start) + 1)
    out[other : other + stop - start] = out[start:stop]


def _fill(rng: random.Random, out: bytearray) -> None:
    start, stop = _range(rng, out)
    out[start:stop] = bytes([rng.choice(BYTES)]) * (stop - start)


def _cut(rng: random.Random, out: bytearray) -> None:
    del out[rng.choice([rng.randrange(len(out)), max(0, len(out) - rng.randint(1, 9))]) :]


def _insert(rng: random.Random, out: bytearray) -> None:
    at = rng.choice([rng.randrange(len(out) + 1), len(out)])
    out[at:at] = rng.randbytes(rng.choice([1, 2, 7, 40]))


def _drop(rng: random.Random, out: bytearray) -> None:
    start, stop = _range(rng, out)
    del out[start:stop]


def _repeat_longer(rng: random.Random, out: bytearray) -> None:
    start, stop = _range(rng, out)
    out[stop:stop] = out[start:stop]


# --- pages --------------------------------------------------------------------------------------


def mutate_body(rng: random.Random, page: Page, source: Source) -> Page:
    """Damage to a page before it is compressed: anywhere, or where its structure is."""
    if rng.random() < 0.4:
        return _with_body(page, mutate_bytes(rng, page.body))
    levels, body = page.body[: page.level_bytes], page.body[page.level_bytes :]
    kind = rng.random()
    is_dictionary = 7 in page.header
    if source.is_nullable and not is_dictionary and kind < 0.4:
        if 8 in page.header:
            levels = _runs(rng, page.row_count, 1) if kind < 0.2 else mutate_bytes(rng, levels)
        else:
            size = int.from_bytes(body[:4], "little")
            runs = _runs(rng, page.row_count, 1) if kind < 0.2 else body[4 : 4 + size]
            claimed = (
                len(runs) if kind < 0.3 else rng.choice([*INTEGERS, len(runs) + 1, len(body), -1])
            )
            body = (claimed & 0xFFFFFFFF).to_bytes(4, "little") + runs + body[4 + size :]
        return replace(page, body=levels + body, level_bytes=len(levels))
    at = 0
    if source.is_nullable and not is_dictionary and 8 not in page.header:
        at = 4 + int.from_bytes(body[:4], "little")
    return replace(page, body=levels + body[:at] + _mutate_values(rng, body[at:], page))


def _with_body(page: Page, body: bytes) -> Page:
    return replace(page, body=body, level_bytes=min(page.level_bytes, len(body)))


def _mutate_values(rng: random.Random, values: bytes, page: Page) -> bytes:
    """What follows the levels: codes behind a bit width, texts behind their lengths, numbers."""
    encoding = page.fields[4 if 8 in page.header else 2][1]
    if encoding in (2, 8) and 7 not in page.header:
        kind = rng.random()
        width = values[0] if values else 0
        if kind < 0.3:
            return bytes([rng.choice(BYTES)]) + values[1:]
        if kind < 0.8:
            width = rng.choice([width, rng.randint(0, 33)])
            return bytes([width]) + _runs(rng, page.row_count, width)
        return values[:1] + mutate_bytes(rng, values[1:])
    if encoding == 3:
        return mutate_bytes(rng, values[:4]) + _runs(rng, page.row_count, 1)
    if encoding in (5, 6, 7):
        return _mutate_deltas(rng, values, page)
    starts = []
    at = 0
    while at + 4 <= len(values):
        starts.append(at)
        at += 4 + int.from_bytes(values[at : at + 4], "little")
    if not starts:
        return mutate_bytes(rng, values)
    at = rng.choice([starts[0], starts[-1], rng.choice(starts)])
    left = len(values) - at - 4
    claimed = rng.choice([*INTEGERS, 12, 13, left - 1, left, left + 1, left - 4, left - 5, -1, -4])
    return values[:at] + (claimed & 0xFFFFFFFF).to_bytes(4, "little") + values[at + 4 :]


def _mutate_deltas(rng: random.Random, values: bytes, page: Page) -> bytes:
    """The header of a sequence of differences, the widths of its first block, or anything."""
    kind = rng.random()
    numbers, at = [], 0
    while len(numbers) < 5 and at < len(values):  # block, mini-blocks, count, first, least
        start = at
        while at < len(values) and values[at] & 0x80:
            at += 1
        at += 1
        numbers.append(values[start:at])
    if kind < 0.4 and numbers:
        near = [page.row_count - 1, page.row_count, page.row_count + 1, 2**32, 2**63, 2**64 - 1]
        numbers[rng.randrange(len(numbers))] = _varint(rng.choice([*INTEGERS, *near, 96]))
        return b"".join(numbers) + values[at:]
    if kind < 0.7 and numbers:
        widths = bytes(rng.choice(WIDTHS) for _ in range(4))
        more = rng.randbytes(rng.choice([0, 0, 7, 8, 300]))
        return values[:at] + widths + values[at + 4 :] + more
    return mutate_bytes(rng, values)


def _runs(rng: random.Random, count: int, width: int) -> bytes:
    """Runs that come to about `count` values: repeated, packed, empty, too long, cut off."""
    out = bytearray()
    left = count
    while left > 0 and len(out) < 5000:
        take = min(left, rng.choice([1, 7, 8, 9, 30, 64, 1024, 2000, left]))
        bytes_of = (width + 7) // 8
        kind = rng.random()
        if kind < 0.05:
            out += _varint(rng.choice([0, 1]))
            take = 0
        elif kind < 0.1:
            out += _varint(
                rng.choice([2**31, 2**32 - 1, 2**34, 2**35 - 1, 2**36, 2**69]) | rng.randint(0, 1)
            )
        elif kind < 0.5:
            value = rng.randrange(1 << width) if rng.random() < 0.5 else rng.randint(0, 1)
            out += _varint(take << 1) + (value & ((1 << 32) - 1)).to_bytes(5, "little")[:bytes_of]
        else:
            groups = (take + 7) // 8
            small = rng.random() < 0.6
            packed = bytes(groups * width) if small else rng.randbytes(groups * width)
            out += _varint(groups << 1 | 1) + packed
            take = groups * 8
        left -= take
        if not take and rng.random() < 0.1:
            break
    return bytes(out[: rng.randint(0, len(out))] if rng.random() < 0.2 else out)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def mutate_header(rng: random.Random, header: Struct) -> Struct:
    """A field with another value, of another type, gone, or one more."""
    changed = _copy(header)
    inner = [i for i in (5, 7, 8) if i in changed]
    target = changed[inner[0]][1] if inner and rng.random() < 0.7 else changed
    kind = rng.random()
    ids = list(target)
    if not ids or kind < 0.1:
        junk: Struct = {1: (Kind.I32, 1), 9: (Kind.LIST, (Kind.I32, [1, 2, 3]))}
        number = rng.choice([9, 20, 100, 32_767, -5])
        target[number] = rng.choice(
            [
                (Kind.BINARY, rng.randbytes(9)),
                (Kind.STRUCT, junk),
                (Kind.LIST, (Kind.STRUCT, [junk, junk])),
                (Kind.DOUBLE, 1.5),
                (Kind.I64, 2**62),
                (Kind.BOOL, True),
            ]
        )
        return changed
    number = rng.choice(ids)
    kind_of, value = target[number]
    if kind < 0.2:
        del target[number]
    elif kind < 0.3:
        target[number] = (Kind.I64, rng.choice([2**31, 2**62, -(2**63), 5]))
    elif kind_of is Kind.I32:
        near = [value - 1, value + 1, value * 2]
        new = rng.choice([*INTEGERS, *near, -1, -(2**31), rng.randint(0, 9)])
        target[number] = (Kind.I32, max(-(2**31), min(2**31 - 1, new)))
    elif kind_of is Kind.BOOL:
        target[number] = (Kind.BOOL, not value)
    return changed


def _copy(struct: Struct) -> Struct:
    return {
        number: (kind, _copy(value) if kind is Kind.STRUCT else value)
        for number, (kind, value) in struct.items()
    }


def _write_page(page: Page, codec: str | None, change: Callable[[Struct], Struct] | None) -> bytes:
    """The page as it stands in a file; sizes are right unless `change` makes them wrong."""
    packed = page.body
    levels = page.level_bytes
    header = _copy(page.header)
    is_compressed = 8 not in header or header[8][1].get(7, (Kind.BOOL, True))[1]
    if codec is not None and is_compressed and len(packed) > levels:
        values = pa.Codec(PYARROW_CODECS[codec]).compress(packed[levels:])
        packed = packed[:levels] + values.to_pybytes()
    header[2] = (Kind.I32, len(page.body))
    header[3] = (Kind.I32, len(packed))
    if 8 in header:
        header[8][1][5] = (Kind.I32, levels)
    if change is not None:
        header = change(header)
    return write_typed(header) + packed


def mutate_chunk(rng: random.Random, source: Source) -> Laid:
    """The pages of a file with damage to one or two of them, and to claims about their rows."""
    everything = [*([source.dictionary] if source.dictionary else []), *source.pages]
    damaged = {rng.randrange(len(everything)) for _ in range(rng.choice([1, 1, 2]))}
    if source.dictionary and rng.random() < 0.2:
        damaged.add(0)
    # A quarter of the damage to compressed files is done to what the codec has made.
    is_late = source.codec is not None and rng.random() < 0.25
    pieces, counts = [], []
    for number, original in enumerate(everything):
        page, change = original, None
        if number in damaged:
            kind = rng.random()
            if not is_late and kind < 0.75:
                page = mutate_body(rng, page, source)
            if kind > 0.65:
                change = functools.partial(mutate_header, rng)
            if rng.random() < 0.1:
                page = _with_count(page, rng.choice([*COUNTS, page.row_count + 1]))
        is_same = page is original and change is None
        piece = original.raw if is_same else _write_page(page, source.codec, change)
        if number in damaged and (is_late or rng.random() < 0.08):
            piece = mutate_bytes(rng, piece)
        pieces.append(piece)
        counts.append(page.row_count)
    starts = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces])[:-1]]).tolist()
    data = b"".join(pieces)
    if source.dictionary:
        del starts[0], counts[0]
    ends = np.cumsum(counts).tolist()
    laid = Laid(
        data=data,
        dictionary_start=0 if source.dictionary else None,
        starts=starts,
        first_rows=[0, *ends[:-1]],
        row_ends=ends,
    )
    return _mutate_rows(rng, laid) if rng.random() < 0.06 else laid


def _with_count(page: Page, count: int) -> Page:
    header = _copy(page.header)
    fields = next(header[i][1] for i in (5, 7, 8) if i in header)
    fields[1] = (Kind.I32, count)
    return replace(page, header=header, row_count=count)


def _mutate_rows(rng: random.Random, laid: Laid) -> Laid:
    """Wrong places and rows: those come from the file as well."""
    lists = {
        "starts": list(laid.starts),
        "first_rows": list(laid.first_rows),
        "row_ends": list(laid.row_ends),
    }
    for _ in range(rng.randint(1, 3)):
        numbers = rng.choice(list(lists.values()))
        at = rng.randrange(len(numbers))
        kind = rng.random()
        if kind < 0.4:
            numbers[at] = max(-5, min(2**62, numbers[at])) + rng.choice([-1, 1, 5, -5])
        elif kind < 0.7:
            numbers[at] = rng.choice([0, -1, -2, 2**31, 2**40, len(laid.data), 2**63 - 1, -(2**63)])
        else:
            other = rng.randrange(len(numbers))
            numbers[at], numbers[other] = numbers[other], numbers[at]
    return replace(laid, **lists)


def mutate_file(rng: random.Random, source: Source) -> bytes:
    """The file with damage to the pages of `c`; nothing moves."""
    data = bytearray(source.scanned)
    metadata = pq.read_metadata(io.BytesIO(source.scanned))
    for _ in range(rng.choice([1, 1, 2])):
        chunk = metadata.row_group(rng.randrange(metadata.num_row_groups)).column(0)
        first = chunk.dictionary_page_offset or chunk.data_page_offset
        last = first + chunk.total_compressed_size
        start = rng.randrange(first, last)
        stop = min(last, start + rng.choice([1, 8, 60, 1 << 20]))
        data[start:stop] = mutate_bytes(rng, bytes(data[start:stop]), keep_size=True)
    return bytes(data)
