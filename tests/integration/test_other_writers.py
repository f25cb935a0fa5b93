"""Files of DuckDB, DataFusion, Polars and Spark, in the encodings each of them chooses.

Each file is scanned with conditions, and gives what DataFusion gives over its rows in memory. The
report says that kernels decoded every flat column, and the footer that the encodings are those the
test is about.
"""

from __future__ import annotations

import datetime as dt
import decimal

import datafusion
import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.kernels import kernel_info
from tests.dataset_files import same_values

ROWS = 30_000
CONDITIONS = [
    None,
    "k < 40",
    "k % 1000 = 7",
    "i = 77",
    "i IN (1, 5, 99) AND s LIKE '%7%'",
    "l > 4611686018427387904",
    "l IS NULL",
    "u LIKE '%/page/12%'",
    "u >= 'https://example.org/page/29'",
    "s <> '' AND f > 1.5",
    "s = 'ж7'",
    "d >= '2020-02-01'",
    "ts < '2020-01-01 05:00:00'",
    "p < -99.00",
    "q = 1234.5678",
    "NOT b",
    "b IS NULL AND g < 0",
    "h < -20 AND f IS NOT NULL",
    "m = 17",
    "m > 29990",
    "t LIKE '%r 2999%'",
    "w > 0.5 AND k < 100",
]
# Decimals of so many digits are stored as bytes, which kernels leave to PyArrow.
WIDE = "w"
NUMBERS, LENGTHS, TEXTS = "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"


def make_table():
    rng = np.random.default_rng(42)

    def gaps(values, share=0.1):
        return [None if rng.random() < share else value for value in values]

    day, start = dt.date(2020, 1, 1), dt.datetime(2020, 1, 1)  # noqa: DTZ001 a wall clock
    wide = rng.integers(-(2**63), 2**63 - 1, ROWS, dtype=np.int64).tolist()
    wide[:3] = [-(2**63), 2**63 - 1, 0]
    small = rng.integers(0, 120, ROWS).tolist()
    cents = rng.integers(-9999, 9999, ROWS).tolist()
    return pa.table(
        {
            "k": pa.array(range(ROWS), pa.int64()),
            "i": pa.array(gaps(small), pa.int32()),
            "l": pa.array(gaps(wide), pa.int64()),
            "s": pa.array(gaps([["", "ж", "日本 ", "x" * 20][n % 4] + str(n) for n in small])),
            "u": pa.array(
                gaps([f"https://example.org/page/{n * 7919 % ROWS}" for n in range(ROWS)])
            ),
            "d": pa.array(gaps([day + dt.timedelta(n) for n in small]), pa.date32()),
            "ts": pa.array(
                gaps([start + dt.timedelta(seconds=n, microseconds=n) for n in range(ROWS)]),
                pa.timestamp("us"),
            ),
            "f": pa.array(gaps(rng.normal(size=ROWS).tolist()), pa.float64()),
            "g": pa.array(gaps(rng.normal(size=ROWS).tolist()), pa.float32()),
            "p": pa.array(
                gaps([decimal.Decimal(n).scaleb(-2) for n in cents]), pa.decimal128(9, 2)
            ),
            "q": pa.array(
                gaps([decimal.Decimal(n * 1234).scaleb(-4) for n in cents]), pa.decimal128(18, 4)
            ),
            "h": pa.array(gaps([n - 60 for n in small]), pa.int16()),
            # A dictionary is worth its while at first, and soon becomes too large.
            "m": pa.array(gaps([n % 50 if n < 18_000 else n for n in range(ROWS)]), pa.int64()),
            "t": pa.array(gaps([f"number {n % 50 if n < 18_000 else n}" for n in range(ROWS)])),
            WIDE: pa.array(
                gaps([decimal.Decimal(n).scaleb(-3) for n in cents]), pa.decimal128(30, 3)
            ),
            "b": pa.array(gaps([n % 3 == 0 for n in small]), pa.bool_()),
        }
    )


@pytest.fixture(scope="module")
def table():
    return make_table()


@pytest.fixture(scope="module")
def source(table, tmp_path_factory):
    """The rows as a file that every writer can read."""
    path = tmp_path_factory.mktemp("source") / "rows.parquet"
    pq.write_table(table, path)
    return path


def encodings_of(path):
    group = pq.read_metadata(path).row_group(0)
    chunks = [group.column(number) for number in range(group.num_columns)]
    return {chunk.path_in_schema: set(chunk.encodings) for chunk in chunks}


def check_scans(path, *, spliced=(WIDE,)):
    """Compares every condition with DataFusion; columns of `spliced` are left to PyArrow."""
    expected = pq.read_table(path)
    context = datafusion.SessionContext()
    context.register_record_batches("t", [expected.to_batches()])
    for condition in CONDITIONS:
        where = "" if condition is None else f" WHERE {condition}"
        batches = context.sql(f"SELECT * FROM t{where} ORDER BY k").collect()
        wanted = pa.Table.from_batches(batches, expected.schema)
        data = lm.dataset(path)
        found = data.to_table(filter=condition)
        assert same_values(found, wanted), condition
        report = data.scan_reports()[-1]
        if not kernel_info().is_active:
            assert report.chunks_by_kernels == 0
            continue
        row_groups = pq.read_metadata(path).num_row_groups
        assert report.chunks_by_splice <= len(spliced) * row_groups, condition
        if condition is None:
            flat = len(expected.column_names) - len(spliced)
            assert report.chunks_by_kernels == flat * row_groups
            assert report.chunks_by_splice == len(spliced) * row_groups


@pytest.mark.parametrize("codec", ["uncompressed", "snappy", "zstd"])
@pytest.mark.parametrize("version", ["V1", "V2"])
def test_duckdb(source, tmp_path, version, codec):
    path = tmp_path / "duckdb.parquet"
    duckdb.sql(
        f"COPY (FROM '{source}') TO '{path}'"
        f" (FORMAT parquet, PARQUET_VERSION {version}, COMPRESSION {codec}, ROW_GROUP_SIZE 10000)"
    )
    if version == "V2":
        encodings = encodings_of(path)
        assert all(NUMBERS in encodings[name] for name in ("k", "l", "ts", "p", "q"))
        assert LENGTHS in encodings["u"]
        assert all("BYTE_STREAM_SPLIT" in encodings[name] for name in ("f", "g"))
    check_scans(path)


@pytest.mark.parametrize("codec", ["uncompressed", "snappy"])
@pytest.mark.parametrize("dictionary", [False, True], ids=["deltas", "dictionary first"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_datafusion(source, tmp_path, version, dictionary, codec):
    path = tmp_path / "datafusion.parquet"
    options = datafusion.ParquetWriterOptions(
        compression=codec,
        writer_version=version,
        dictionary_enabled=dictionary,
        dictionary_page_size_limit=2000,
        data_page_row_count_limit=900,
        write_batch_size=100,
        max_row_group_size=10_000,
        allow_single_file_parallelism=False,
    )
    config = datafusion.SessionConfig().with_target_partitions(1)
    frame = datafusion.SessionContext(config).read_parquet(source)
    frame.write_parquet_with_options(path, options)
    if version == "2.0":
        encodings = encodings_of(path)
        assert all(NUMBERS in encodings[name] for name in ("k", "l", "ts", "p", "q"))
        assert TEXTS in encodings["u"]
        assert ("RLE_DICTIONARY" in encodings["u"]) == dictionary
    check_scans(path)


@pytest.mark.parametrize("codec", ["uncompressed", "snappy", "zstd", "gzip", "brotli", "lz4"])
def test_polars(table, tmp_path, codec):
    path = tmp_path / "polars.parquet"
    pl.from_arrow(table).write_parquet(
        path, compression=codec, row_group_size=10_000, data_page_size=8192, use_pyarrow=False
    )
    check_scans(path)


@pytest.fixture(scope="module")
def spark():
    pytest.importorskip("pyspark")
    from clickbench.spark_session import JavaMissingError, spark_session

    try:
        session = spark_session(1)
    except JavaMissingError as error:
        pytest.skip(str(error))
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def write_by_spark(spark, source, folder, version, codec):
    options = {
        "parquet.writer.version": version,
        "parquet.page.size": "8192",
        "parquet.dictionary.page.size": "20000",
        "compression": codec,
    }
    # Of the two kinds of timestamp that with a time zone, which settings are about.
    rows = spark.read.parquet(str(source)).selectExpr("* EXCEPT (ts)", "CAST(ts AS timestamp) ts")
    rows.coalesce(1).write.options(**options).parquet(str(folder))
    (path,) = folder.glob("*.parquet")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_spark(spark, source, tmp_path, version, codec):
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    path = write_by_spark(spark, source, tmp_path / "spark", version, codec)
    if version == "v2":
        encodings = encodings_of(path)
        assert all(NUMBERS in encodings[name] for name in ("k", "l", "ts", "p", "q", "m"))
        assert all(TEXTS in encodings[name] for name in ("u", "t"))
        assert all("RLE_DICTIONARY" in encodings[name] for name in ("i", "s", "m", "t"))
    check_scans(path)


@pytest.mark.slow
def test_spark_with_timestamps_of_96_bits(spark, source, tmp_path):
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    path = write_by_spark(spark, source, tmp_path / "spark", "v2", "snappy")
    check_scans(path, spliced=(WIDE, "ts"))
