"""Bytes in, values or `ThriftError` out: nothing else, whatever the bytes are."""

from __future__ import annotations

import contextlib
import math
import struct

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from lm_datafusion.formats.parquet import page_index
from lm_datafusion.formats.parquet.bloom_filter import BloomFilter, parse_bloom_filter_header
from lm_datafusion.formats.parquet.page_header import parse_page_header, walk_page_headers
from lm_datafusion.formats.parquet.page_index import parse_column_index, parse_offset_index
from lm_datafusion.formats.parquet.schema_elements import parse_schema_elements, with_children
from lm_datafusion.formats.parquet.thrift import (
    Kind,
    NeedMoreData,
    ThriftError,
    read_struct,
    skip_struct,
    write_struct,
)
from tests.parquet_files import (
    bloom_filter_bytes,
    chunk_bytes,
    column_index_bytes,
    footer_bytes,
    offset_index_bytes,
    write_parquet,
)

PARSERS = {
    "struct": read_struct,
    "schema": parse_schema_elements,
    "page_header": parse_page_header,
    "chunk": lambda data: list(walk_page_headers(data)),
    "offset_index": parse_offset_index,
    "column_index": parse_column_index,
    "bloom_header": parse_bloom_filter_header,
}
EACH_PARSER = pytest.mark.parametrize("name", PARSERS)


def real_structures():
    table = pa.table(
        {
            "text": pa.array([None if n % 5 == 0 else f"value {n}" for n in range(400)]),
            "nested": pa.array([[{"x": n}] * (n % 3) for n in range(400)]),
        }
    )
    data = write_parquet(
        table,
        write_page_index=True,
        max_rows_per_page=20,
        use_dictionary=False,
        bloom_filter_options={"text": {"ndv": 400}},
    )
    v2 = write_parquet(table, data_page_version="2.0", max_rows_per_page=100)
    return {
        "struct": [footer_bytes(data)],
        "schema": [footer_bytes(data)],
        "page_header": [chunk_bytes(data, 0, 0)[:64], chunk_bytes(v2, 0, 1)[:64]],
        "chunk": [chunk_bytes(data, 0, 0), chunk_bytes(v2, 0, 1)],
        "offset_index": [offset_index_bytes(data, 0, 0), offset_index_bytes(data, 0, 1)],
        "column_index": [column_index_bytes(data, 0, 0), column_index_bytes(data, 0, 1)],
        "bloom_header": [bloom_filter_bytes(data, 0, 0)[:32]],
    }


REAL = real_structures()


@EACH_PARSER
@given(data=st.data())
def test_random_bytes(name, data):
    # Bytes that real structures are full of lead further than bytes drawn evenly.
    common = st.sampled_from([0x00, 0x02, 0x15, 0x16, 0x18, 0x19, 0x1C, 0x2C, 0x5C, 0xFC, 0x80])
    octets = st.lists(st.one_of(common, st.integers(0, 255)), max_size=80)
    with contextlib.suppress(ThriftError):
        PARSERS[name](bytes(data.draw(octets)))


@EACH_PARSER
@given(data=st.data())
def test_flipped_bits_of_real_structures(name, data):
    real = bytearray(data.draw(st.sampled_from(REAL[name])))
    for _ in range(data.draw(st.integers(1, 4))):
        # Damage near the beginning does more.
        position = data.draw(
            st.integers(0, min(len(real), data.draw(st.sampled_from([8, 64, 10**6]))) - 1)
        )
        real[position] ^= 1 << data.draw(st.integers(0, 7))
    with contextlib.suppress(ThriftError):
        PARSERS[name](bytes(real))


@pytest.mark.parametrize("name", ["struct", "column_index"])
@given(data=st.data())
def test_cut_structures_ask_for_more(name, data):
    real = data.draw(st.sampled_from(REAL[name]))
    assert skip_struct(real) == len(real)
    with pytest.raises(NeedMoreData):
        PARSERS[name](real[: data.draw(st.integers(0, len(real) - 1))])


@EACH_PARSER
@given(data=st.data())
def test_cut_and_continued_with_noise(name, data):
    real = data.draw(st.sampled_from(REAL[name]))
    noise = data.draw(st.binary(max_size=20))
    with contextlib.suppress(ThriftError):
        PARSERS[name](real[: data.draw(st.integers(0, len(real)))] + noise)


# --- the writer, through the reader ---------------------------------------------------------------


def integers(bits):
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


# Strategies of (type, value to write, value to read).
SCALARS = st.one_of(
    st.tuples(st.just(Kind.BOOL), st.booleans()),
    st.tuples(st.just(Kind.I8), integers(8)),
    st.tuples(st.just(Kind.I16), integers(16)),
    st.tuples(st.just(Kind.I32), integers(32)),
    st.tuples(st.just(Kind.I64), integers(64)),
    st.tuples(st.just(Kind.DOUBLE), st.floats(allow_nan=False)),
    st.tuples(st.just(Kind.BINARY), st.binary(max_size=200)),
).map(lambda pair: (*pair, pair[1]))


def structs(values):
    by_id = st.dictionaries(integers(16), values, max_size=6)
    return by_id.map(
        lambda fields: (
            Kind.STRUCT,
            write_struct((n, kind, value) for n, (kind, value, _) in fields.items()),
            {n: read for n, (_, _, read) in fields.items()},
        )
    )


@st.composite
def lists(draw, values):
    first = draw(values)
    elements = [first] + [v for v in draw(st.lists(values, max_size=20)) if v[0] is first[0]]
    elements *= draw(st.sampled_from([0, 1, 1, 15]))
    return (
        Kind.LIST,
        (first[0], [value for _, value, _ in elements]),
        [read for _, _, read in elements],
    )


VALUES = st.recursive(SCALARS, lambda values: structs(values) | lists(values), max_leaves=12)


@given(structs(VALUES), st.binary(max_size=5))
def test_what_is_written_is_read(written, following):
    _, data, fields = written
    assert read_struct(data + following) == (fields, len(data))
    assert read_struct(memoryview(following + data), len(following))[0] == fields


@given(structs(VALUES), st.data())
def test_every_cut_of_what_is_written_asks_for_more(written, data):
    _, encoded, _ = written
    with pytest.raises(NeedMoreData):
        read_struct(encoded[: data.draw(st.integers(0, len(encoded) - 1))])


def test_doubles_keep_their_bits():
    for value in (0.0, -0.0, math.inf, 5e-324):
        read = read_struct(write_struct([(1, Kind.DOUBLE, value)]))[0][1]
        assert struct.pack("<d", read) == struct.pack("<d", value)


# --- the parsers, against plain descriptions ------------------------------------------------------


@given(
    st.lists(
        st.tuples(st.integers(0, 2**40), st.integers(1, 2**31 - 1), st.integers(1, 2**40)),
        min_size=1,
        max_size=40,
    )
)
def test_offset_index_of_any_pages(steps):
    """Gaps, sizes and rows of pages, summed up, come back; the fast path reads them all."""
    offset = row = 0
    expected = []
    for gap, size, rows in steps:
        expected.append((offset + gap, size, row))
        offset, row = offset + gap + size, row + rows
    locations = [
        write_struct(zip((1, 2, 3), (Kind.I64, Kind.I32, Kind.I64), page, strict=True))
        for page in expected
    ]
    data = write_struct([(1, Kind.LIST, (Kind.STRUCT, locations))])
    assert page_index._try_regular_locations(data) is not None
    index = parse_offset_index(data)
    assert np.stack([index.offsets, index.sizes, index.first_rows], 1).tolist() == [
        list(page) for page in expected
    ]


@given(data=st.data())
def test_both_readers_of_offset_indexes_agree_on_damaged_ones(data):
    """Where the fast path reads anything at all, the generic reader reads the same or raises."""
    real = bytearray(data.draw(st.sampled_from(REAL["offset_index"])))
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(real) - 1))
        real[position] = data.draw(st.sampled_from([0x00, 0x15, 0x16, 0x19, 0x80, 0xFF, 0x7F]))
    with contextlib.suppress(ThriftError):
        fast = page_index._try_regular_locations(bytes(real))
        generic = page_index._irregular_locations(bytes(real))
        assert fast is None or np.array_equal(fast, generic)


TREES = st.recursive(
    st.integers(0, 2),  # a leaf is its repetition
    lambda trees: st.tuples(st.integers(0, 2), st.lists(trees, max_size=4)),
    max_leaves=20,
)


def flatten(tree, path, levels, elements, leaves):
    """Elements and leaves of a tree, by recursion: the obvious way."""
    is_leaf = isinstance(tree, int)
    repetition, children = (tree, []) if is_leaf else tree
    name = f"e{len(elements)}"
    path = (*path, name)
    levels = (levels[0] + (repetition > 0), levels[1] + (repetition == 2))
    kinds = [(1, Kind.I32, 1)] if is_leaf else []
    counts = [] if is_leaf else [(5, Kind.I32, len(children))]
    fields = [*kinds, (3, Kind.I32, repetition), (4, Kind.BINARY, name.encode()), *counts]
    elements.append(write_struct(fields))
    if is_leaf:
        leaves.append((path, *levels))
    for child in children:
        flatten(child, path, levels, elements, leaves)


@given(st.lists(TREES, max_size=5))
def test_schema_trees(trees):
    elements, leaves, ranges = [b""], [], []
    for tree in trees:
        first, first_leaf = len(elements), len(leaves)
        flatten(tree, (), (0, 0), elements, leaves)
        ranges.append((first, len(elements), first_leaf, len(leaves)))
    elements[0] = write_struct([(4, Kind.BINARY, b"root"), (5, Kind.I32, len(trees))])
    footer = [(1, Kind.I32, 2), (2, Kind.LIST, (Kind.STRUCT, elements))]
    schema = parse_schema_elements(write_struct(footer))
    assert [e.raw for e in schema.elements] == elements
    assert [(f.first, f.stop, f.first_leaf, f.stop_leaf) for f in schema.fields] == ranges
    assert [
        (leaf.path, leaf.max_definition_level, leaf.max_repetition_level) for leaf in schema.leaves
    ] == leaves
    elements[0] = with_children(schema.root, len(trees))
    again = parse_schema_elements(write_struct(footer))
    assert (again.fields, again.leaves) == (schema.fields, schema.leaves)


SALTS = [
    0x47B6137B,
    0x44974D91,
    0x8824AD5B,
    0xA2B7289D,
    0x705495C7,
    0x2DF1424B,
    0x9EFC4947,
    0x5C6BFB31,
]


def bits_of(value, num_blocks):
    """Block, word and bit that the specification sets for a value, word by word."""
    hashed = xxhash.xxh64(value, seed=0).intdigest()
    block = (hashed >> 32) * num_blocks >> 32
    return [
        (block, word, ((hashed & 0xFFFFFFFF) * salt % 2**32) >> 27)
        for word, salt in enumerate(SALTS)
    ]


@given(
    st.sets(st.binary(max_size=12), max_size=30), st.sets(st.binary(max_size=12)), st.integers(1, 9)
)
def test_bloom_filter_is_that_of_the_specification(inserted, asked, num_blocks):
    words = np.zeros((num_blocks, 8), dtype="<u4")
    for block, word, bit in (bits for value in inserted for bits in bits_of(value, num_blocks)):
        words[block, word] |= np.uint32(1 << bit)
    bloom_filter = BloomFilter(words.tobytes())
    for value in asked | inserted:
        expected = all(
            words[block, word] >> bit & 1 for block, word, bit in bits_of(value, num_blocks)
        )
        assert bloom_filter.might_contain(value) == expected
        assert expected or value not in inserted
    assert bloom_filter.might_contain_any(inserted) == bool(inserted)
