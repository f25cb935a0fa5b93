from __future__ import annotations

import datafusion
import duckdb
import pyarrow as pa
import pytest

from lm_datafusion.formats.parquet.page_header import (
    NO_ENCODING,
    PageHeader,
    parse_page_header,
    walk_page_headers,
)
from lm_datafusion.formats.parquet.spec import Encoding, PageType
from lm_datafusion.formats.parquet.thrift import (
    Kind,
    NeedMoreData,
    ThriftError,
    read_struct,
    write_struct,
)
from tests.parquet_files import chunk_bytes, each_corpus_file, metadata_of, write_parquet

ROWS = 1000
TABLE = pa.table(
    {
        "number": pa.array(range(ROWS), pa.int64()),
        "text": [None if row % 10 == 0 else f"value {row % 7}" for row in range(ROWS)],
        "list": [list(range(row % 4)) for row in range(ROWS)],
    }
)
DATA_PAGES = (PageType.DATA_V1, PageType.DATA_V2)


def headers_of(data, column):
    return [header for _, header in walk_page_headers(chunk_bytes(data, 0, column))]


def data_pages_of(data, column):
    return [header for header in headers_of(data, column) if header.kind in DATA_PAGES]


def page_header(kind, fields=(), *, uncompressed=10, compressed=10):
    sizes = [(1, Kind.I32, kind), (2, Kind.I32, uncompressed), (3, Kind.I32, compressed)]
    return write_struct([*sizes, *fields])


def v2_page(*, levels=(2, 3), extra=()):
    counts = zip((1, 2, 3, 4, 5, 6), (7, 1, 6, 8, *levels), strict=True)
    return write_struct([*((n, Kind.I32, value) for n, value in counts), *extra])


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("write_page_index", [True, False])  # False: statistics in the headers
def test_pages_of_pyarrow(compression, version, write_page_index):
    data = write_parquet(
        TABLE,
        compression=compression,
        data_page_version=version,
        write_page_index=write_page_index,
        max_rows_per_page=100,
        use_dictionary=["text"],
    )
    number, text = data_pages_of(data, 0), data_pages_of(data, 1)
    kind = PageType.DATA_V1 if version == "1.0" else PageType.DATA_V2
    assert [page.kind for page in number] == [kind] * 10
    assert [page.num_values for page in number] == [100] * 10
    assert {page.encoding for page in number} == {Encoding.PLAIN}
    assert {page.encoding for page in text} == {Encoding.RLE_DICTIONARY}
    assert sum(page.num_values for page in data_pages_of(data, 2)) == sum(
        r % 4 or 1 for r in range(ROWS)
    )
    if kind is PageType.DATA_V2:
        assert [page.num_rows for page in data_pages_of(data, 2)] == [100] * 10
        assert [page.num_nulls for page in text] == [10] * 10
        assert {page.repetition_levels_bytes for page in text} == {0}
        assert all(page.definition_levels_bytes > 0 for page in text)
    else:
        assert {(page.num_rows, page.num_nulls) for page in text} == {(None, None)}
    dictionary = headers_of(data, 1)[0]
    assert (dictionary.kind, dictionary.num_values) == (PageType.DICTIONARY, 7)
    assert dictionary.uncompressed_size == sum(4 + len(f"value {n}") for n in range(7))


def test_statistics_in_a_header_are_passed_over():
    long = pa.table({"s": ["x" * 300, "y" * 300]})
    chunk = chunk_bytes(write_parquet(long, use_dictionary=False), 0, 0)
    assert 5 in read_struct(chunk)[0][5], "the writer put no statistics into the header"
    header = parse_page_header(chunk)
    assert header.num_values == 2
    assert header.header_bytes > 600
    assert header.header_bytes + header.compressed_size == len(chunk)


def check_whole_file(data):
    metadata = metadata_of(data)
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(column)
            headers = [header for _, header in walk_page_headers(chunk_bytes(data, group, column))]
            pages = [header for header in headers if header.kind in DATA_PAGES]
            assert sum(page.num_values for page in pages) == chunk.num_values
            sizes = sum(page.header_bytes + page.uncompressed_size for page in headers)
            if sizes != chunk.total_uncompressed_size:
                # Some writers leave the headers out, or the dictionary.
                assert sizes > chunk.total_uncompressed_size
            encodings = {Encoding(page.encoding).name for page in pages}
            assert encodings <= set(chunk.encodings) or not chunk.encodings


@each_corpus_file
def test_pages_of_the_corpus(path):
    check_whole_file(path.read_bytes())


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_pages_of_datafusion(tmp_path, version):
    context = datafusion.SessionContext()
    context.from_arrow(TABLE, "t")
    path = tmp_path / "t.parquet"
    context.sql(
        f"COPY t TO '{path}' STORED AS PARQUET OPTIONS ('format.writer_version' '{version}')"
    ).collect()
    data = path.read_bytes()
    check_whole_file(data)
    kind = PageType.DATA_V1 if version == "1.0" else PageType.DATA_V2
    assert {page.kind for page in data_pages_of(data, 0)} == {kind}


@pytest.mark.parametrize("version", ["V1", "V2"])
def test_pages_of_duckdb(tmp_path, version):
    path = tmp_path / "t.parquet"
    with duckdb.connect() as connection:
        connection.register("t", TABLE)
        connection.execute(f"COPY t TO '{path}' (FORMAT parquet, PARQUET_VERSION {version})")
    check_whole_file(path.read_bytes())


def test_offsets_lead_to_the_headers():
    chunk = chunk_bytes(write_parquet(TABLE, max_rows_per_page=100), 0, 1)
    for offset, header in walk_page_headers(pa.py_buffer(chunk)):
        assert parse_page_header(chunk, offset) == header
        assert parse_page_header(chunk[offset:]) == header


@pytest.mark.parametrize("is_compressed", [True, False, None])
def test_v2_page(is_compressed):
    extra = [] if is_compressed is None else [(7, Kind.BOOL, is_compressed)]
    data = page_header(3, [(8, Kind.STRUCT, v2_page(extra=extra))])
    assert parse_page_header(data + b"body") == PageHeader(
        kind=PageType.DATA_V2,
        header_bytes=len(data),
        uncompressed_size=10,
        compressed_size=10,
        num_values=7,
        encoding=Encoding.RLE_DICTIONARY,
        num_rows=6,
        num_nulls=1,
        is_compressed=is_compressed is not False,
        definition_levels_bytes=2,
        repetition_levels_bytes=3,
    )


def test_index_page():
    data = page_header(1, [(4, Kind.I32, -5), (6, Kind.STRUCT, b"\x00")])
    header = parse_page_header(data)
    assert (header.kind, header.num_values, header.encoding) == (PageType.INDEX, 0, NO_ENCODING)
    assert header.header_bytes == len(data)


V1_PAGE = write_struct([(1, Kind.I32, 3), (2, Kind.I32, 0), (3, Kind.I32, 3), (4, Kind.I32, 3)])
NO_PAGE = write_struct([(1, Kind.I32, -3), *((n, Kind.I32, 3) for n in (2, 3, 4))])
NO_LEVELS = write_struct([(1, Kind.I32, 3), (2, Kind.I32, 0), (3, Kind.I32, 3)])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x00", "field 1 should be int"),
        (page_header(9, [(5, Kind.STRUCT, V1_PAGE)]), "page type 9"),
        (page_header(-1, [(5, Kind.STRUCT, V1_PAGE)]), "page type -1"),
        (page_header(0, [(7, Kind.STRUCT, V1_PAGE)]), "field 5 should be dict"),
        (page_header(2, [(5, Kind.STRUCT, V1_PAGE)]), "field 7 should be dict"),
        (page_header(3, [(5, Kind.STRUCT, V1_PAGE)]), "field 8 should be dict"),
        (page_header(0, [(5, Kind.STRUCT, NO_PAGE)]), "it is -3"),
        (page_header(0, [(5, Kind.STRUCT, NO_LEVELS)]), "field 4 should be int"),
        (page_header(0, [(5, Kind.STRUCT, V1_PAGE)], compressed=-1), "it is -1"),
        (page_header(0, [(5, Kind.STRUCT, V1_PAGE)], uncompressed=-1), "it is -1"),
        (page_header(3, [(8, Kind.STRUCT, v2_page(levels=(6, 6)))]), "longer than the page"),
        (page_header(3, [(8, Kind.STRUCT, v2_page(levels=(-1, 0)))]), "it is -1"),
    ],
)
def test_what_is_no_page_header_raises(data, message):
    with pytest.raises(ThriftError, match=message) as info:
        parse_page_header(data)
    assert not isinstance(info.value, NeedMoreData)


def test_a_header_that_is_cut_asks_for_more():
    chunk = chunk_bytes(write_parquet(TABLE), 0, 1)
    size = parse_page_header(chunk).header_bytes
    for stop in range(size):
        with pytest.raises(NeedMoreData):
            parse_page_header(chunk[:stop])
    assert parse_page_header(chunk[:size]) == parse_page_header(chunk)


def test_a_walk_over_a_cut_chunk_asks_for_more_at_the_cut():
    chunk = chunk_bytes(write_parquet(TABLE, max_rows_per_page=500), 0, 0)
    walk = walk_page_headers(chunk[:-1])
    pages = list(walk_page_headers(chunk))
    for expected in pages[:-1]:
        assert next(walk) == expected
    with pytest.raises(NeedMoreData):
        next(walk)
    assert list(walk_page_headers(b"")) == []
