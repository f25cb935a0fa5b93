from __future__ import annotations

import struct

import datafusion
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lm_datafusion.formats.parquet.bloom_filter import BloomFilter, parse_bloom_filter_header
from lm_datafusion.formats.parquet.thrift import Kind, NeedMoreData, ThriftError, write_struct
from tests.parquet_files import (
    CORPUS_DATA,
    bloom_filter_bytes,
    metadata_of,
    needs_corpus,
    write_parquet,
)

DISTINCT = 3000
ABSENT = 20_000
# DuckDB writes filters for columns it codes with a dictionary: values come more than once.
TABLE = pa.table(
    {
        "i64": pa.array([n * 3 for n in range(DISTINCT)] * 4, pa.int64()),
        "i32": pa.array([n * 3 for n in range(DISTINCT)] * 4, pa.int32()),
        "f64": pa.array([n * 1.5 for n in range(DISTINCT)] * 4, pa.float64()),
        "text": [f"value {n}" for n in range(DISTINCT)] * 4,
    }
)
PLAIN = {
    "i64": struct.Struct("<q").pack,
    "i32": struct.Struct("<i").pack,
    "f64": struct.Struct("<d").pack,
    "text": str.encode,
}
ABSENT_VALUES = {
    "i64": [n * 3 + 1 for n in range(ABSENT)],
    "i32": [n * 3 + 1 for n in range(ABSENT)],
    "f64": [n * 1.5 + 0.25 for n in range(ABSENT)],
    "text": [f"absent {n}" for n in range(ABSENT)],
}


def written_by_pyarrow(path):
    options = {name: {"ndv": DISTINCT, "fpp": 0.01} for name in TABLE.column_names}
    path.write_bytes(write_parquet(TABLE, bloom_filter_options=options))


def written_by_datafusion(path):
    context = datafusion.SessionContext()
    context.from_arrow(TABLE, "t")
    context.sql(
        f"COPY t TO '{path}' STORED AS PARQUET OPTIONS ('format.bloom_filter_on_write' 'true', "
        f"'format.bloom_filter_ndv' '{DISTINCT}', 'format.bloom_filter_fpp' '0.01')"
    ).collect()


def written_by_duckdb(path):
    with duckdb.connect() as connection:
        connection.register("t", TABLE)
        connection.execute(
            f"COPY t TO '{path}' (FORMAT parquet, DICTIONARY_SIZE_LIMIT {DISTINCT}, "
            "BLOOM_FILTER_FALSE_POSITIVE_RATIO 0.01)"
        )


def load_filter(data, column):
    raw = bloom_filter_bytes(data, 0, column)
    num_bytes, header_bytes = parse_bloom_filter_header(raw)
    if metadata_of(data).row_group(0).column(column).bloom_filter_length:
        assert header_bytes + num_bytes == len(raw)
    return BloomFilter(raw[header_bytes : header_bytes + num_bytes])


@pytest.mark.parametrize("write", [written_by_pyarrow, written_by_datafusion, written_by_duckdb])
@pytest.mark.parametrize("name", TABLE.column_names)
def test_filters_of_writers(tmp_path, write, name):
    path = tmp_path / "t.parquet"
    write(path)
    bloom_filter = load_filter(path.read_bytes(), TABLE.column_names.index(name))
    present = [PLAIN[name](value) for value in TABLE[name].unique().to_pylist()]
    assert all(map(bloom_filter.might_contain, present))
    absent = [PLAIN[name](value) for value in ABSENT_VALUES[name]]
    false_positives = sum(map(bloom_filter.might_contain, absent))
    # They were asked for 1 %; a filter that is full says yes to everything.
    assert false_positives < 0.02 * ABSENT
    assert len(bloom_filter.bitset) < 16 * DISTINCT


@needs_corpus
@pytest.mark.parametrize(
    "name",
    ["data_index_bloom_encoding_stats.parquet", "data_index_bloom_encoding_with_length.parquet"],
)
def test_filters_of_the_corpus(name):
    data = (CORPUS_DATA / name).read_bytes()
    bloom_filter = load_filter(data, 0)
    values = pq.read_table(CORPUS_DATA / name)["String"].to_pylist()
    assert values
    assert all(bloom_filter.might_contain(value.encode()) for value in values)
    assert sum(bloom_filter.might_contain(b"absent %d" % n) for n in range(1000)) < 50


@needs_corpus
def test_filter_of_parquet_java():
    raw = (CORPUS_DATA / "bloom_filter.xxhash.bin").read_bytes()
    assert parse_bloom_filter_header(raw) == (1024, 16)
    bloom_filter = BloomFilter(raw[16:])
    for word in (b"hello", b"parquet", b"bloom", b"filter"):
        assert bloom_filter.might_contain(word)
    assert not bloom_filter.might_contain_any(b"absent %d" % n for n in range(1000))


@needs_corpus
def test_filter_from_before_the_specification_is_refused():
    """Murmur3, behind three plain integers: what was there before the header was Thrift."""
    raw = (CORPUS_DATA / "bloom_filter.bin").read_bytes()
    with pytest.raises(ThriftError):
        parse_bloom_filter_header(raw)


def header(num_bytes=64, *, algorithm=1, hashing=1, compression=1):
    unions = ((2, algorithm), (3, hashing), (4, compression))
    return write_struct(
        [
            (1, Kind.I32, num_bytes),
            *(
                (field_id, Kind.STRUCT, write_struct([(member, Kind.STRUCT, b"\x00")]))
                for field_id, member in unions
            ),
        ]
    )


def test_header():
    data = header()
    assert parse_bloom_filter_header(data + b"\xff" * 64) == (64, len(data))
    for stop in range(len(data)):
        with pytest.raises(NeedMoreData):
            parse_bloom_filter_header(data[:stop])


@pytest.mark.parametrize("union", ["algorithm", "hashing", "compression"])
def test_unknown_choices_are_left_alone(union):
    assert parse_bloom_filter_header(header(**{union: 2})) is None


@pytest.mark.parametrize("num_bytes", [0, -32, 31, 33])
def test_sizes_that_are_no_blocks_raise(num_bytes):
    with pytest.raises(ThriftError, match="cannot have"):
        parse_bloom_filter_header(header(num_bytes))
    if num_bytes >= 0:
        with pytest.raises(ThriftError, match="cannot have"):
            BloomFilter(bytes(num_bytes))


def test_header_without_choices_raises():
    with pytest.raises(ThriftError, match="field 2"):
        parse_bloom_filter_header(write_struct([(1, Kind.I32, 32)]))


def test_any():
    empty, full = BloomFilter(bytes(64)), BloomFilter(b"\xff" * 64)
    assert not empty.might_contain_any([b"a", b"b"])
    assert full.might_contain_any([b"a"])
    assert not full.might_contain_any([])
