"""Conditions tested on pages as they stand, beside the same conditions in Python."""

from __future__ import annotations

import itertools
import operator

import numpy as np
import pyarrow as pa
import pytest

from lm_datafusion.formats.parquet.conditions import INTEGER_TYPES
from lm_datafusion.kernels.columns import (
    TEXT_IN,
    TEXT_LENGTH,
    TEXT_LIKE,
    TEXT_ORDER,
    IntTest,
    TextTest,
    filter_rows,
)
from lm_datafusion.kernels.pages import PageError, UnsupportedPageError
from tests.kernel_chunks import (
    ROW_KINDS,
    Chunk,
    data_page,
    dictionary_page,
    plain_text,
    random_runs,
    rle_run,
    some_rows,
)
from tests.parquet_files import write_parquet

OPERATORS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
ROWS = 700
LAYOUTS = {
    "dictionary": {"use_dictionary": True},
    "plain": {"use_dictionary": False},
    "mixed": {"use_dictionary": True, "dictionary_pagesize_limit": 300, "write_batch_size": 16},
}
each_layout = pytest.mark.parametrize("layout", LAYOUTS)
each_nullability = pytest.mark.parametrize("nullable", [False, True], ids=["required", "nullable"])


def make_chunk(array, *, nullable, layout, rng, codec="none"):
    schema = pa.schema([pa.field("c", array.type, nullable=nullable)])
    data = write_parquet(
        pa.table([array], schema=schema),
        compression=codec,
        data_page_version=["1.0", "2.0"][rng.integers(2)],
        max_rows_per_page=int(rng.choice([1, 9, 100, 10_000])),
        **LAYOUTS[layout],
    )
    return Chunk.of(data, codec=codec)


def check(chunk, test, expected, rng, *, kinds=ROW_KINDS):
    """`expected` are the values and whether each passes; None never does."""
    values, passes = expected
    passes = np.array(passes, dtype=np.bool_)
    for kind in kinds:
        rows = some_rows(rng, chunk.row_count, kind)
        asked = np.ones(len(passes), np.bool_)
        if rows is not None:
            asked[:] = False
            asked[rows] = True
        wanted = np.flatnonzero(asked & passes)
        for is_held in (False, True):
            found, held = chunk.filter(test, rows, is_held=is_held)
            assert found.dtype == np.int32
            assert found.tolist() == wanted.tolist()
            assert (held is None) is not is_held
            if held is not None:
                held.validate(full=True)
                assert held.to_pylist() == [values[row] for row in wanted.tolist()]
        # In parts, so that the page where one ends is the page where the next begins.
        cuts = [0, *np.sort(rng.integers(0, chunk.row_count + 1, 3)).tolist(), chunk.row_count]
        for start, stop in itertools.pairwise(cuts):
            part = None if rows is None else rows[(rows >= start) & (rows < stop)]
            found, _ = chunk.filter(test, part, start, stop)
            inside = wanted[(wanted >= start) & (wanted < stop)]
            assert found.tolist() == inside.tolist()


# --- integers -------------------------------------------------------------------------------------


def signed(value):
    """The bits of a number as kernels take them."""
    return value - (1 << 64) if value >= 1 << 63 else value


@pytest.mark.parametrize("data_type", INTEGER_TYPES, ids=str)
@each_layout
@each_nullability
def test_integers(data_type, layout, nullable):
    rng = np.random.default_rng(INTEGER_TYPES[data_type])
    dtype = data_type.to_pandas_dtype()
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    edges = [low, low + 1, high, high - 1, 0, 1, max(low, -1), high // 2]
    values = [edges[n] for n in rng.integers(0, len(edges), ROWS // 2)]
    values += rng.integers(low, high, ROWS - len(values), dtype=dtype).tolist()
    if nullable:
        values = [None if rng.random() < 0.2 else value for value in values]
    chunk = make_chunk(pa.array(values, data_type), nullable=nullable, layout=layout, rng=rng)
    kind = INTEGER_TYPES[data_type]
    for number, compare in enumerate(OPERATORS):
        literal = edges[rng.integers(len(edges))]
        for is_negated in (False, True):
            test = IntTest(kind, number, signed(literal), None, is_negated)
            passes = [v is not None and compare(v, literal) != is_negated for v in values]
            check(chunk, test, (values, passes), rng, kinds=("all", "every other", "few"))
    for size in (1, 2, 5, 300):
        members = [edges[0], *rng.integers(low, high, size, dtype=dtype).tolist()]
        members += [value for value in values[-5:] if value is not None]
        keys = np.sort(np.array([signed(member) for member in members], np.int64))
        for is_negated in (False, True):
            test = IntTest(kind, 0, 0, keys, is_negated)
            passes = [v is not None and (v in members) != is_negated for v in values]
            check(chunk, test, (values, passes), rng, kinds=("all", "ranges", "none"))


def test_a_list_of_no_integers_is_refused():
    with pytest.raises(ValueError, match="no values"):
        IntTest(0, 0, 0, np.zeros(0, np.int64))


# --- text -----------------------------------------------------------------------------------------


def like(parts, left, right):
    """What a pattern of parts means, without a search that could be wrong in the same way."""

    def matches(value):
        def walk(at, index):
            if index == len(parts):
                return not right or at == len(value) or not parts
            part = parts[index]
            is_last = index == len(parts) - 1
            if index == 0 and left:
                starts = [0]
            elif is_last and right:
                starts = [len(value) - len(part)]
            else:
                starts = range(at, len(value) - len(part) + 1)
            for start in starts:
                if start >= at and value[start : start + len(part)] == part:
                    stop = start + len(part)
                    if is_last and right and stop != len(value):
                        continue
                    if walk(stop, index + 1):
                        return True
            return False

        return walk(0, 0)

    return matches


# Values whose bytes look like lengths of values, and needles that do.
PIECES = [
    b"a",
    b"ab",
    b"b",
    b"\0",
    b"\x01\0\0\0",
    b"\x02\0\0\0a",
    b"\0\0",
    b"7",
    b"\x07",
    b"\xd0\x96",
]


def words(rng, count):
    values = []
    for _ in range(count):
        size = int(
            rng.choice([0, 1, 2, 3, 5, 40, 130, 300], p=[0.1, 0.2, 0.2, 0.2, 0.1, 0.1, 0.05, 0.05])
        )
        values.append(b"".join(PIECES[n] for n in rng.integers(0, len(PIECES), size))[:size])
    return values


def text_chunk(rng, layout, *, nullable, count=ROWS):
    values = words(rng, count)
    if nullable:
        values = [None if rng.random() < 0.2 else value for value in values]
    array = pa.array(values, pa.binary())
    return values, make_chunk(array, nullable=nullable, layout=layout, rng=rng, codec="snappy")


def both(values, matches, is_negated):
    return [v is not None and bool(matches(v)) != is_negated for v in values]


@pytest.mark.usefixtures("simd")
@each_layout
@each_nullability
def test_patterns(layout, nullable):
    rng = np.random.default_rng(9)
    for _ in range(40):
        values, chunk = text_chunk(rng, layout, nullable=nullable, count=150)
        parts = [word[:8] for word in words(rng, rng.integers(1, 4)) if word]
        left, right = bool(rng.integers(2)), bool(rng.integers(2))
        if not parts:
            left = right = False
        is_negated = bool(rng.integers(2))
        test = TextTest(
            TEXT_LIKE,
            parts,
            is_anchored_left=left,
            is_anchored_right=right,
            is_negated=is_negated,
        )
        passes = both(values, like(parts, left, right), is_negated)
        kinds = ("all", ROW_KINDS[rng.integers(1, len(ROW_KINDS))])
        check(chunk, test, (values, passes), rng, kinds=kinds)


@pytest.mark.usefixtures("simd")
@each_layout
@each_nullability
def test_equal_texts_and_lists_of_them(layout, nullable):
    rng = np.random.default_rng(10)
    values, chunk = text_chunk(rng, layout, nullable=nullable)
    present = [value for value in values if value is not None]
    for size in (1, 2, 16):
        parts = [present[n] for n in rng.integers(0, len(present), size)] + [b"not there"]
        for is_negated in (False, True):
            test = TextTest(TEXT_IN, parts, is_negated=is_negated)
            passes = both(values, lambda value, parts=parts: value in parts, is_negated)
            check(chunk, test, (values, passes), rng)


@each_layout
@each_nullability
def test_lengths(layout, nullable):
    rng = np.random.default_rng(11)
    values, chunk = text_chunk(rng, layout, nullable=nullable)
    extremes = [-(1 << 63), 1 - (1 << 63), (1 << 63) - 1]
    for number, compare in enumerate(OPERATORS):
        for length in [0, 1, 3, 130, 255, -1, *extremes]:
            is_negated = bool(rng.integers(2))
            test = TextTest(TEXT_LENGTH, operator=number, length=length, is_negated=is_negated)

            def matches(value, compare=compare, length=length):
                return compare(len(value), length)

            passes = both(values, matches, is_negated)
            check(chunk, test, (values, passes), rng, kinds=("all", "few"))


@each_layout
@each_nullability
def test_orders(layout, nullable):
    rng = np.random.default_rng(12)
    values, chunk = text_chunk(rng, layout, nullable=nullable)
    present = [value for value in values if value is not None]
    for number, compare in enumerate(OPERATORS):
        literals = [b"", present[rng.integers(len(present))], b"\xff", b"ab", b"\xd0"]
        for literal in literals:
            is_negated = bool(rng.integers(2))
            test = TextTest(TEXT_ORDER, [literal], operator=number, is_negated=is_negated)

            def matches(value, compare=compare, literal=literal):
                return compare(value, literal)

            passes = both(values, matches, is_negated)
            check(chunk, test, (values, passes), rng, kinds=("all", "few"))


@pytest.mark.usefixtures("simd")
def test_needles_that_reach_over_values():
    """Bytes that stand in a page, but in no value: lengths, and ends and beginnings together."""
    values = [b"ab", b"cd", b"x" * 97 + b"a", b"", b"b" + b"y" * 40, b"a\0\0\0b"]
    body = plain_text(values)
    page = data_page(body, len(values), 0)
    chunk = Chunk(page, physical="BYTE_ARRAY", stored=pa.binary(), nullable=False)
    needles = {body[a:b] for a in range(len(body)) for b in range(a + 1, min(len(body), a + 9) + 1)}
    for needle in sorted(needles):
        test = TextTest(TEXT_LIKE, [needle])
        expected = [row for row, value in enumerate(values) if needle in value]
        assert chunk.filter(test)[0].tolist() == expected
        some = np.array([0, 2, 4], np.int32)
        assert chunk.filter(test, some)[0].tolist() == [row for row in expected if row % 2 == 0]


@pytest.mark.usefixtures("simd")
@pytest.mark.parametrize("length", [1, 2, 3, 15, 16, 17, 31, 32, 33, 64])
def test_needles_at_the_borders_of_blocks(length):
    needle = bytes(range(1, length + 1))
    almost = needle[:-1] + b"\xee"
    values = [
        b"." * before + middle + b"," * (before * 7 % 40)
        for before in range(70)
        for middle in (needle, almost, needle[:-1])
    ]
    chunk = Chunk(
        data_page(plain_text(values), len(values), 0),
        physical="BYTE_ARRAY",
        stored=pa.binary(),
        nullable=False,
    )
    found, _ = chunk.filter(TextTest(TEXT_LIKE, [needle]))
    assert found.tolist() == [row for row, value in enumerate(values) if needle in value]
    # The same values alone in a page each: there is nothing to read behind them.
    pages = b"".join(data_page(plain_text([value]), 1, 0) for value in values)
    alone = Chunk(pages, physical="BYTE_ARRAY", stored=pa.binary(), nullable=False)
    assert alone.filter(TextTest(TEXT_LIKE, [needle]))[0].tolist() == found.tolist()


def test_patterns_without_parts():
    values = [b"", b"a", b"", b"bc"]
    page = data_page(plain_text(values), len(values), 0)
    chunk = Chunk(page, physical="BYTE_ARRAY", stored=pa.binary(), nullable=False)
    assert chunk.filter(TextTest(TEXT_LIKE))[0].tolist() == [0, 1, 2, 3]
    assert chunk.filter(TextTest(TEXT_LIKE, is_negated=True))[0].tolist() == []
    whole = {"is_anchored_left": True, "is_anchored_right": True}
    assert chunk.filter(TextTest(TEXT_LIKE, **whole))[0].tolist() == [0, 2]
    assert chunk.filter(TextTest(TEXT_LIKE, is_negated=True, **whole))[0].tolist() == [1, 3]


# --- dictionaries and what is wrong ---------------------------------------------------------------


@pytest.mark.parametrize("width", range(21))
def test_answers_by_codes_of_every_width(width):
    rng = np.random.default_rng(width)
    distinct = min(1 << width, 1000)
    codes = np.repeat(rng.integers(0, distinct, 500), rng.geometric(0.3, 500)).tolist()
    pages = dictionary_page(np.arange(distinct, dtype="<i4").tobytes(), distinct)
    pages += data_page(bytes([width]) + random_runs(rng, codes, width), len(codes), 8)
    chunk = Chunk(pages, physical="INT32", stored=pa.int32(), nullable=False)
    test = IntTest(INTEGER_TYPES[pa.int32()], 2, distinct // 2)
    check(chunk, test, (codes, [code < distinct // 2 for code in codes]), rng)


def test_answers_that_somebody_else_has():
    """A mask over the dictionary is enough where all pages are coded; null may pass."""
    rng = np.random.default_rng(1)
    values = [None if n == 0 else f"v{n % 9}" for n in rng.integers(0, 30, ROWS)]
    chunk = make_chunk(pa.array(values), nullable=True, layout="dictionary", rng=rng)
    words_ = chunk.dictionary.to_array(chunk.builder()).to_pylist()
    passes = np.array([word in {"v1", "v5"} for word in words_], np.uint8)
    for null_passes in (False, True):
        chunk._hand_over(None, 0, ROWS)
        found, held = filter_rows(
            chunk.reader,
            None,
            passes,
            None,
            0,
            ROWS,
            null_passes=null_passes,
        )
        wanted = {"v1", "v5", None} if null_passes else {"v1", "v5"}
        assert found.tolist() == [row for row, value in enumerate(values) if value in wanted]
        assert held is None


def test_null_passes_only_where_values_are_read_afterwards():
    chunk = Chunk(b"", physical="INT32", stored=pa.int32(), nullable=True)
    test = IntTest(2, 0, 0)
    with pytest.raises(ValueError, match="null passes"):
        chunk.filter(test, is_held=True, null_passes=True)


def test_plain_pages_need_a_test():
    page = data_page(np.arange(4, dtype="<i4").tobytes(), 4, 0)
    chunk = Chunk(page, physical="INT32", stored=pa.int32(), nullable=False)
    chunk._hand_over(None, 0, 4)
    with pytest.raises(UnsupportedPageError):
        filter_rows(chunk.reader, None, None, None, 0, 4)


@pytest.mark.parametrize("encoding", [3, 4, 6, 7, 77])
def test_encodings_that_kernels_do_not_know(encoding):
    page = data_page(b"\0" * 40, 4, encoding)
    chunk = Chunk(page, physical="INT32", stored=pa.int32(), nullable=False)
    with pytest.raises(UnsupportedPageError):
        chunk.filter(IntTest(2, 0, 0))
    with pytest.raises(UnsupportedPageError):
        chunk.read()


def test_pages_that_are_too_short():
    ints = Chunk(data_page(b"\0" * 15, 4, 0), physical="INT32", stored=pa.int32(), nullable=False)
    with pytest.raises(PageError):
        ints.filter(IntTest(2, 0, 0))
    with pytest.raises(PageError):
        ints.filter(IntTest(2, 0, 0), np.array([0], np.int32))
    body = plain_text([b"a", b"b"]) + b"\x09\0\0\0c"
    texts = Chunk(data_page(body, 3, 0), physical="BYTE_ARRAY", stored=pa.binary(), nullable=False)
    for test in (
        TextTest(TEXT_IN, [b"c"]),
        TextTest(TEXT_LENGTH, operator=0, length=1),
        TextTest(TEXT_ORDER, [b"c"], operator=2),
        TextTest(TEXT_LIKE, [b"c"]),
    ):
        with pytest.raises(PageError):
            texts.filter(test)
    with pytest.raises(PageError):
        texts.filter(TextTest(TEXT_IN, [b"c"]), np.array([2], np.int32))


def test_codes_outside_the_answers():
    for width, runs in ((2, rle_run(3, 9, 2)), (10, rle_run(700, 9, 10))):
        pages = dictionary_page(np.arange(3, dtype="<i4").tobytes(), 3)
        pages += data_page(bytes([width]) + runs, 9, 8)
        chunk = Chunk(pages, physical="INT32", stored=pa.int32(), nullable=False)
        for rows in (None, np.array([2, 5], np.int32)):
            with pytest.raises(PageError):
                chunk.filter(IntTest(2, 0, 0), rows)
    for width in (2, 8, 10):
        runs = random_runs(np.random.default_rng(1), [0, 1, 2, 3] * 8, width)
        pages = dictionary_page(np.arange(3, dtype="<i4").tobytes(), 3)
        pages += data_page(bytes([width]) + runs, 32, 8)
        chunk = Chunk(pages, physical="INT32", stored=pa.int32(), nullable=False)
        with pytest.raises(PageError):
            chunk.filter(IntTest(2, 0, 0))
