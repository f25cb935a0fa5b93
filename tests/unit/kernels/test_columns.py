from __future__ import annotations

import concurrent.futures
import datetime as dt
import decimal
import io
import itertools
import math
import sys
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lm_datafusion.kernels.columns import (
    Dictionary,
    FixedBuilder,
    read_rows,
    rows_of_mask,
    take_views,
)
from lm_datafusion.kernels.pages import PageError, PageReader, Scratch, TextError
from tests.kernel_chunks import (
    CODECS,
    ROW_KINDS,
    Chunk,
    compressed_page,
    data_page,
    dictionary_page,
    packed_run,
    plain_text,
    random_runs,
    rle_run,
    some_rows,
)
from tests.parquet_files import write_parquet

ROWS = 500
PLAIN, RLE, RLE_DICTIONARY = 0, 3, 8


def integers(low, high):
    return lambda rng: int(rng.integers(low, high, endpoint=True, dtype=np.int64))


def unsigned(rng):
    return int(rng.integers(0, 2**64 - 1, endpoint=True, dtype=np.uint64))


def numbers(rng):
    if rng.random() < 0.3:
        return [math.nan, math.inf, -math.inf, 0.0, -0.0][rng.integers(5)]
    return float(rng.normal())


def words(rng):
    letters = np.array(list("abжя日😀 \0"))
    return "".join(letters[rng.integers(0, len(letters), rng.integers(0, 30))])


def scaled(digits, scale):
    draw = integers(-(10**digits) + 1, 10**digits - 1)
    return lambda rng: decimal.Decimal(draw(rng)).scaleb(-scale)


# By name: a type, how to draw a value, and options of the writer.
TYPES = {
    "int8": (pa.int8(), integers(-128, 127), {}),
    "int16": (pa.int16(), integers(-(2**15), 2**15 - 1), {}),
    "int32": (pa.int32(), integers(-(2**31), 2**31 - 1), {}),
    "int64": (pa.int64(), integers(-(2**63), 2**63 - 1), {}),
    "uint8": (pa.uint8(), integers(0, 255), {}),
    "uint16": (pa.uint16(), integers(0, 2**16 - 1), {}),
    "uint32": (pa.uint32(), integers(0, 2**32 - 1), {}),
    "uint64": (pa.uint64(), unsigned, {}),
    "float": (pa.float32(), numbers, {}),
    "double": (pa.float64(), numbers, {}),
    "float16": (pa.float16(), lambda rng: np.float16(numbers(rng)), {}),
    "bool": (pa.bool_(), lambda rng: bool(rng.random() < 0.5), {}),
    "bool in runs": (
        pa.bool_(),
        lambda rng: bool(rng.random() < 0.02),
        {"column_encoding": "RLE", "use_dictionary": False},
    ),
    "date32": (pa.date32(), integers(-100_000, 100_000), {}),
    "time32": (pa.time32("ms"), integers(0, 86_399_999), {}),
    "time64 us": (pa.time64("us"), integers(0, 86_399_999_999), {}),
    "time64 ns": (pa.time64("ns"), integers(0, 86_399_999_999_999), {}),
    "timestamp ms": (pa.timestamp("ms"), integers(-(10**12), 10**12), {}),
    "timestamp us": (pa.timestamp("us", "UTC"), integers(-(10**15), 10**15), {}),
    "timestamp ns": (pa.timestamp("ns"), integers(-(10**18), 10**18), {}),
    "decimal of 9": (pa.decimal128(9, 2), scaled(9, 2), {"store_decimal_as_integer": True}),
    "decimal of 18": (pa.decimal128(18, 4), scaled(18, 4), {"store_decimal_as_integer": True}),
    "string": (pa.string(), words, {}),
    "large string": (pa.large_string(), words, {}),
    "string view": (pa.string_view(), words, {}),
    "binary": (pa.binary(), lambda rng: rng.bytes(rng.integers(0, 40)), {}),
    "binary view": (pa.binary_view(), lambda rng: rng.bytes(rng.integers(0, 40)), {}),
    "3 bytes": (pa.binary(3), lambda rng: rng.bytes(3), {}),
    "16 bytes": (pa.binary(16), lambda rng: rng.bytes(16), {}),
}
# One value, codes for all, all PLAIN, and a dictionary that is full soon.
LAYOUTS = {
    "dictionary": {"use_dictionary": True},
    "plain": {"use_dictionary": False},
    "mixed": {"use_dictionary": True, "dictionary_pagesize_limit": 200, "write_batch_size": 16},
}
PAGE_ROWS = (1, 7, 64, 10_000)


def make_array(rng, kind, row_count, *, nullable):
    data_type, draw, _ = TYPES[kind]
    domain = [draw(rng) for _ in range(40)]
    # Runs of one value, values of a few, then values of their own.
    third = row_count // 3
    values = [domain[row // 50 % 40] for row in range(third)]
    values += [domain[rng.integers(40)] for _ in range(third)]
    values += [draw(rng) for _ in range(row_count - 2 * third)]
    if nullable:
        values = [None if rng.random() < 0.2 else value for value in values]
        values[:10] = [None] * len(values[:10])
    if pa.types.is_temporal(data_type):
        storage = pa.int32() if data_type.bit_width == 32 else pa.int64()
        return pa.array(values, storage).cast(data_type)
    return pa.array(values, data_type)


def make_file(array, *, nullable, **options):
    schema = pa.schema([pa.field("c", array.type, nullable=nullable)])
    encoding = options.pop("column_encoding", None)
    if encoding is not None:
        options["column_encoding"] = {"c": encoding}
    return write_parquet(pa.table([array], schema=schema), **options)


def same(found, expected):
    """Compares values and their bits, so that NaN and signed zeros count."""
    found.validate(full=True)
    assert len(found) == len(expected)
    if pa.types.is_floating(expected.type):
        bits = pa.binary(expected.type.bit_width // 8)
        assert found.is_valid().equals(expected.is_valid())
        assert found.drop_null().view(bits).equals(expected.drop_null().view(bits))
    else:
        assert found.to_pylist() == expected.to_pylist()
    assert found.null_count == expected.null_count


def taken(array, rows):
    if rows is None:
        return array
    values = array.to_pylist() if "view" in str(array.type) else None
    if values is not None:
        return pa.array([values[row] for row in rows.tolist()], array.type)
    return array.take(pa.array(rows))


def check_selections(chunk, expected, rng, given=None):
    for kind in ROW_KINDS:
        rows = some_rows(rng, chunk.row_count, kind)
        same(chunk.read(rows, given=given), taken(expected, rows))
        # Again in parts: one often begins in the page where another ended.
        cuts = np.sort(rng.integers(0, chunk.row_count + 1, 6)).tolist()
        for start, stop in itertools.pairwise([0, *cuts, chunk.row_count]):
            if rows is None:
                found, part = chunk.read(None, start, stop, given=given), np.arange(start, stop)
            else:
                part = rows[(rows >= start) & (rows < stop)]
                found = chunk.read(part, start, stop, given=given)
            same(found, taken(expected, part))


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("nullable", [False, True], ids=["required", "nullable"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", TYPES)
def test_values_of_rows(kind, layout, nullable, version):
    rng = np.random.default_rng([*map(ord, kind + layout), nullable, int(version[0])])
    array = make_array(rng, kind, ROWS, nullable=nullable)
    codec = list(CODECS)[rng.integers(len(CODECS))]
    data = make_file(
        array,
        nullable=nullable,
        compression=codec,
        data_page_version=version,
        max_rows_per_page=PAGE_ROWS[rng.integers(len(PAGE_ROWS))],
        **{**LAYOUTS[layout], **TYPES[kind][2]},
    )
    chunk = Chunk.of(data, codec=codec)
    expected = pq.read_table(io.BytesIO(data)).column(0).combine_chunks()
    given = {pa.large_string(): pa.string()}.get(array.type)
    if given is not None:
        expected = expected.cast(given)
    check_selections(chunk, expected, rng, given)


def test_a_dictionary_that_is_given_up_in_the_middle():
    rng = np.random.default_rng(5)
    for kind in ("int32", "string", "double"):
        array = make_array(rng, kind, ROWS, nullable=True)
        data = make_file(array, nullable=True, max_rows_per_page=30, **LAYOUTS["mixed"])
        assert Chunk.of(data, codec="snappy").encodings == {PLAIN, RLE_DICTIONARY}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("layout", ["dictionary", "plain"])
@pytest.mark.parametrize("nulls", ["none", "some", "all"])
def test_every_codec(codec, version, layout, nulls):
    rng = np.random.default_rng(3)
    values = {"none": ["a", "b" * 20], "some": ["a", None, "b" * 20], "all": [None]}[nulls]
    array = pa.array([values[rng.integers(len(values))] for _ in range(ROWS)], pa.string())
    options = {"compression": codec, "data_page_version": version, "max_rows_per_page": 40}
    data = make_file(array, nullable=True, **options, **LAYOUTS[layout])
    chunk = Chunk.of(data, codec=codec)
    check_selections(chunk, array, rng)
    check_selections(chunk, array, rng, pa.string_view())


@pytest.mark.parametrize("codec", ["none", "snappy"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("nullable", [False, True], ids=["required", "nullable"])
@pytest.mark.parametrize("layout", ["dictionary", "plain"])
def test_one_page_in_many_parts(codec, version, nullable, layout):
    """What is kept of a page is not the memory that it was fetched into."""
    rng = np.random.default_rng(11)
    for kind in ("int64", "string", "string view", "bool", "3 bytes"):
        array = make_array(rng, kind, ROWS, nullable=nullable)
        options = {"compression": codec, "data_page_version": version, **LAYOUTS[layout]}
        chunk = Chunk.of(make_file(array, nullable=nullable, **options), codec=codec)
        assert len(chunk.headers) == 1
        pieces = [
            chunk.read(None, start, min(ROWS, start + 37), given=array.type)
            for start in range(0, ROWS, 37)
        ]
        same(pa.concat_arrays(pieces), array)
        assert chunk.reader.kept_page == -1
        # From the back, and over again.
        for start in (400, 200, 300, 0, 499, 250, 250):
            part = np.arange(start, min(ROWS, start + 60), dtype=np.int32)
            same(chunk.read(part), taken(array, part))


def test_a_kept_page_is_not_handed_in_again():
    array = pa.array(range(ROWS), pa.int64())
    data = make_file(array, nullable=False, max_rows_per_page=100, use_dictionary=False)
    chunk = Chunk.of(data, codec="snappy")
    assert chunk.reader.kept_page == -1
    assert chunk.read(None, 0, 150).to_pylist() == list(range(150))
    assert chunk.reader.kept_page == 1
    assert chunk.reader.rows_decoded == 200
    assert chunk.read(None, 150, 200).to_pylist() == list(range(150, 200))
    assert chunk.reader.kept_page == -1


def test_huge_pages():
    rng = np.random.default_rng(17)
    count = 300_000
    options = {"use_dictionary": False, "data_page_size": 1 << 30, "max_rows_per_page": count}
    ints = pa.array(rng.integers(0, 1 << 40, count))
    text = pa.array([f"{number:040}" for number in range(count // 10)])
    for array in (ints, text, text.cast(pa.string_view())):
        chunk = Chunk.of(make_file(array, nullable=True, **options), codec="snappy")
        assert len(chunk.headers) == 1
        for kind in ("all", "few", "every other"):
            rows = some_rows(rng, len(array), kind)
            same(chunk.read(rows), taken(array, rows))


@pytest.mark.parametrize("width", range(21))
def test_codes_of_every_width_that_pyarrow_writes(width):
    rng = np.random.default_rng(width)
    distinct = 1 if width == 0 else 2 ** (width - 1) + 1
    values = np.concatenate([np.arange(distinct), rng.integers(0, distinct, 3000)])
    array = pa.array(values, pa.int32())
    data = make_file(
        array,
        nullable=True,
        dictionary_pagesize_limit=1 << 30,
        data_page_size=1 << 30,
        max_rows_per_page=1 << 30,
        compression="none",
    )
    chunk = Chunk.of(data)
    assert chunk.encodings == {RLE_DICTIONARY}
    for kind in ("all", "few", "every other"):
        rows = some_rows(rng, len(array), kind)
        assert chunk.read(rows).equals(taken(array, rows))


@pytest.mark.parametrize("width", range(33))
def test_runs_of_every_width(width):
    """Also widths that are larger than the dictionary needs, and runs of any length."""
    rng = np.random.default_rng(width)
    distinct = min(1 << width, 300)
    codes = np.repeat(rng.integers(0, distinct, 400), rng.geometric(0.2, 400)).tolist()
    values = [f"value {number}".encode() for number in range(distinct)]
    page = bytes([width]) + random_runs(rng, codes, width)
    pages = dictionary_page(plain_text(values), distinct)
    pages += data_page(page, len(codes), RLE_DICTIONARY)
    chunk = Chunk(pages, physical="BYTE_ARRAY", stored=pa.binary(), nullable=False)
    expected = pa.array([values[code] for code in codes], pa.binary())
    check_selections(chunk, expected, rng)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99, 1.0])
def test_levels_in_runs_of_both_kinds(share, version):
    rng = np.random.default_rng(int(share * 100))
    is_valid = np.repeat(rng.random(300) >= share, rng.geometric(0.1, 300)).tolist()
    stored = [number for number, valid in enumerate(is_valid) if valid]
    body = np.array(stored, dtype="<i4").tobytes()
    levels = random_runs(rng, map(int, is_valid), 1)
    page = data_page(body, len(is_valid), PLAIN, levels=levels, version=version)
    chunk = Chunk(page, physical="INT32", stored=pa.int32(), nullable=True)
    expected = [number if valid else None for number, valid in enumerate(is_valid)]
    check_selections(chunk, pa.array(expected, pa.int32()), rng)


@pytest.mark.parametrize("nullable", [False, True], ids=["required", "nullable"])
def test_text_as_the_table_wants_it(nullable):
    rng = np.random.default_rng(2)
    array = make_array(rng, "string", ROWS, nullable=nullable)
    for layout in LAYOUTS.values():
        data = make_file(array, nullable=nullable, max_rows_per_page=50, **layout)
        chunk = Chunk.of(data, codec="snappy")
        for given in (pa.string(), pa.string_view(), pa.binary(), pa.binary_view()):
            found = chunk.read(given=given)
            assert found.type == given
            same(found, array.cast(given))


def test_only_empty_text():
    for given in (pa.string(), pa.string_view()):
        for layout in ("dictionary", "plain"):
            array = pa.array([""] * 20, pa.string())
            data = make_file(array, nullable=True, **LAYOUTS[layout])
            same(Chunk.of(data, codec="snappy").read(given=given), array)


def test_a_few_long_values_do_not_keep_their_page():
    text = pa.array([f"{number:0100}" for number in range(10_000)])
    data = make_file(text, nullable=True, use_dictionary=False, max_rows_per_page=10_000)
    chunk = Chunk.of(data, codec="snappy")
    few = chunk.read(np.array([5, 5000], np.int32), given=pa.string_view())
    assert few.to_pylist() == [text[5].as_py(), text[5000].as_py()]
    assert few.get_total_buffer_size() < 200_000


def test_dictionaries_as_arrays():
    rng = np.random.default_rng(4)
    for kind in ("int8", "int64", "double", "date32", "decimal of 9", "string", "3 bytes"):
        array = make_array(rng, kind, ROWS, nullable=False)
        options = {"use_dictionary": True, **TYPES[kind][2]}
        chunk = Chunk.of(make_file(array, nullable=False, **options), codec="snappy")
        same(chunk.dictionary.to_array(chunk.builder()), array.dictionary_encode().dictionary)


def test_one_dictionary_in_several_threads():
    """What one thread takes values from is not thrown away by another that was as fast."""
    rng = np.random.default_rng(8)
    stored = np.arange(250, dtype="<i8") * 7919
    codes = rng.integers(0, 250, 4000).tolist()
    dictionary = dictionary_page(stored.tobytes(), 250)
    pages = dictionary + data_page(bytes([8]) + packed_run(codes, 8), 4000, RLE_DICTIONARY)
    expected = stored[codes]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(150):
            shared = Dictionary(pa.py_buffer(dictionary), 0, None)
            barrier = threading.Barrier(3)
            with concurrent.futures.ThreadPoolExecutor(3) as pool:
                works = [pool.submit(_read_shared, pages, shared, barrier) for _ in range(3)]
                assert all((work.result() == expected).all() for work in works)
    finally:
        sys.setswitchinterval(interval)


def _read_shared(pages, shared, barrier):
    chunk = Chunk(pages, physical="INT64", stored=pa.int64(), nullable=False)
    chunk.dictionary, chunk.scratch = shared, Scratch()
    barrier.wait()
    return chunk.read().to_numpy()


# --- what is not as it should be ------------------------------------------------------------------


def text_chunk(values, **options):
    page = data_page(plain_text(values), len(values), PLAIN)
    return Chunk(page, physical="BYTE_ARRAY", stored=pa.string(), nullable=False, **options)


def test_text_that_is_no_utf8_is_refused():
    chunk = text_chunk([b"good", b"bad \xff", b"good"])
    for given in (pa.string(), pa.string_view()):
        with pytest.raises(TextError, match="non UTF-8"):
            chunk.read(given=given)
        assert chunk.read(np.array([0, 2], np.int32), given=given).to_pylist() == ["good", "good"]
    assert chunk.read(given=pa.binary()).to_pylist()[1] == b"bad \xff"


def test_dictionaries_that_are_no_utf8_are_refused():
    pages = dictionary_page(plain_text([b"good", b"\xc3"]), 2)
    pages += data_page(bytes([1]) + rle_run(0, 9, 1), 9, RLE_DICTIONARY)
    chunk = Chunk(pages, physical="BYTE_ARRAY", stored=pa.string(), nullable=False)
    for given in (pa.string(), pa.string_view()):
        with pytest.raises(TextError, match="dictionary value 1"):
            chunk.read(given=given)


CODES = {
    "no bytes": b"",
    "no runs": bytes([2]),
    "cut": bytes([2]) + packed_run([0, 1, 2] * 8, 2)[:2],
    "too few values": bytes([2]) + rle_run(1, 19, 2),
    "code that is not there": bytes([2]) + rle_run(3, 20, 2),
    "packed code that is not there": bytes([2]) + packed_run([0, 1, 2, 3] * 5, 2),
    "value wider than its width": bytes([2, 40, 200]),
    "wide": bytes([33]) + rle_run(0, 20, 2),
    "endless header": bytes([2]) + b"\xff" * 20,
}


@pytest.mark.parametrize("name", CODES)
def test_codes_that_are_wrong(name):
    pages = dictionary_page(np.arange(3, dtype="<i4").tobytes(), 3)
    pages += data_page(CODES[name], 20, RLE_DICTIONARY)
    chunk = Chunk(pages, physical="INT32", stored=pa.int32(), nullable=False)
    for rows in (None, np.arange(1, 20, 2, dtype=np.int32), np.array([19], np.int32)):
        with pytest.raises(PageError):
            chunk.read(rows)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x01\x00\x00",
        b"\x05\x00\x00\x00abcd",
        b"\xff\xff\xff\xffabcd",
        plain_text([b"a"] * 19),
        plain_text([b"a"] * 19) + b"\x02\x00\x00\x00a",
    ],
)
def test_text_that_reaches_over_its_page(body):
    pages = data_page(body, 20, PLAIN)
    chunk = Chunk(pages, physical="BYTE_ARRAY", stored=pa.binary(), nullable=False)
    for rows in (None, np.array([19], np.int32)):
        for given in (pa.binary(), pa.binary_view()):
            with pytest.raises(PageError):
                chunk.read(rows, given=given)


def test_levels_that_do_not_add_up():
    values = np.arange(10, dtype="<i4").tobytes()
    for levels in (b"", rle_run(1, 9, 1), rle_run(2, 10, 1), packed_run([1] * 8, 1)):
        for version in (1, 2):
            pages = data_page(values, 10, PLAIN, levels=levels, version=version)
            chunk = Chunk(pages, physical="INT32", stored=pa.int32(), nullable=True)
            with pytest.raises(PageError):
                chunk.read()
    # More levels say that there are more values than the page has.
    pages = data_page(values[:-4], 10, PLAIN, levels=rle_run(1, 10, 1))
    with pytest.raises(PageError):
        Chunk(pages, physical="INT32", stored=pa.int32(), nullable=True).read()


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "none"])
def test_pages_that_decompress_to_another_size(codec):
    """What is missing would be memory that somebody else has used."""
    array = pa.array(np.arange(2000))
    data = make_file(array, nullable=False, use_dictionary=False, compression=codec)
    good = Chunk.of(data, codec=codec)
    packed = good.bytes[int(good.sizes[0] - good.headers[0, 2]) :]
    for claimed in (1999 * 8, 2001 * 8, 40_000):
        page = compressed_page(packed, claimed, claimed // 8)
        chunk = Chunk(page, physical="INT64", stored=pa.int64(), nullable=False, codec=codec)
        with pytest.raises(PageError):
            chunk.read()


def test_random_bytes_raise_or_give_rows():
    """Never a crash: bytes of good pages are changed at random."""
    rng = np.random.default_rng(23)
    for kind in ("int32", "string", "string view", "bool", "bool in runs", "3 bytes", "double"):
        for layout, version in itertools.product(LAYOUTS, ["1.0", "2.0"]):
            array = make_array(rng, kind, 100, nullable=True)
            data = make_file(
                array,
                nullable=True,
                compression="none",
                max_rows_per_page=40,
                data_page_version=version,
                **{**LAYOUTS[layout], **TYPES[kind][2]},
            )
            good = Chunk.of(data)
            for _ in range(60):
                broken = bytearray(good.bytes)
                for _ in range(rng.integers(1, 4)):
                    broken[rng.integers(len(broken))] = rng.integers(256)
                check_broken(good, bytes(broken), rng)


def check_broken(good, pages, rng):
    try:
        chunk = Chunk(
            pages,
            physical=good.physical,
            stored=good.stored,
            nullable=True,
            length=good.length,
        )
        # The rows that an index would say, whatever the headers do.
        if len(chunk.headers) == len(good.headers):
            chunk.first_rows, chunk.row_ends = good.first_rows, good.row_ends
            chunk.row_count = good.row_count
        rows = some_rows(rng, chunk.row_count, "few")
        for wanted in (None, rows):
            found = chunk.read(wanted)
            found.validate(full=True)
            assert len(found) == (chunk.row_count if wanted is None else len(rows))
    except PageError:
        pass


def test_rows_that_no_page_holds():
    array = pa.array(range(100), pa.int64())
    chunk = Chunk.of(make_file(array, nullable=False, max_rows_per_page=20), codec="snappy")
    chunk._hand_over(None, 0, 20)
    with pytest.raises(PageError, match="20 of 30 rows"):
        read_rows(chunk.reader, chunk.builder(), None, 0, 30)
    with pytest.raises(ValueError, match="rows outside their range"):
        chunk.read(np.array([5], np.int32), 10, 20)


def test_no_rows_of_pages_at_hand():
    array = pa.array(range(100), pa.int64())
    chunk = Chunk.of(make_file(array, nullable=False), codec="snappy")
    chunk._hand_over(None, 0, 100)
    none = np.zeros(0, np.int32)
    assert len(read_rows(chunk.reader, chunk.builder(), none, 0, 100)) == 0


def test_rows_of_a_page_that_is_not_at_hand():
    array = pa.array(range(100), pa.int64())
    data = make_file(array, nullable=False, max_rows_per_page=20, use_dictionary=False)
    chunk = Chunk.of(data, codec="snappy")
    chunk._hand_over(np.array([50], np.int32), 0, 100)
    with pytest.raises(PageError):
        read_rows(chunk.reader, chunk.builder(), np.array([10, 50], np.int32), 0, 100)


def test_a_reader_without_pages():
    reader = PageReader(0)
    none = np.zeros(0, np.int64)
    reader.set_pages(Scratch(), None, pa.py_buffer(b""), none, none, none, none)
    assert len(read_rows(reader, FixedBuilder(pa.int32(), 4, 4), None, 0, 0)) == 0


# --- rows and views -------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
def test_rows_of_a_mask(share):
    rng = np.random.default_rng(1)
    for length in (0, 1, 7, 8, 9, 63, 64, 65, 1000):
        mask = rng.random(length) < share
        found = rows_of_mask(mask.view(np.uint8), 100)
        assert found.dtype == np.int32
        assert found.tolist() == (np.flatnonzero(mask) + 100).tolist()


def test_views_are_taken():
    rng = np.random.default_rng(6)
    for kind in ("string view", "binary view"):
        for nullable in (False, True):
            array = make_array(rng, kind, 200, nullable=nullable).slice(13, 150)
            for rows in ([], [0], [149, 0, 0, 75], list(range(149, -1, -1))):
                found = take_views(array, np.array(rows, np.int32))
                same(found, taken(array, np.array(rows, np.int32)))
            for rows in ([150], [-1], [0, 1, 1 << 30]):
                with pytest.raises(IndexError):
                    take_views(array, np.array(rows, np.int32))


def test_no_value_is_older_than_its_date():
    """Dates before Christ and after 9999 are numbers like any other."""
    array = pa.array([-800_000, 0, 3_000_000], pa.int32()).cast(pa.date32())
    chunk = Chunk.of(make_file(array, nullable=False), codec="snappy")
    assert chunk.read().cast(pa.int32()).to_pylist() == [-800_000, 0, 3_000_000]
    assert chunk.read(np.array([1], np.int32)).to_pylist() == [dt.date(1970, 1, 1)]
