from __future__ import annotations

import dataclasses
import struct

import datafusion
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lm_datafusion.formats.parquet import page_index
from lm_datafusion.formats.parquet.page_header import walk_page_headers
from lm_datafusion.formats.parquet.page_index import parse_column_index, parse_offset_index
from lm_datafusion.formats.parquet.spec import BoundaryOrder, PageType
from lm_datafusion.formats.parquet.thrift import (
    Kind,
    NeedMoreData,
    ThriftError,
    read_struct,
    write_struct,
)
from tests.parquet_files import (
    CORPUS_DATA,
    chunk_bytes,
    chunk_start,
    column_chunk,
    column_index_bytes,
    each_corpus_file,
    metadata_of,
    needs_corpus,
    offset_index_bytes,
    write_parquet,
)

ROWS = 2600
TABLE = pa.table(
    {
        "number": pa.array(range(ROWS), pa.int64()),
        "falling": pa.array(range(ROWS, 0, -1), pa.int32()),
        # The second hundred rows are all null, so is every tenth row.
        "text": [
            None if 100 <= row < 200 or row % 10 == 0 else f"v{row * 7919 % ROWS:05d}"
            for row in range(ROWS)
        ],
        "list": [list(range(row % 4)) for row in range(ROWS)],
    }
)


def written_by_pyarrow(tmp_path):
    return write_parquet(TABLE, write_page_index=True, max_rows_per_page=100)


def written_by_datafusion(tmp_path):
    context = datafusion.SessionContext()
    context.from_arrow(TABLE, "t")
    path = tmp_path / "t.parquet"
    context.sql(
        f"COPY t TO '{path}' STORED AS PARQUET OPTIONS ("
        "'format.data_page_row_count_limit' '100', 'format.write_batch_size' '10')"
    ).collect()
    return path.read_bytes()


WRITERS = pytest.mark.parametrize("write", [written_by_pyarrow, written_by_datafusion])


def check_against_headers(data, group, column):
    """The index says where the pages are: walk the headers and look."""
    index = parse_offset_index(offset_index_bytes(data, group, column))
    start = chunk_start(data, group, column)
    pages = [
        (start + offset, header)
        for offset, header in walk_page_headers(chunk_bytes(data, group, column))
        if header.kind in (PageType.DATA_V1, PageType.DATA_V2)
    ]
    assert index.offsets.tolist() == [offset for offset, _ in pages]
    assert index.sizes.tolist() == [h.header_bytes + h.compressed_size for _, h in pages]
    return index, [header for _, header in pages]


@WRITERS
def test_offset_index_of_known_pages(tmp_path, write):
    data = write(tmp_path)
    for column in range(3):
        index, _ = check_against_headers(data, 0, column)
        assert index.first_rows.tolist() == list(range(0, ROWS, 100))


@WRITERS
def test_offset_index_of_a_repeated_column(tmp_path, write):
    """Pages of lists need not have a hundred rows each; their number of values tells how many."""
    index, headers = check_against_headers(write(tmp_path), 0, 3)
    assert len(headers) > 20
    stops = [*index.first_rows.tolist()[1:], ROWS]
    for first, stop, header in zip(index.first_rows.tolist(), stops, headers, strict=True):
        assert header.num_values == sum(row % 4 or 1 for row in range(first, stop))


@WRITERS
def test_column_index_of_known_pages(tmp_path, write):
    data = write(tmp_path)
    number, falling, text = (parse_column_index(column_index_bytes(data, 0, n)) for n in range(3))
    firsts = range(0, ROWS, 100)
    assert number.boundary_order is BoundaryOrder.ASCENDING
    assert number.min_values == [struct.pack("<q", first) for first in firsts]
    assert number.max_values == [struct.pack("<q", first + 99) for first in firsts]
    assert number.null_counts.tolist() == [0] * 26
    assert falling.boundary_order is BoundaryOrder.DESCENDING
    assert falling.max_values == [struct.pack("<i", ROWS - first) for first in firsts]
    assert text.boundary_order is BoundaryOrder.UNORDERED
    assert text.null_pages.tolist() == [page == 1 for page in range(26)]
    assert text.null_counts.tolist() == [100 if page == 1 else 10 for page in range(26)]
    values = TABLE["text"].to_pylist()
    for page, first in enumerate(firsts):
        present = sorted(v.encode() for v in values[first : first + 100] if v is not None)
        bounds = [text.min_values[page], text.max_values[page]]
        assert bounds == ([present[0], present[-1]] if present else [b"", b""])


@each_corpus_file
def test_indexes_of_the_corpus(path):
    data = path.read_bytes()
    metadata = metadata_of(data)
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(column)
            assert (4 in column_chunk(data, group, column)) == chunk.has_offset_index
            if chunk.has_offset_index:
                index, _ = check_against_headers(data, group, column)
                assert index.first_rows[-1] < metadata.row_group(group).num_rows
            if chunk.has_column_index and "checksum" not in path.name:
                bounds = parse_column_index(column_index_bytes(data, group, column))
                assert len(bounds.null_pages) == len(index.offsets)


@needs_corpus
def test_an_index_without_statistics_is_refused():
    """It calls every page null, though no value is: believing it would lose all rows."""
    path = CORPUS_DATA / "datapage_v1-uncompressed-checksum.parquet"
    assert pq.read_table(path)["a"].null_count == 0
    raw = column_index_bytes(path.read_bytes(), 0, 0)
    assert read_struct(raw)[0][1] == [True, True]
    with pytest.raises(ThriftError, match="null count of -1"):
        parse_column_index(raw)


def test_arrays_cannot_be_written_to(tmp_path):
    data = written_by_pyarrow(tmp_path)
    index = parse_offset_index(offset_index_bytes(data, 0, 2))
    bounds = parse_column_index(column_index_bytes(data, 0, 2))
    for array in (index.offsets, index.sizes, index.first_rows):
        assert array.dtype == np.int64
        assert array.flags.c_contiguous
        assert not array.flags.writeable
    assert not bounds.null_pages.flags.writeable
    assert not bounds.null_counts.flags.writeable
    with pytest.raises(dataclasses.FrozenInstanceError):
        index.sizes = None


def location(offset, size, first_row, *, extra=()):
    values = ((1, Kind.I64, offset), (2, Kind.I32, size), (3, Kind.I64, first_row))
    return write_struct([*values, *extra])


def offset_index(locations, *, extra=()):
    return write_struct([(1, Kind.LIST, (Kind.STRUCT, locations)), *extra])


def pages(count, *, step=10**9, rows=10**7):
    return [location(4 + n * step, 10 + n, n * rows) for n in range(count)]


@pytest.mark.parametrize("count", [1, 2, 7, 8, 14, 15, 16, 127, 128, 1000])
@pytest.mark.parametrize("step", [2000, 10**9, 2**40])
@pytest.mark.parametrize("sizes", [[], [(2, Kind.LIST, (Kind.I64, [1, 2, 300]))]])
def test_regular_and_irregular_reading_agree(monkeypatch, count, step, sizes):
    data = offset_index(pages(count, step=step), extra=sizes)
    generic = page_index._irregular_locations(data)
    monkeypatch.delattr(page_index, "_irregular_locations")  # the fast path must do
    index = parse_offset_index(data)
    assert np.array_equal(np.stack([index.offsets, index.sizes, index.first_rows], 1), generic)
    assert index.offsets.tolist() == [4 + n * step for n in range(count)]
    assert index.sizes.tolist() == [10 + n for n in range(count)]


@pytest.mark.parametrize(
    "data",
    [
        # a field that a later version may add to a location
        offset_index([location(4, 9, 0, extra=[(4, Kind.I32, 7)]), location(20, 9, 5)]),
        # fields in another order, in the long form
        offset_index(
            [
                write_struct([(3, Kind.I64, 0), (1, Kind.I64, 4), (2, Kind.I32, 9)]),
                location(20, 9, 5),
            ]
        ),
        # a field before the list, one of an unknown id after it
        write_struct([(0, Kind.I32, 1), (1, Kind.LIST, (Kind.STRUCT, pages(2, step=16, rows=5)))]),
        offset_index(pages(2, step=16, rows=5), extra=[(9, Kind.BINARY, b"later")]),
        # an integer with more bytes than it needs
        bytes.fromhex("19 2c 16 88808080808080808000 15 12 16 00 00 16 28 15 12 16 0a 00 00"),
    ],
)
def test_irregular_indexes_are_read(data):
    assert page_index._try_regular_locations(data) is None
    index = parse_offset_index(data)
    assert index.offsets.tolist() == [4, 20]
    assert index.first_rows.tolist() == [0, 5]


def test_an_index_of_no_pages():
    index = parse_offset_index(offset_index([]))
    assert (len(index.offsets), len(index.sizes), len(index.first_rows)) == (0, 0, 0)


@pytest.mark.parametrize(
    ("locations", "message"),
    [
        ([(4, 9, 1)], "rows are not in order"),
        ([(4, 9, 0), (20, 9, 0)], "rows are not in order"),
        ([(4, 9, 0), (20, 9, 8), (30, 9, 7)], "rows are not in order"),
        ([(4, 9, 0), (20, 9, -8)], "rows are not in order"),
        ([(4, 0, 0)], "without bytes"),
        ([(4, 9, 0), (20, -9, 8)], "without bytes"),
        ([(-4, 9, 0)], "overlap"),
        ([(2**62, 9, 0), (-(2**63), 9, 8)], "overlap"),  # their difference does not fit
        ([(20, 9, 0), (4, 9, 8)], "overlap"),
        ([(4, 9, 0), (12, 9, 8)], "overlap"),
    ],
)
def test_pages_in_no_order_raise(locations, message):
    with pytest.raises(ThriftError, match=message):
        parse_offset_index(offset_index([location(*values) for values in locations]))


@pytest.mark.parametrize("count", [1, 20])
def test_a_cut_offset_index_raises(count):
    data = offset_index(pages(count))
    for stop in range(len(data)):
        with pytest.raises(NeedMoreData):
            parse_offset_index(data[:stop])


@pytest.mark.parametrize(
    "data",
    [
        b"\x00",
        write_struct([(1, Kind.I32, 4)]),
        write_struct([(1, Kind.LIST, (Kind.I32, [1, 2]))]),
        offset_index([write_struct([(1, Kind.I64, 4), (2, Kind.I32, 9)])]),
        offset_index([write_struct([(1, Kind.I64, 4), (2, Kind.BINARY, b"9"), (3, Kind.I64, 0)])]),
    ],
)
def test_what_is_no_offset_index_raises(data):
    with pytest.raises(ThriftError, match="should be"):
        parse_offset_index(data)


def column_index(**changed):
    fields = {
        "null_pages": (1, Kind.LIST, (Kind.BOOL, [False, True])),
        "min_values": (2, Kind.LIST, (Kind.BINARY, [b"a", b""])),
        "max_values": (3, Kind.LIST, (Kind.BINARY, [b"b", b""])),
        "boundary_order": (4, Kind.I32, 1),
        "null_counts": (5, Kind.LIST, (Kind.I64, [0, 9])),
    }
    for name, value in changed.items():
        fields[name] = None if value is None else (*fields[name][:2], value)
    return write_struct(field for field in fields.values() if field is not None)


def test_column_index_with_and_without_null_counts():
    index = parse_column_index(column_index())
    assert index.null_pages.tolist() == [False, True]
    assert (index.min_values, index.max_values) == ([b"a", b""], [b"b", b""])
    assert index.null_counts.tolist() == [0, 9]
    assert parse_column_index(column_index(null_counts=None)).null_counts is None


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"null_pages": (Kind.BOOL, [False])}, "differ in length"),
        ({"min_values": (Kind.BINARY, [])}, "differ in length"),
        ({"max_values": (Kind.BINARY, [b""] * 3)}, "differ in length"),
        ({"null_counts": (Kind.I64, [])}, "differ in length"),
        ({"null_counts": (Kind.I64, [0, -1])}, "null count of -1"),
        ({"null_counts": (Kind.BINARY, [b"", b""])}, "field 5 should be a list of int"),
        ({"null_pages": (Kind.I32, [0, 1])}, "field 1 should be a list of bool"),
        ({"boundary_order": 3}, "boundary order 3"),
        ({"boundary_order": -1}, "boundary order -1"),
        ({"boundary_order": None}, "field 4 should be int"),
        ({"min_values": None}, "field 2 should be list"),
    ],
)
def test_what_is_no_column_index_raises(changed, message):
    with pytest.raises(ThriftError, match=message):
        parse_column_index(column_index(**changed))
