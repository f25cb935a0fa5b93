"""Headers and indexes as kernels read them, beside the Python parsers."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from lm_datafusion.formats.parquet import page_index
from lm_datafusion.formats.parquet.page_header import parse_page_header, walk_page_headers
from lm_datafusion.formats.parquet.thrift import Kind, NeedMoreData, ThriftError, write_struct
from lm_datafusion.kernels.pages import (
    HEADER_FIELDS,
    PageError,
    PageReader,
    Scratch,
    UnsupportedPageError,
    parse_column_index,
    parse_offset_index,
    walk_pages,
)
from tests.parquet_files import (
    chunk_bytes,
    column_index_bytes,
    each_corpus_file,
    metadata_of,
    offset_index_bytes,
    write_parquet,
)

ROWS = 1000
TABLE = pa.table(
    {
        "number": pa.array(range(ROWS), pa.int64()),
        "text": [None if row % 10 == 0 else f"value {row % 7}" * 30 for row in range(ROWS)],
        "list": [list(range(row % 4)) for row in range(ROWS)],
        "null": pa.nulls(ROWS, pa.float64()),
    }
)
WRITERS = {
    f"{codec} {version} {'index' if has_index else 'statistics'}": {
        "compression": codec,
        "data_page_version": version,
        "write_page_index": has_index,
        "max_rows_per_page": 90,
    }
    for codec in ("none", "zstd")
    for version in ("1.0", "2.0")
    for has_index in (True, False)
}
each_writer = pytest.mark.parametrize("writer", WRITERS)


def as_row(offset, header):
    """A header of the Python parser as `walk_pages` gives it."""
    return [
        offset,
        header.header_bytes,
        header.compressed_size,
        header.uncompressed_size,
        int(header.kind),
        -1 if header.encoding == -1 else header.num_values,
        -1 if header.num_rows is None else header.num_rows,
        header.encoding,
    ]


def chunks_of(data):
    metadata = metadata_of(data)
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            yield chunk_bytes(data, group, column)


@each_writer
def test_headers_of_pyarrow(writer):
    for chunk in chunks_of(write_parquet(TABLE, **WRITERS[writer])):
        expected = [as_row(*page) for page in walk_page_headers(chunk)]
        assert walk_pages(chunk).tolist() == expected
        assert walk_pages(pa.py_buffer(chunk)).tolist() == expected
        second = expected[1][0]
        assert walk_pages(chunk, second).tolist() == expected[1:]


@each_corpus_file
def test_headers_of_the_corpus(path):
    for chunk in chunks_of(path.read_bytes()):
        expected = [as_row(*page) for page in walk_page_headers(chunk)]
        assert walk_pages(chunk).tolist() == expected


def test_a_walk_ends_where_the_bytes_do():
    chunk = chunk_bytes(write_parquet(TABLE, max_rows_per_page=300), 0, 1)
    headers = walk_pages(chunk)
    for stop in range(0, len(chunk), 7):
        # A header that is whole counts, though its page is cut.
        ends = headers[:, 0] + headers[:, 1]
        assert walk_pages(chunk[:stop]).tolist() == headers[ends <= stop].tolist()
    assert walk_pages(b"").shape == (0, len(HEADER_FIELDS))
    assert walk_pages(chunk, len(chunk)).shape == (0, len(HEADER_FIELDS))
    assert walk_pages(chunk, -1).shape == (0, len(HEADER_FIELDS))


def mutations(data, count, rng):
    """The bytes with a few of them changed, put in or taken out."""
    for _ in range(count):
        changed = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            position = rng.randrange(len(changed))
            kind = rng.random()
            if kind < 0.6:
                changed[position] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
            elif kind < 0.8:
                changed.insert(position, rng.randrange(256))
            elif len(changed) > 1:
                del changed[position]
        yield bytes(changed)


def python_header(data):
    try:
        return as_row(0, parse_page_header(data))
    except NeedMoreData:
        return "more"
    except ThriftError:
        return None


def kernel_header(data):
    try:
        found = walk_pages(data)
    except PageError:
        return None
    return found[0].tolist() if len(found) else "more"


def test_headers_that_were_changed():
    """What both read is the same, but where a field comes twice, once in another type."""
    rng = random.Random(1)
    both = same = 0
    for options in WRITERS.values():
        data = write_parquet(TABLE, **options)
        for column in range(4):
            chunk = chunk_bytes(data, 0, column)
            for offset, header in list(walk_page_headers(chunk))[:2]:
                for changed in mutations(chunk[offset:][: header.header_bytes], 300, rng):
                    expected, found = python_header(changed), kernel_header(changed)
                    if isinstance(found, list) and isinstance(expected, list):
                        both += 1
                        same += found == expected
    assert both > 1000
    assert same >= 0.995 * both


def other_field(rng, field):
    """A field that no header has, of any type."""
    kind = rng.choice([Kind.BOOL, Kind.I8, Kind.I64, Kind.DOUBLE, Kind.BINARY, Kind.LIST])
    values = {
        Kind.BOOL: rng.random() < 0.5,
        Kind.I8: rng.randrange(-128, 128),
        Kind.I64: rng.randrange(-(1 << 63), 1 << 63),
        Kind.DOUBLE: rng.random(),
        Kind.BINARY: rng.randbytes(rng.randrange(200)),
        Kind.LIST: (Kind.BINARY, [b"x" * rng.randrange(20) for _ in range(rng.randrange(20))]),
    }
    inner = write_struct([(1, kind, values[kind]), (40, Kind.STRUCT, write_struct([]))])
    return (field, Kind.STRUCT, inner) if rng.random() < 0.3 else (field, kind, values[kind])


def test_headers_with_fields_in_any_order():
    """Fields that nobody knows, headers of several kinds in one, numbers of any size."""
    rng = random.Random(4)
    read = 0
    for _ in range(3000):
        fields = []
        for field, count in ((5, 4), (7, 3), (8, 6)):
            numbers = [
                (n, Kind.I32, rng.randrange(1 << rng.randrange(31))) for n in range(1, count + 1)
            ]
            if field == 8 and rng.random() < 0.5:
                numbers.append((7, Kind.BOOL, rng.random() < 0.5))
            if rng.random() < 0.3:
                numbers.append(other_field(rng, rng.randrange(20, 300)))
            if rng.random() < 0.3:
                rng.shuffle(numbers)
            if rng.random() < 0.6:
                fields.append((field, Kind.STRUCT, write_struct(numbers)))
        fields += [(1, Kind.I32, rng.randrange(4))]
        fields += [(n, Kind.I32, rng.randrange(1 << rng.randrange(31))) for n in (2, 3)]
        fields += [other_field(rng, rng.randrange(20, 300)) for _ in range(rng.randrange(3))]
        rng.shuffle(fields)
        data = write_struct(fields)
        expected = python_header(data)
        assert kernel_header(data) == expected, data.hex()
        read += expected is not None
    assert read > 500


def header(kind, *fields, sizes=(10, 10)):
    numbers = [(1, Kind.I32, kind), (2, Kind.I32, sizes[0]), (3, Kind.I32, sizes[1])]
    return write_struct([*numbers, *fields])


def page(*values):
    return write_struct([(n, Kind.I32, value) for n, value in enumerate(values, start=1)])


V1, V2 = page(3, 0, 3, 3), page(7, 1, 6, 8, 2, 3)


@pytest.mark.parametrize(
    "data",
    [
        b"\x00",
        header(9, (5, Kind.STRUCT, V1)),
        header(-1, (5, Kind.STRUCT, V1)),
        header(0),
        header(0, (7, Kind.STRUCT, V1)),
        header(0, (8, Kind.STRUCT, V2)),
        header(2, (5, Kind.STRUCT, V1)),
        header(3, (5, Kind.STRUCT, V1)),
        header(0, (5, Kind.STRUCT, page(-3, 0, 3, 3))),
        header(0, (5, Kind.STRUCT, V1), sizes=(-1, 10)),
        header(0, (5, Kind.STRUCT, V1), sizes=(10, -1)),
        header(3, (8, Kind.STRUCT, page(7, 1, 6, 8, 6, 6))),
        header(3, (8, Kind.STRUCT, page(7, 1, 6, 8, -1, 0))),
    ],
)
def test_what_is_no_page_header_raises(data):
    with pytest.raises(ThriftError):
        parse_page_header(data)
    with pytest.raises(PageError, match="no page header at byte 0"):
        walk_pages(data)


def test_an_index_page_is_passed_over():
    data = header(1, (6, Kind.STRUCT, b"\x00"))
    assert walk_pages(data + b"x" * 10).tolist() == [as_row(0, parse_page_header(data))]


def test_deep_and_endless_structures_raise():
    deep = header(0, (5, Kind.STRUCT, V1))[:-1] + b"\x4c" + b"\x1c" * 100 + b"\x00" * 101
    for data in (deep, b"\x19" + b"\x19" * 200, b"\x1b\x01\x11", b"\x15" + b"\xff" * 20):
        assert kernel_header(data) is None
    endless = header(0, (5, Kind.STRUCT, V1))[:-1] + b"\x49\xfc" + b"\xff" * 8 + b"\x7f"
    assert kernel_header(endless) in (None, "more")


# --- indexes --------------------------------------------------------------------------------------


def python_offsets(data):
    try:
        index = page_index.parse_offset_index(data)
    except ThriftError:
        return None
    return [index.offsets.tolist(), index.sizes.tolist(), index.first_rows.tolist()]


def kernel_offsets(data):
    try:
        return parse_offset_index(data).tolist()
    except PageError:
        return None


def test_offset_indexes():
    data = write_parquet(TABLE, write_page_index=True, max_rows_per_page=30)
    for column in range(4):
        index = offset_index_bytes(data, 0, column)
        assert kernel_offsets(index) == python_offsets(index)
        assert len(kernel_offsets(index)[0]) > 30


def test_offset_indexes_that_were_changed():
    rng = random.Random(2)
    data = write_parquet(TABLE, write_page_index=True, max_rows_per_page=200)
    both = 0
    for column in range(4):
        for changed in mutations(offset_index_bytes(data, 0, column), 1000, rng):
            expected, found = python_offsets(changed), kernel_offsets(changed)
            if expected is not None and found is not None:
                assert found == expected, changed.hex()
                both += 1
    assert both > 100


def python_bounds(data):
    try:
        index = page_index.parse_column_index(data)
    except ThriftError:
        return None
    bounds = {
        1: index.null_pages.tolist(),
        2: index.min_values,
        3: index.max_values,
        4: int(index.boundary_order),
    }
    if index.null_counts is not None:
        bounds[5] = index.null_counts.tolist()
    return bounds


def kernel_bounds(data):
    try:
        found = parse_column_index(data)
    except PageError:
        return None
    return {field: found[field] for field in range(1, 6) if field in found}


def test_column_indexes():
    data = write_parquet(TABLE, write_page_index=True, max_rows_per_page=30)
    for column in range(4):
        index = column_index_bytes(data, 0, column)
        assert kernel_bounds(index) == python_bounds(index)


def test_column_indexes_that_were_changed():
    rng = random.Random(3)
    data = write_parquet(TABLE, write_page_index=True, max_rows_per_page=200)
    both = 0
    for column in range(4):
        for changed in mutations(column_index_bytes(data, 0, column), 1000, rng):
            expected, found = python_bounds(changed), kernel_bounds(changed)
            if expected is not None and found is not None:
                assert found == expected, changed.hex()
                both += 1
    assert both > 100


@pytest.mark.parametrize("parse", [parse_offset_index, parse_column_index])
def test_indexes_that_are_cut_raise(parse):
    data = write_parquet(TABLE, write_page_index=True, max_rows_per_page=200)
    bytes_of = offset_index_bytes if parse is parse_offset_index else column_index_bytes
    index = bytes_of(data, 0, 1)
    for stop in range(len(index)):
        with pytest.raises(PageError):
            parse(index[:stop])


def test_long_lists_of_few_bytes_raise():
    for data in (b"\x19\xfc\xff\xff\xff\xff\x07", b"\x19\xf1\xff\xff\xff\xff\x07"):
        with pytest.raises(PageError):
            parse_offset_index(data)
        with pytest.raises(PageError):
            parse_column_index(data)


# --- sizes and readers ----------------------------------------------------------------------------


def test_a_reader_of_nested_columns_is_not_made():
    for level in (-1, 2, 3):
        with pytest.raises(UnsupportedPageError):
            PageReader(level)


def test_pages_and_rows_that_do_not_fit():
    numbers = np.arange(2)
    with pytest.raises(PageError, match="do not fit"):
        PageReader(0).set_pages(
            Scratch(), None, pa.py_buffer(b""), numbers, numbers, numbers, numbers[:1]
        )
