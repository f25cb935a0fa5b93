"""Small Parquet files of many kinds, questions about them, and the ways to damage a whole file.

In: a `random.Random`. Out: a `BaseFile`; a `Question`; the bytes of the file with damage in them,
and in words what was done.

1. A base file is drawn from a number, so that a process makes each of them once: types, codecs,
   page versions, encodings, nested columns, nulls, bloom filters, page indexes, checksums. Where
   a corpus of files by other writers is at hand, some of the base files come from there.
2. Bytes are damaged where they stand: flipped, filled, swapped, repeated; or the file is cut.
3. Or a structure is parsed, one of its fields changed, and written again: the footer, a header,
   an offset index, a column index, the header of a bloom filter. A structure that grew is laid at
   the end of the file, and the footer says where it is. So the damage is not noticed for another
   reason than its own.
"""

from __future__ import annotations

import functools
import io
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from lm_datafusion.formats.parquet.thrift import Kind
from tests.footers import read_typed, write_typed
from tests.parquet_files import CORPUS_FILES
from tests.property.cases import (
    Column,
    draw_atom,
    draw_scan_options,
    draw_table,
    draw_write_options,
)
from tests.property.mutated_pages import mutate_bytes, mutate_header

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.footers import Struct

BASES = 100
QUESTIONS = 3
LEAST_ROWS = 10
LARGEST_CORPUS_FILE = 40_000
LARGEST_PAGE = 1 << 24
# Numbers of `Codec` in a footer, and pyarrow's names for them.
CODECS = {1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}
HOSTILE = [0, 1, -1, 2, 7, 255, 2**15, 2**16, 2**20, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**32]
HOSTILE += [-(2**31), 2**40, 2**62, 2**63 - 1, -(2**63)]


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """What a reader is asked: columns, and a condition in SQL or none."""

    columns: list[str]
    condition: str | None
    options: dict[str, Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class BaseFile:
    """A file that is whole, and where its parts are: (start, stop) by kind."""

    name: str
    data: bytes
    questions: list[Question]
    regions: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def is_repeated(self, columns: list[str]) -> bool:
        """Whether one of some columns has lists or maps."""
        schema = pq.read_schema(pa.BufferReader(self.data))
        return any(_is_repeated(schema.field(name).type) for name in columns)


def draw_base(rng: random.Random) -> BaseFile:
    """One of the base files; of the corpus, where there is one, now and then."""
    number, is_foreign = rng.randrange(BASES), rng.random() < 0.15
    foreign = small_corpus_files() if is_foreign else []
    return read_base(foreign[number % len(foreign)]) if foreign else make_base(number)


@functools.cache
def small_corpus_files() -> list[str]:
    """Paths of files by other writers that are small, unpacked too."""
    small = [str(path) for path in CORPUS_FILES if path.stat().st_size <= LARGEST_CORPUS_FILE]
    return [path for path in small if _unpacked_bytes(path) <= 10 * LARGEST_CORPUS_FILE]


def _unpacked_bytes(path: str) -> int:
    metadata = pq.read_metadata(path)
    return sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))


@functools.lru_cache(maxsize=BASES)
def make_base(number: int) -> BaseFile:
    """The file that a number stands for."""
    rng = random.Random(number)
    table, columns = draw_table(rng)
    while table.num_rows < LEAST_ROWS:
        table, columns = draw_table(rng)
    options = draw_write_options(rng, table)
    # A file of few row groups and pages is damaged, written and read in a few milliseconds.
    options["row_group_size"] = max(1, table.num_rows // rng.choice([1, 2, 3]))
    options["max_rows_per_page"] = rng.choice([20, 50, 1000])
    options["data_page_size"] = rng.choice([200, 1 << 20])
    options["write_batch_size"] = rng.choice([20, 1024])
    options["write_page_checksum"] = rng.random() < 0.2
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    data = sink.getvalue()
    questions = [_draw_question(rng, table.schema.names, columns) for _ in range(QUESTIONS)]
    return BaseFile(
        name=f"base {number}", data=data, questions=questions, regions=find_regions(data)
    )


@functools.lru_cache(maxsize=64)
def read_base(path: str) -> BaseFile:
    """A file of the corpus."""
    with open(path, "rb") as file:
        data = file.read()
    rng = random.Random(path)
    schema = pq.read_schema(io.BytesIO(data))
    columns = [
        Column(name=f.name, data_type=f.type, values=[], domain=[])
        for f in schema
        if not pa.types.is_nested(f.type)
    ]
    names = list(dict.fromkeys(schema.names))
    questions = [_draw_question(rng, names, columns) for _ in range(QUESTIONS)]
    try:
        regions = find_regions(data)
    except (IndexError, KeyError, ValueError):
        regions = {"file": [(0, len(data))]}
    return BaseFile(name=path, data=data, questions=questions, regions=regions)


def _draw_question(rng: random.Random, names: list[str], columns: list[Column]) -> Question:
    condition = None
    if columns and rng.random() < 0.75:
        usable = [c for c in columns if c.domain or rng.random() < 0.5] or columns
        parts = [_draw_atom(rng, usable) for _ in range(rng.choice([1, 1, 2, 3]))]
        condition = " AND ".join(f"({part})" for part in parts)
    count = len(names) if rng.random() < 0.4 else rng.randint(1, len(names))
    # Windows of a few rows take long where PyArrow has to read a chunk whole for each of them.
    options = draw_scan_options(rng) | {
        "window_bytes": rng.choice([4000, 1 << 24]),
        "batch_rows": rng.choice([50, 1 << 17]),
    }
    return Question(columns=rng.sample(names, count), condition=condition, options=options)


def _draw_atom(rng: random.Random, columns: list[Column]) -> str:
    known = [c for c in columns if c.domain and not _is_repeated(c.data_type)]
    if known:
        return draw_atom(rng, known)
    name = rng.choice(columns).name.replace('"', '""')
    return f'"{name}" IS {rng.choice(["NOT ", ""])}NULL'


def _is_repeated(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_list(data_type) or pa.types.is_map(data_type))


# --- where the parts are --------------------------------------------------------------------------


def footer_start(data: bytes) -> int:
    return len(data) - 8 - int.from_bytes(data[-8:-4], "little")


def chunks_in(footer: Struct) -> list[Struct]:
    """The `ColumnChunk`s of all row groups."""
    return [chunk for group in footer[4][1][1] for chunk in group[1][1][1]]


def chunk_span(chunk: Struct) -> tuple[int, int]:
    metadata = chunk[3][1]
    offsets = [metadata[i][1] for i in (9, 11) if i in metadata and metadata[i][1]]
    start = min(offsets, default=0)
    return start, start + metadata[7][1]


def pages_in(data: bytes, start: int, stop: int) -> Iterator[tuple[Struct, int, int, int]]:
    """Of each page: its header, where that begins, where the body begins, and where it ends."""
    while start < stop:
        header, body = read_typed(data, start)
        end = body + header[3][1]
        yield header, start, body, end
        start = end


def find_regions(data: bytes) -> dict[str, list[tuple[int, int]]]:
    """By kind of structure: where its bytes are."""
    at = footer_start(data)
    footer, _ = read_typed(data, at)
    found: dict[str, list[tuple[int, int]]] = {
        "footer": [(at, len(data) - 8)],
        "tail": [(len(data) - 8, len(data))],
        "file": [(0, len(data))],
    }

    def note(kind: str, start: int, stop: int) -> None:
        if start < stop:
            found.setdefault(kind, []).append((start, stop))

    for chunk in chunks_in(footer):
        for kind, offset, length in (("offset index", 4, 5), ("column index", 6, 7)):
            if offset in chunk:
                note(kind, chunk[offset][1], chunk[offset][1] + chunk[length][1])
        metadata = chunk[3][1]
        if 14 in metadata:
            start = metadata[14][1]
            note("bloom filter", start, start + metadata.get(15, (0, 40))[1])
        for _, start, body, stop in pages_in(data, *chunk_span(chunk)):
            note("page header", start, body)
            note("page", body, stop)
    return found


# --- damage -------------------------------------------------------------------------------------


def damage_file(rng: random.Random, base: BaseFile) -> tuple[bytes, str]:
    """The file with one to three kinds of damage, and what they are."""
    data, done = base.data, []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        kind, change = rng.choice(_STRUCTURED) if rng.random() < 0.65 else rng.choice(_RAW)
        try:
            data = change(rng, data, base)
            done.append(kind)
        except Exception:  # noqa: BLE001
            # Damage that came before left nothing to damage so, or the file has no such part.
            data = _damage_region(rng, data, base)
            done.append(f"bytes, not {kind}")
    return data, ", ".join(done)


def _damage_region(rng: random.Random, data: bytes, base: BaseFile) -> bytes:
    """Damages bytes of one kind of structure where they stand."""
    if not data:
        return data
    start, stop = rng.choice(base.regions[rng.choice(list(base.regions))])
    stop = min(stop, len(data))
    if start >= stop:
        start = 0
    start = rng.randrange(start, stop)
    stop = min(stop, start + rng.choice([1, 2, 8, 60, 1000]))
    damaged = mutate_bytes(rng, data[start:stop], keep_size=True)
    return data[:start] + damaged + data[stop:]


def _cut_end(rng: random.Random, data: bytes, _base: BaseFile) -> bytes:
    return data[: rng.choice([rng.randrange(len(data)), max(0, len(data) - rng.randint(1, 20))])]


def _cut_middle(rng: random.Random, data: bytes, _base: BaseFile) -> bytes:
    """Takes bytes out before the footer; it stays whole, and what it says is wrong."""
    stop = rng.randrange(4, footer_start(data))
    start = max(4, stop - rng.choice([1, 8, 100, len(data)]))
    return data[:start] + data[stop:]


def _insert_middle(rng: random.Random, data: bytes, _base: BaseFile) -> bytes:
    at = rng.randrange(4, footer_start(data))
    return data[:at] + rng.randbytes(rng.choice([1, 8, 100])) + data[at:]


def _swap_ranges(rng: random.Random, data: bytes, base: BaseFile) -> bytes:
    """Two parts of one kind, or any two, as far as the shorter one goes."""
    kind = rng.choice([k for k, found in base.regions.items() if len(found) > 1] or ["file"])
    (a, a_stop), (b, b_stop) = (rng.choice(base.regions[kind]) for _ in range(2))
    if kind == "file":
        a, b = rng.randrange(len(data)), rng.randrange(len(data))
        a_stop = b_stop = len(data)
    a, b, length = min(a, b), max(a, b), min(a_stop - a, b_stop - b, abs(a - b), 5000)
    first, second = data[a : a + length], data[b : b + length]
    return data[:a] + second + data[a + length : b] + first + data[b + length :]


def _zero_range(rng: random.Random, data: bytes, _base: BaseFile) -> bytes:
    start = rng.randrange(len(data))
    stop = min(len(data), start + rng.choice([16, 512, 4096]))
    return data[:start] + bytes(stop - start) + data[stop:]


def _with_footer(data: bytes, footer: Struct, more: bytes = b"") -> bytes:
    """The file with other bytes before its footer, and another footer."""
    encoded = write_typed(footer)
    body = data[: footer_start(data)] + more
    return body + encoded + len(encoded).to_bytes(4, "little") + b"PAR1"


def _change_footer(rng: random.Random, data: bytes, _base: BaseFile) -> bytes:
    footer, _ = read_typed(data, footer_start(data))
    for _ in range(rng.choice([1, 1, 2])):
        change_tree(rng, footer, len(data))
    return _with_footer(data, footer)


def _change_index(ids: tuple[int, int]) -> Callable[[random.Random, bytes, BaseFile], bytes]:
    """Changes an offset index or a column index, by the fields that say where it is."""

    def change(rng: random.Random, data: bytes, _base: BaseFile) -> bytes:
        footer, _ = read_typed(data, footer_start(data))
        chunk = rng.choice([c for c in chunks_in(footer) if ids[0] in c])
        index, _ = read_typed(data, chunk[ids[0]][1])
        change_tree(rng, index, len(data))
        encoded = write_typed(index)
        chunk[ids[0]] = (Kind.I64, footer_start(data))
        chunk[ids[1]] = (Kind.I32, len(encoded))
        return _with_footer(data, footer, encoded)

    return change


def _change_bloom(rng: random.Random, data: bytes, _base: BaseFile) -> bytes:
    footer, _ = read_typed(data, footer_start(data))
    metadata = rng.choice([c[3][1] for c in chunks_in(footer) if 14 in c[3][1]])
    header, stop = read_typed(data, metadata[14][1])
    bitset = data[stop : stop + header[1][1]]
    change_tree(rng, header, len(data))
    encoded = write_typed(header) + bitset
    metadata[14] = (Kind.I64, footer_start(data))
    metadata[15] = (Kind.I32, len(encoded))
    return _with_footer(data, footer, encoded)


def _change_page(rng: random.Random, data: bytes, _base: BaseFile) -> bytes:
    """Changes a header, or a body before it is compressed, and lays the chunk at the end."""
    footer, _ = read_typed(data, footer_start(data))
    chunk = rng.choice(chunks_in(footer))
    metadata = chunk[3][1]
    pages = list(pages_in(data, *chunk_span(chunk)))
    wanted = rng.randrange(len(pages))
    codec = CODECS.get(metadata[4][1])
    at, offsets, sizes, pieces = footer_start(data), [], [], []
    for number, (header, start, body, stop) in enumerate(pages):
        piece = data[start:stop]
        if number == wanted:
            piece = _changed_page(rng, header, data[body:stop], codec)
        if 7 in header:
            metadata[11] = (Kind.I64, at)
        else:
            offsets.append(at)
            sizes.append(len(piece))
        pieces.append(piece)
        at += len(piece)
    more = b"".join(pieces)
    if offsets:
        metadata[9] = (Kind.I64, offsets[0])
    metadata[7] = (Kind.I64, len(more))
    if 4 in chunk:
        more += _moved_index(rng, data, chunk, offsets, sizes, at)
    return _with_footer(data, footer, more)


def _moved_index(
    rng: random.Random, data: bytes, chunk: Struct, offsets: list[int], sizes: list[int], at: int
) -> bytes:
    """The offset index of a chunk whose pages have moved; it may be gone, too."""
    index, _ = read_typed(data, chunk[4][1])
    if rng.random() < 0.3:
        for number in (4, 5, 6, 7):
            chunk.pop(number, None)
        return b""
    for location, offset, size in zip(index[1][1][1], offsets, sizes, strict=True):
        location[1] = (Kind.I64, offset)
        location[2] = (Kind.I32, size)
    encoded = write_typed(index)
    chunk[4], chunk[5] = (Kind.I64, at), (Kind.I32, len(encoded))
    return encoded


def _changed_page(rng: random.Random, header: Struct, body: bytes, codec: str | None) -> bytes:
    kind = rng.random()
    header.pop(4, None)  # the checksum would not be right
    if kind < 0.6:
        levels = 0
        if 8 in header:
            levels = header[8][1][5][1] + header[8][1][6][1]
            codec = codec if header[8][1].get(7, (Kind.BOOL, True))[1] else None
        values = body[levels:]
        size = header[2][1] - levels
        # An earlier change may have made a header claim gigabytes, which PyArrow would make room
        # for here, in the process whose memory is watched.
        codec = codec if 0 <= size <= LARGEST_PAGE else None
        if codec is not None and values:
            values = pa.Codec(codec).decompress(values, size, asbytes=True)
        plain = mutate_bytes(rng, body[:levels] + values, keep_size=rng.random() < 0.5)
        levels = min(levels, len(plain))
        header[2] = (Kind.I32, len(plain))
        values = plain[levels:]
        if codec is not None and values:
            values = pa.Codec(codec).compress(values, asbytes=True)
        body = plain[:levels] + values
        header[3] = (Kind.I32, len(body))
    if kind > 0.5:
        header = mutate_header(rng, header)
    return write_typed(header) + body


_STRUCTURED: list[tuple[str, Callable[[random.Random, bytes, BaseFile], bytes]]] = [
    *[("footer field", _change_footer)] * 3,
    *[("page", _change_page)] * 3,
    ("offset index field", _change_index((4, 5))),
    ("column index field", _change_index((6, 7))),
    ("bloom filter header", _change_bloom),
]
_RAW: list[tuple[str, Callable[[random.Random, bytes, BaseFile], bytes]]] = [
    *[("bytes", _damage_region)] * 6,
    ("end cut off", _cut_end),
    ("middle cut out", _cut_middle),
    ("bytes inserted", _insert_middle),
    ("ranges swapped", _swap_ranges),
    ("zeros", _zero_range),
]


# --- trees --------------------------------------------------------------------------------------


def change_tree(rng: random.Random, struct: Struct, size: int) -> None:
    """Changes one field or element; those of rare kinds as often as those of frequent ones."""
    slots: dict[tuple[Any, ...], list[tuple[Any, Any, Kind]]] = {}
    _collect(struct, (), slots)
    container, key, kind = rng.choice(slots[rng.choice(list(slots))])
    is_field = isinstance(container, dict)
    value = container[key][1] if is_field else container[key]
    chance = rng.random()
    if chance < 0.1:
        del container[key]
        return
    if chance < 0.15 and is_field:
        container[key] = rng.choice(
            [(Kind.I64, 2**40), (Kind.BINARY, b"x"), (Kind.BOOL, True), (Kind.STRUCT, {})]
        )
        return
    if chance < 0.2 and not is_field:
        container.insert(key, value)
        return
    new = _changed(rng, kind, value, size)
    container[key] = (kind, new) if is_field else new


def _collect(value: Any, path: tuple[Any, ...], slots: dict[tuple[Any, ...], Any]) -> None:
    """Every field and element of a struct, by the ids on the way to it."""
    for number, (kind, inner) in value.items():
        here = (*path, number)
        slots.setdefault(here, []).append((value, number, kind))
        if kind is Kind.STRUCT:
            _collect(inner, here, slots)
        elif kind is Kind.LIST:
            element_kind, elements = inner
            for at, element in enumerate(elements):
                slots.setdefault((*here, "element"), []).append((elements, at, element_kind))
                if element_kind is Kind.STRUCT:
                    _collect(element, (*here, "element"), slots)


def _changed(rng: random.Random, kind: Kind, value: Any, size: int) -> Any:
    if kind in (Kind.I8, Kind.I16, Kind.I32, Kind.I64):
        near = [value - 1, value + 1, value * 2, value // 2, -value, size, size - 1]
        new = rng.choice([*HOSTILE, *near, *near, rng.randint(0, 9)])
        bits = {Kind.I8: 7, Kind.I16: 15, Kind.I32: 31, Kind.I64: 63}[kind]
        return max(-(2**bits), min(2**bits - 1, new))
    if kind is Kind.BOOL:
        return not value
    if kind is Kind.BINARY:
        return rng.choice([b"", mutate_bytes(rng, value or b"a"), value * 3, rng.randbytes(9)])
    if kind is Kind.LIST:
        elements = rng.choice([[], value[1] * 2, value[1][1:], value[1][:1] * 60])
        return value[0], elements
    if kind is Kind.STRUCT:
        return rng.choice([{}, {1: (Kind.STRUCT, value)}])
    return value
