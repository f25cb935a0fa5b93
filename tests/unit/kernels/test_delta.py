"""Pages that are unpacked to PLAIN ones: the delta encodings and BYTE_STREAM_SPLIT."""

from __future__ import annotations

import io
import itertools
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lm_datafusion.kernels.columns import TEXT_IN, TEXT_LENGTH, TEXT_LIKE, IntTest, TextTest
from lm_datafusion.kernels.pages import PageError, TextError, UnsupportedPageError
from tests.kernel_chunks import (
    CODECS,
    ROW_KINDS,
    Chunk,
    data_page,
    dictionary_page,
    plain_text,
    random_runs,
    some_rows,
    varint,
)
from tests.parquet_files import write_parquet

ROWS = 700
PLAIN, NUMBERS, LENGTHS, TEXTS, CODES, STREAMS = 0, 5, 6, 7, 8, 9
NAMES = {
    NUMBERS: "DELTA_BINARY_PACKED",
    LENGTHS: "DELTA_LENGTH_BYTE_ARRAY",
    TEXTS: "DELTA_BYTE_ARRAY",
    STREAMS: "BYTE_STREAM_SPLIT",
}
LT = 2
INT32, INT64 = 2, 3  # as `IntTest` counts types


def whole(bits, *, signed=True):
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)

    def draw(rng):
        if rng.random() < 0.1:
            return [low, high, 0][rng.integers(3)]
        near = low + (high - low) // 3
        return int(near + rng.integers(0, min(high - near, 90)))

    return draw


def words(rng):
    stem = ["", "https://", "https://example.org/ж/", "日本", "x" * 300][rng.integers(5)]
    return stem + "".join(map(chr, rng.integers(0x400, 0x440, rng.integers(0, 12))))


def numbers(rng):
    return [math.nan, -0.0, math.inf, float(rng.normal())][rng.integers(4)]


# By name: a type, how to draw a value, the encodings it may have.
TYPES = {
    "int8": (pa.int8(), whole(8), [NUMBERS, STREAMS]),
    "int16": (pa.int16(), whole(16), [NUMBERS]),
    "int32": (pa.int32(), whole(32), [NUMBERS, STREAMS]),
    "int64": (pa.int64(), whole(64), [NUMBERS, STREAMS]),
    "uint8": (pa.uint8(), whole(8, signed=False), [NUMBERS]),
    "uint32": (pa.uint32(), whole(32, signed=False), [NUMBERS, STREAMS]),
    "uint64": (pa.uint64(), whole(64, signed=False), [NUMBERS]),
    "date32": (pa.date32(), whole(18), [NUMBERS, STREAMS]),
    "time32": (pa.time32("ms"), whole(26, signed=False), [NUMBERS]),
    "timestamp us": (pa.timestamp("us", "UTC"), whole(52), [NUMBERS, STREAMS]),
    "timestamp ns": (pa.timestamp("ns"), whole(60), [NUMBERS]),
    "decimal of 9": (pa.decimal128(9, 2), lambda rng: int(rng.integers(-999, 999)), [NUMBERS]),
    "decimal of 18": (pa.decimal128(18, 4), lambda rng: int(rng.integers(-999, 999)), [STREAMS]),
    "float": (pa.float32(), numbers, [STREAMS]),
    "double": (pa.float64(), numbers, [STREAMS]),
    "float16": (pa.float16(), lambda rng: np.float16(numbers(rng)), [STREAMS]),
    "string": (pa.string(), words, [LENGTHS, TEXTS]),
    "string view": (pa.string_view(), words, [LENGTHS, TEXTS]),
    "binary": (pa.binary(), lambda rng: rng.bytes(rng.integers(0, 40)), [LENGTHS, TEXTS]),
    "3 bytes": (pa.binary(3), lambda rng: b"a" + rng.bytes(2), [TEXTS, STREAMS]),
    "40 bytes": (pa.binary(40), lambda rng: b"a" * 30 + rng.bytes(10), [TEXTS, STREAMS]),
}
ENCODED = [
    pytest.param(kind, encoding, id=f"{kind} {NAMES[encoding]}")
    for kind, (_, _, encodings) in TYPES.items()
    for encoding in encodings
]


def make_array(rng, kind, row_count=ROWS, *, nullable=False):
    data_type, draw, _ = TYPES[kind]
    values = [draw(rng) for _ in range(row_count)]
    if not rng.integers(3):
        values.sort(key=str)
    if nullable:
        values = [None if rng.random() < 0.3 else value for value in values]
        values[:40] = [None] * len(values[:40])
    if pa.types.is_temporal(data_type):
        storage = pa.int32() if data_type.bit_width == 32 else pa.int64()
        return pa.array(values, storage).cast(data_type)
    return pa.array(values, data_type)


def make_file(array, encoding, *, nullable=False, **options):
    schema = pa.schema([pa.field("c", array.type, nullable=nullable)])
    return write_parquet(
        pa.table([array], schema=schema),
        use_dictionary=False,
        column_encoding={"c": NAMES[encoding]},
        store_decimal_as_integer=True,
        **options,
    )


def bits_of(array):
    """Values whose equality is that of their bits."""
    if pa.types.is_floating(array.type):
        array = pa.concat_arrays([array]).view(
            {16: "uint16", 32: "uint32"}.get(array.type.bit_width, "uint64")
        )
    return array.to_pylist()


def check_rows(chunk, array, rng):
    """Every kind of selection, at once and in parts that begin in the page that was kept."""
    expected = bits_of(array)
    for kind in ROW_KINDS:
        rows = some_rows(rng, chunk.row_count, kind)
        wanted = np.arange(chunk.row_count) if rows is None else rows
        found = chunk.read(rows)
        found.validate(full=True)
        assert bits_of(found) == [expected[row] for row in wanted.tolist()]
        cuts = np.sort(rng.integers(0, chunk.row_count + 1, 5)).tolist()
        for start, stop in itertools.pairwise([0, *cuts, chunk.row_count]):
            part = None if rows is None else rows[(rows >= start) & (rows < stop)]
            found = chunk.read(part, start, stop)
            wanted = range(start, stop) if part is None else part.tolist()
            assert bits_of(found) == [expected[row] for row in wanted]


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("nullable", [False, True], ids=["required", "nullable"])
@pytest.mark.parametrize(("kind", "encoding"), ENCODED)
def test_values_of_rows(kind, encoding, nullable, version):
    rng = np.random.default_rng([*map(ord, kind), encoding, nullable, int(version[0])])
    array = make_array(rng, kind, nullable=nullable)
    codec = list(CODECS)[rng.integers(len(CODECS))]
    data = make_file(
        array,
        encoding,
        nullable=nullable,
        compression=codec,
        data_page_version=version,
        max_rows_per_page=[1, 33, 129, 10_000][rng.integers(4)],
    )
    chunk = Chunk.of(data, codec=codec)
    assert chunk.encodings == {encoding}
    check_rows(chunk, pq.read_table(io.BytesIO(data)).column(0).combine_chunks(), rng)


@pytest.mark.parametrize("codec", ["none", "snappy"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("nullable", [False, True], ids=["required", "nullable"])
@pytest.mark.parametrize("encoding", NAMES)
def test_one_page_in_many_parts(encoding, nullable, version, codec):
    """A page that was kept is not unpacked twice, nor taken for one that is still packed."""
    kind = next(kind for kind, (_, _, known) in TYPES.items() if encoding in known)
    rng = np.random.default_rng(7)
    array = make_array(rng, kind, nullable=nullable)
    options = {"nullable": nullable, "compression": codec, "data_page_version": version}
    chunk = Chunk.of(make_file(array, encoding, **options), codec=codec)
    assert len(chunk.headers) == 1
    for start in [*range(0, ROWS, 37), 400, 200, 0, 650, 250, 250]:
        part = np.arange(start, min(ROWS, start + 37), dtype=np.int32)
        assert bits_of(chunk.read(part)) == bits_of(array)[start : start + 37]
        assert chunk.reader.kept_page == (-1 if start + 37 >= ROWS else 0)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("row_count", [1, 2, 32, 33, 34, 128, 129, 130, 257])
@pytest.mark.parametrize("encoding", NAMES)
def test_few_values(encoding, row_count, version):
    kind = next(kind for kind, (_, _, known) in TYPES.items() if encoding in known)
    rng = np.random.default_rng(row_count)
    for nullable in (False, True):
        array = make_array(rng, kind, row_count, nullable=nullable)
        data = make_file(array, encoding, nullable=nullable, data_page_version=version)
        chunk = Chunk.of(data, codec="snappy")
        assert chunk.encodings == {encoding}
        assert bits_of(chunk.read()) == bits_of(array)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize(("kind", "encoding"), ENCODED)
def test_nothing_but_nulls(kind, encoding, version):
    array = pa.nulls(ROWS, TYPES[kind][0])
    data = make_file(array, encoding, nullable=True, data_page_version=version)
    chunk = Chunk.of(data, codec="snappy")
    assert chunk.read().to_pylist() == [None] * ROWS
    assert chunk.read(None, 5, 9).to_pylist() == [None] * 4


def test_extremes():
    for bits, data_type in ((32, pa.int32()), (64, pa.int64())):
        low, high = -(1 << bits - 1), (1 << bits - 1) - 1
        for values in ([low, high] * 200, [high, low, 0] * 100, [low], [high, high], [0, low, -1]):
            array = pa.array(values, data_type)
            for encoding in (NUMBERS, STREAMS):
                chunk = Chunk.of(make_file(array, encoding), codec="snappy")
                assert chunk.read().to_pylist() == values


@pytest.mark.parametrize("width", range(65))
def test_differences_of_every_width(width):
    """Of both integers; the last page ends with the last byte that a value needs."""
    rng = np.random.default_rng(width)
    for bits, data_type, name in ((32, pa.int32(), "INT32"), (64, pa.int64(), "INT64")):
        if width > bits:
            continue
        modulus = 1 << bits
        for count in (1, 2, 33, 100, 129, 300):
            gaps = [int.from_bytes(rng.bytes(8), "little") % (1 << width) for _ in range(count - 1)]
            least, first = int(rng.integers(-(2**31), 2**31)), int(rng.integers(-(2**31), 2**31))
            values = [first + least * at + sum(gaps[:at]) for at in range(count)]
            values = [(value + modulus // 2) % modulus - modulus // 2 for value in values]
            for is_padded in (True, False):
                body = delta_body(first, least, gaps, width, is_padded=is_padded)
                page = data_page(body, count, NUMBERS)
                chunk = Chunk(page, physical=name, stored=data_type, nullable=False)
                assert chunk.read().to_pylist() == values


def test_blocks_of_other_sizes():
    rng = np.random.default_rng(3)
    gaps = rng.integers(0, 1 << 11, 999).tolist()
    values = list(itertools.accumulate(gaps, lambda a, b: a + b - 5, initial=9))
    for block, minis in ((32, 1), (128, 1), (256, 4), (2048, 8), (1024, 32), (1 << 20, 1)):
        body = delta_body(9, -5, gaps, 11, block=block, minis=minis)
        page = data_page(body, 1000, NUMBERS)
        chunk = Chunk(page, physical="INT64", stored=pa.int64(), nullable=False)
        assert chunk.read().to_pylist() == values


def test_dictionary_first_and_then_deltas():
    rng = np.random.default_rng(1)
    texts = [b"google", b"", "日本".encode(), b"x" * 40]
    codes = rng.integers(0, 4, 200).tolist()
    pages = dictionary_page(plain_text(texts), 4)
    pages += data_page(bytes([2]) + random_runs(rng, codes, 2), 200, CODES)
    pages += data_page(text_body([b"google", b"goo", b"goose", b"g"]), 4, TEXTS)
    pages += data_page(lengths_body([b"google", b"ab"]), 2, LENGTHS)
    pages += data_page(plain_text([b"end"]), 1, PLAIN)
    values = [texts[code] for code in codes]
    values += [b"google", b"goo", b"goose", b"g", b"google", b"ab", b"end"]
    for stored in (pa.string(), pa.string_view(), pa.binary(), pa.binary_view()):
        chunk = Chunk(pages, physical="BYTE_ARRAY", stored=stored, nullable=False)
        array = pa.array([v if "binary" in str(stored) else v.decode() for v in values], stored)
        check_rows(chunk, array, rng)
        found, held = chunk.filter(TextTest(TEXT_LIKE, [b"goo"]), is_held=True)
        matching = [row for row, value in enumerate(values) if b"goo" in value]
        assert found.tolist() == matching
        assert held.to_pylist() == [array[row].as_py() for row in matching]


@pytest.mark.parametrize("nullable", [False, True], ids=["required", "nullable"])
@pytest.mark.parametrize("encoding", [NUMBERS, STREAMS])
def test_conditions_on_numbers(encoding, nullable):
    rng = np.random.default_rng(5)
    for kind, number in (("int32", INT32), ("int64", INT64)):
        array = make_array(rng, kind, nullable=nullable)
        data = make_file(array, encoding, nullable=nullable, max_rows_per_page=150)
        chunk = Chunk.of(data, codec="snappy")
        values = array.to_pylist()
        literal = sorted(value for value in values if value is not None)[ROWS // 4]
        for kind_of_rows in ROW_KINDS:
            rows = some_rows(rng, ROWS, kind_of_rows)
            asked = range(ROWS) if rows is None else rows.tolist()
            found, held = chunk.filter(IntTest(number, LT, literal), rows, is_held=True)
            passing = [row for row in asked if values[row] is not None and values[row] < literal]
            assert found.tolist() == passing
            assert held.to_pylist() == [values[row] for row in passing]


@pytest.mark.parametrize("nullable", [False, True], ids=["required", "nullable"])
@pytest.mark.parametrize("encoding", [LENGTHS, TEXTS])
def test_conditions_on_text(encoding, nullable, simd):
    rng = np.random.default_rng(6)
    array = make_array(rng, "string", nullable=nullable)
    chunk = Chunk.of(make_file(array, encoding, nullable=nullable), codec="snappy")
    values = array.to_pylist()
    known = next(value for value in values if value)
    tests = [
        (TextTest(TEXT_LIKE, [b"example"]), lambda value: "example" in value),
        (TextTest(TEXT_IN, [known.encode()]), lambda value: value == known),
        (TextTest(TEXT_LENGTH, operator=LT, length=9), lambda value: len(value.encode()) < 9),
    ]
    for (test, is_right), kind in itertools.product(tests, ROW_KINDS):
        rows = some_rows(rng, ROWS, kind)
        asked = range(ROWS) if rows is None else rows.tolist()
        found, held = chunk.filter(test, rows, is_held=True)
        passing = [row for row in asked if values[row] is not None and is_right(values[row])]
        assert found.tolist() == passing
        assert held.to_pylist() == [values[row] for row in passing]


@pytest.mark.parametrize("encoding", [LENGTHS, TEXTS])
def test_a_character_over_two_values_is_no_text(encoding):
    halves = [b"a", b"\xc3", b"\xa9", b"b"]
    body = (lengths_body if encoding == LENGTHS else text_body)(halves)
    page = data_page(body, 4, encoding)
    for stored in (pa.string(), pa.string_view()):
        chunk = Chunk(page, physical="BYTE_ARRAY", stored=stored, nullable=False)
        with pytest.raises(TextError):
            chunk.read()
        assert chunk.read(np.array([0, 3], np.int32)).to_pylist() == ["a", "b"]
    binary = Chunk(page, physical="BYTE_ARRAY", stored=pa.binary(), nullable=False)
    assert binary.read().to_pylist() == halves


def test_values_that_share_a_part_of_a_character():
    values = ["aж", "aй", "aйж"]
    body = text_body([value.encode() for value in values], is_greedy=True)
    chunk = Chunk(
        data_page(body, 3, TEXTS), physical="BYTE_ARRAY", stored=pa.string(), nullable=False
    )
    assert chunk.read().to_pylist() == values


# --- pages made by hand ---------------------------------------------------------------------------


def zigzag(value: int) -> bytes:
    return varint((value << 1 ^ value >> 63) & 0xFFFF_FFFF_FFFF_FFFF)


def delta_body(first, least, gaps, width, *, block=128, minis=4, is_padded=True, count=None):
    """Differences `gaps` on top of `least`, all packed with one width."""
    count = len(gaps) + 1 if count is None else count
    out = varint(block) + varint(minis) + varint(count) + zigzag(first)
    size = block // minis
    for start in range(0, len(gaps), block):
        out += zigzag(least) + bytes([width]) * minis
        for at in range(start, min(len(gaps), start + block), size):
            part = gaps[at : min(at + size, start + block)]
            bits = sum(gap << index * width for index, gap in enumerate(part))
            padded = size * width // 8
            is_last = at + size >= len(gaps)
            length = padded if is_padded or not is_last else (len(part) * width + 7) // 8
            out += bits.to_bytes(length, "little")
    return out


def numbers_body(values):
    """Small numbers of any sign."""
    gaps = [b - a for a, b in itertools.pairwise(values)]
    least = min(gaps, default=0)
    width = max((gap - least).bit_length() for gap in gaps) if gaps else 0
    return delta_body(values[0], least, [gap - least for gap in gaps], width)


def lengths_body(values):
    return numbers_body([len(value) for value in values]) + b"".join(values)


def text_body(values, *, is_greedy=False):
    """As much as two neighbours share, or nothing."""
    shared = [0]
    for a, b in itertools.pairwise(values):
        same = sum(
            1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False))
        )
        shared.append(same if is_greedy or len(a) > 1 else 0)
    return numbers_body(shared) + lengths_body(
        [value[count:] for value, count in zip(values, shared, strict=True)]
    )


def hostile(body, count, encoding=NUMBERS, *, physical="INT64", length=None):
    stored = {"INT32": pa.int32(), "INT64": pa.int64(), "DOUBLE": pa.float64()}.get(physical)
    if physical == "FIXED_LEN_BYTE_ARRAY":
        stored = pa.binary(length)
    return Chunk(
        data_page(body, count, encoding),
        physical=physical,
        stored=stored or pa.binary(),
        nullable=False,
        length=length,
    )


def header(block, minis, count, first=0):
    return varint(block) + varint(minis) + varint(count) + zigzag(first)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x80",
        b"\xff" * 11,
        header(0, 4, 9),
        header(128, 0, 9),
        header(128, 3, 9),
        header(128, 256, 9),
        header(128, 8, 9),
        header(2**31, 4, 9),
        header(2**64 - 128, 4, 9),
        header(128, 4, 8),
        header(128, 4, 0),
        header(128, 4, 9),
        header(128, 4, 9) + zigzag(0),
        header(128, 4, 9) + zigzag(0) + b"\x01\0\0",
        header(128, 4, 9) + zigzag(0) + b"\x08\0\0\0" + b"\x01" * 7,
        header(128, 4, 9) + zigzag(0) + b"\x41\0\0\0" + b"\x01" * 999,
        header(128, 4, 9) + zigzag(0) + b"\xff\0\0\0" + b"\x01" * 999,
        header(128, 4, 9) + b"\xff" * 10 + b"\x01\0\0\0" + b"\x01" * 999,
        header(2**30, 2**25, 9) + zigzag(0) + b"\0" * 99,
    ],
)
def test_numbers_that_are_malformed(body):
    chunk = hostile(body, 9)
    for rows in (None, np.array([0], np.int32)):
        with pytest.raises(PageError):
            chunk.read(rows)
        with pytest.raises(PageError):
            chunk.filter(IntTest(INT64, LT, 5), rows)
    for encoding in (LENGTHS, TEXTS):
        with pytest.raises(PageError):
            hostile(body, 9, encoding, physical="BYTE_ARRAY").read()


def test_widths_that_the_type_does_not_have():
    body = header(128, 4, 9) + zigzag(0) + b"\x21\0\0\0" + b"\x01" * 999
    assert len(hostile(body, 9).read()) == 9
    with pytest.raises(PageError):
        hostile(body, 9, physical="INT32").read()


def test_widths_of_mini_blocks_that_hold_nothing():
    body = header(128, 4, 3) + zigzag(1) + b"\x00\xff\xfe\xfd"
    assert hostile(body, 3).read().to_pylist() == [0, 1, 2]


def test_more_values_than_rows_are_left_to_pyarrow():
    with pytest.raises(UnsupportedPageError):
        hostile(numbers_body([1, 2, 3, 4]), 3).read()


@pytest.mark.parametrize("encoding", [NUMBERS, LENGTHS, TEXTS])
def test_small_pages_that_claim_very_many_values(encoding):
    """All of them are equal: they need few bytes, and one row is wanted."""
    count = 2**31 - 1
    body = header(2**30, 1, count) + (zigzag(0) + b"\0") * 2
    physical = "INT64" if encoding == NUMBERS else "BYTE_ARRAY"
    with pytest.raises(UnsupportedPageError):
        hostile(body, count, encoding, physical=physical).read(np.array([0], np.int32))
    # Of fewer it is nothing unusual.
    body = header(2**30, 1, 1_000_000, 7) + zigzag(0) + b"\0"
    assert hostile(body, 1_000_000).read(np.array([999_999], np.int32)).to_pylist() == [7]


def test_texts_that_grow_by_the_square_of_the_page():
    count = 60_000
    shared = numbers_body(list(range(count)))
    body = shared + lengths_body([b"x"] * count)
    assert len(body) < 100_000
    with pytest.raises(UnsupportedPageError):
        hostile(body, count, TEXTS, physical="BYTE_ARRAY").read(np.array([0], np.int32))
    # Of fewer it is nothing unusual.
    body = numbers_body(list(range(900))) + lengths_body([b"x"] * 900)
    found = hostile(body, 900, TEXTS, physical="BYTE_ARRAY").read()
    assert found.to_pylist() == [b"x" * length for length in range(1, 901)]


@pytest.mark.parametrize(
    ("shared", "rests"),
    [
        ([1, 0], [b"a", b"b"]),
        ([0, 2], [b"a", b"b"]),
        ([0, -1], [b"a", b"b"]),
        ([0, 2**31 - 1], [b"a", b"b"]),
        ([-(2**31), 0], [b"a", b"b"]),
    ],
)
def test_values_that_share_more_than_there_is(shared, rests):
    body = numbers_body(shared) + lengths_body(rests)
    with pytest.raises(PageError):
        hostile(body, 2, TEXTS, physical="BYTE_ARRAY").read()


@pytest.mark.parametrize("lengths", [[3, 3], [-1, 5], [2**31 - 1, 0], [-(2**31), 2**31 - 1]])
def test_lengths_that_the_page_does_not_have(lengths):
    body = numbers_body(lengths) + b"abcd"
    with pytest.raises(PageError):
        hostile(body, 2, LENGTHS, physical="BYTE_ARRAY").read()
    with pytest.raises(PageError):
        hostile(numbers_body([0, 0]) + body, 2, TEXTS, physical="BYTE_ARRAY").read()


def test_values_of_a_fixed_length_have_it():
    fixed = {"physical": "FIXED_LEN_BYTE_ARRAY", "length": 3}
    assert hostile(text_body([b"abc", b"abd"]), 2, TEXTS, **fixed).read().to_pylist() == [
        b"abc",
        b"abd",
    ]
    for values in ([b"abc", b"ab"], [b"abcd", b"abc"], [b"", b"abc"]):
        with pytest.raises(PageError):
            hostile(text_body(values), 2, TEXTS, **fixed).read()


def test_streams_that_do_not_have_the_values():
    for size in (0, 1, 71, 73, 64):
        with pytest.raises(PageError):
            hostile(b"\x01" * size, 9, STREAMS).read()
    # Streams of ten values: where those of nine would begin, others are.
    with pytest.raises(PageError, match="streams"):
        hostile(b"\x01" * 80, 9, STREAMS).read()
    assert hostile(b"\x01" * 72, 9, STREAMS).read().to_pylist() == [0x0101010101010101] * 9


@pytest.mark.parametrize(
    ("physical", "encoding"),
    [
        ("DOUBLE", NUMBERS),
        ("DOUBLE", TEXTS),
        ("INT64", LENGTHS),
        ("INT32", TEXTS),
        ("BYTE_ARRAY", NUMBERS),
        ("BYTE_ARRAY", STREAMS),
        ("FIXED_LEN_BYTE_ARRAY", NUMBERS),
        ("FIXED_LEN_BYTE_ARRAY", LENGTHS),
    ],
)
def test_encodings_that_a_type_does_not_have(physical, encoding):
    length = 8 if physical == "FIXED_LEN_BYTE_ARRAY" else None
    with pytest.raises(UnsupportedPageError):
        hostile(numbers_body([1, 2, 3]), 3, encoding, physical=physical, length=length).read()
