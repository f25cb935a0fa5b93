"""The dataset in the engines that take one: each gives the answer it gives over memory."""

from __future__ import annotations

import datetime as dt
import decimal
import threading

import datafusion
import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from tests.dataset_files import (
    many_kinds,
    same_values,
    sorted_rows,
    wait_until_idle,
    write_many_kinds,
)

NAN = float("nan")
JANUARY_3 = dt.datetime(2024, 1, 3)  # noqa: DTZ001 a wall clock
# What all engines here can say.
CONDITIONS = [
    "a IN (1, 2, 3, 4, 5)",
    "a NOT IN (1, 2, 3, 4, 5)",
    "a NOT IN (1, 2)",
    "a = 3.5",
    "a BETWEEN 2 AND 5",
    "a NOT BETWEEN 2 AND 5",
    "a IS DISTINCT FROM 3",
    "a IS NULL",
    "a + 1 > 4",
    "coalesce(a, 0) = 0",
    "small < 0",
    "small > 200",
    "u > 72057594037927936",
    "u = 18014398509481984",
    "f > 1",
    "f < 1",
    "f >= 0.0",
    "f <> 1",
    "f <= 1",
    "NOT (f > 1)",
    "f IN (1.0, 1.5, 3.25)",
    "f IS NULL",
    "isnan(f)",
    "g > 1",
    "g BETWEEN 0 AND 2",
    "s = 'apple'",
    "s <> ''",
    "s IS NOT NULL",
    "s IN ('a', 'apple', 'banana', 'cherry', 'x')",
    "s NOT IN ('a', 'apple', 'banana', 'cherry', 'x')",
    "s LIKE 'a%'",
    "s = 'it''s'",
    "k > 'key 5'",
    "b",
    "NOT b",
    "b IS NULL",
    "b = true",
    "d > '2024-03-01'",
    "d = '2024-03-01'",
    "ts > '2024-01-03 00:00:00'",
    "tms > '2024-01-03 00:00:00'",
    "tus = '2024-01-03 01:00:00'",
    "tns > '2024-01-03 00:00:00'",
    "tz > '2024-01-03 00:00:00Z'",
    "dec > 0.5",
    "dec = -1.00",
    "dec BETWEEN -0.5 AND 0.5",
    "dic = 'apple'",
    "dic <> 'apple'",
    "dic IN ('apple', 'banana')",
    "lst IS NULL",
    "st IS NOT NULL",
    "a > 3 AND f > 1 OR s = 'apple'",
    "id >= 60 AND id < 70 AND k <> 'key 1'",
    "id > 1000",
    "1 = 0",
    "a = NULL",
]
QUERIES = [
    "SELECT count(*) FROM t",
    "SELECT count(*), count(a), count(s), sum(a) FROM t WHERE id < 100",
    "SELECT id, k FROM t WHERE a = 5",
    "SELECT k FROM t WHERE s = 'apple'",
    "SELECT s, count(*), min(id), max(dec), sum(small) FROM t GROUP BY s",
    "SELECT b, d, count(*) FROM t WHERE d IS NOT NULL GROUP BY b, d",
    "SELECT l.id, r.k FROM t AS l JOIN t AS r ON l.id = r.a WHERE r.s = 'banana'",
    "SELECT l.id, r.id FROM t AS l LEFT JOIN t AS r ON l.id = r.id + 1 AND r.f > 1 WHERE l.id < 40",
    "SELECT id, f FROM t ORDER BY f DESC NULLS LAST, id LIMIT 7",
    "SELECT id FROM t WHERE a > (SELECT avg(a) FROM t)",
    "SELECT id FROM t WHERE id IN (SELECT a FROM t WHERE s = 'apple')",
    "SELECT DISTINCT tms FROM t WHERE tms < '2024-01-04 00:00:00'",
    "SELECT max(tns), min(tz), max(ts), min(tus) FROM t",
    "SELECT id, lst, st FROM t WHERE id % 50 = 1",
]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("engines") / "kinds.parquet"
    write_many_kinds(path)
    return path


@pytest.fixture
def late(path):
    return lm.dataset(path)


def datafusion_rows(source, sql):
    context = datafusion.SessionContext()
    if isinstance(source, pa.Table):
        context.register_record_batches("t", [source.to_batches()])
    else:
        context.register_dataset("t", source)
    return context.sql(sql).to_arrow_table().to_pylist()


class TestDataFusion:
    @pytest.mark.parametrize("condition", [*CONDITIONS, "st['x'] > 100", "bin > x'0a'"])
    def test_filters_have_the_meaning_they_have_in_memory(self, late, path, condition):
        memory = pq.read_table(path)
        sql = f"SELECT * FROM t WHERE {condition}"
        expected = datafusion_rows(memory, sql)
        assert sorted_rows(datafusion_rows(late, sql)) == sorted_rows(expected)
        counted = datafusion_rows(late, f"SELECT count(*) AS n FROM t WHERE {condition}")
        assert counted == [{"n": len(expected)}]

    @pytest.mark.parametrize("sql", QUERIES)
    def test_queries(self, late, path, sql):
        memory = pq.read_table(path)
        assert sorted_rows(datafusion_rows(late, sql)) == sorted_rows(datafusion_rows(memory, sql))

    @pytest.mark.parametrize("columns", ["*", "id, s", "dic", "st, lst", "tz, tns, dec, bin"])
    def test_types_are_those_of_a_native_pyarrow_dataset(self, late, path, columns):
        sql = f"SELECT {columns} FROM t"
        tables = []
        for source in (late, ds.dataset(path)):
            context = datafusion.SessionContext()
            context.register_dataset("t", source)
            tables.append(context.sql(sql).to_arrow_table())
        found, expected = tables
        assert found.schema.equals(expected.schema)
        assert sorted_rows(found.to_pylist()) == sorted_rows(expected.to_pylist())

    @pytest.mark.parametrize("threads", [1, 2, 8])
    def test_one_partition_per_scan_thread(self, path, threads):
        source = lm.dataset(path, options=lm.ScanOptions(threads=threads))
        context = datafusion.SessionContext()
        context.register_dataset("t", source)
        plan = context.sql("SELECT id FROM t").execution_plan()
        assert plan.partition_count == min(threads, 4)
        rows = datafusion_rows(source, "SELECT id FROM t WHERE a IS NOT NULL")
        assert len(rows) == 180

    def test_nothing_left_after_pruning_is_an_empty_result(self, late):
        assert datafusion_rows(late, "SELECT * FROM t WHERE id < 0") == []
        assert datafusion_rows(late, "SELECT count(*) AS n FROM t WHERE id < 0") == [{"n": 0}]

    def test_filters_of_the_dataset_come_on_top(self, late):
        filtered = late.filter("a > 3").filter(pc.field("id") < 100)
        rows = datafusion_rows(filtered, "SELECT id, a FROM t WHERE a <> 5")
        expected = [i for i in range(100) if i % 4 != 3 and i % 10 > 3 and i % 10 != 5]
        assert sorted(row["id"] for row in rows) == expected

    def test_partition_columns_and_missing_columns_can_be_filtered(self, tmp_path):
        for year in (2023, 2024):
            (tmp_path / f"year={year}").mkdir()
            columns = {"v": [1, 2, year]} | ({"extra": [7, 8, 9]} if year == 2024 else {})
            pq.write_table(pa.table(columns), tmp_path / f"year={year}" / "part.parquet")
        source = lm.dataset(tmp_path)
        assert datafusion_rows(source, "SELECT v FROM t WHERE year = 2024 AND v > 2") == [
            {"v": 2024}
        ]
        rows = datafusion_rows(source, "SELECT v, year FROM t WHERE extra IS NULL AND v < 3")
        assert sorted_rows(rows) == sorted_rows([{"v": 1, "year": 2023}, {"v": 2, "year": 2023}])
        rows = datafusion_rows(source, "SELECT extra FROM t WHERE extra NOT IN (7, 1, 2, 3, 4)")
        assert sorted(row["extra"] for row in rows) == [8, 9]

    def test_many_queries_at_the_same_time(self, late, path):
        context = datafusion.SessionContext()
        context.register_dataset("t", late)
        expected = datafusion_rows(
            pq.read_table(path), "SELECT s, count(*) AS n FROM t WHERE f > 0 GROUP BY s ORDER BY s"
        )
        answers = []

        def ask():
            sql = "SELECT s, count(*) AS n FROM t WHERE f > 0 GROUP BY s ORDER BY s"
            answers.append(context.sql(sql).to_arrow_table().to_pylist())

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [expected] * 8

    def test_an_error_in_the_scan_reaches_the_user(self, tmp_path):
        path = tmp_path / "text.parquet"
        pq.write_table(pa.table({"s": ["1", "2", "x"]}), path)
        source = lm.dataset(path).filter("CAST(s AS INT) > 1")
        with pytest.raises(Exception, match="Cast error"):
            datafusion_rows(source, "SELECT * FROM t")


class TestUsersExpressions:
    """What a user writes with pyarrow means what it means to pyarrow."""

    @pytest.mark.parametrize(
        "expression",
        [
            ~pc.field("a").isin([1, 2, 3, 4, 5]),
            pc.field("a").isin([1, 2, None]),
            pc.field("f") > 1,
            ~(pc.field("f") > 1),
            pc.field("f") == NAN,
            pc.field("f") != 1.0,
            pc.field("f") >= 0.0,
            pc.field("f") == 0.0,
            pc.field("f").is_null(nan_is_null=True),
            pc.field("g") < 1.5,
            pc.field("s").is_valid(),
            pc.field("s") > "b",
            pc.field("b"),
            ~pc.field("b"),
            pc.field("d") == dt.date(2024, 3, 1),
            pc.field("tns") > pa.scalar(JANUARY_3, pa.timestamp("ns")),
            pc.field("tz") > pa.scalar(JANUARY_3, pa.timestamp("us", tz="UTC")),
            pc.field("dec") > decimal.Decimal("0.50"),
            pc.field("bin") == b"\x0a\x00\xff",
            pc.field("u") > pa.scalar(2**56, pa.uint64()),
            pc.field("small") + pc.field("a") > 3,
            pc.field("st", "x") > 100,
            pc.match_substring(pc.field("s"), "an"),
            (pc.field("a") > 3) | (pc.field("s") == "apple") & (pc.field("id") < 100),
            pc.scalar(True),
            pc.scalar(False),
        ],
        ids=str,
    )
    def test_same_rows_as_pyarrow(self, late, path, expression):
        expected = pq.read_table(path).filter(expression)
        assert same_values(late.to_table(filter=expression), expected)
        assert late.count_rows(filter=expression) == expected.num_rows
        found = [f.to_table(filter=expression) for f in late.get_fragments()]
        assert same_values(pa.concat_tables(found), expected)


class TestDuckDB:
    @staticmethod
    def rows(source, sql):
        connection = duckdb.connect()
        connection.register("t", source)
        return connection.sql(sql).fetchall()

    # DuckDB needs another package to hand out timestamps with time zones to Python.
    ALL = "SELECT * REPLACE (tz::VARCHAR AS tz) FROM t"

    @pytest.mark.parametrize(
        "condition",
        [
            *CONDITIONS,
            "st.x > 100",
            "bin = '\\x0A\\x00\\xFF'::BLOB",
            "f = 'nan'::DOUBLE",
            "f >= 'nan'::DOUBLE",
            "f < 'nan'::DOUBLE",
            "f > 1 OR a = 2",
        ],
    )
    def test_filters_have_the_meaning_they_have_in_memory(self, late, path, condition):
        memory = pq.read_table(path)
        sql = f"{self.ALL} WHERE {condition}"
        expected = self.rows(memory, sql)
        assert sorted_rows(self.rows(late, sql)) == sorted_rows(expected)
        native = duckdb.connect().sql(sql.replace("FROM t", f"FROM '{path}' AS t")).fetchall()
        assert sorted_rows(native) == sorted_rows(expected)

    @pytest.mark.parametrize("sql", [sql for sql in QUERIES if "tz" not in sql])
    def test_queries(self, late, path, sql):
        memory = pq.read_table(path)
        assert sorted_rows(self.rows(late, sql)) == sorted_rows(self.rows(memory, sql))

    def test_a_variable_is_a_table(self, late):
        assert late.count_rows() == 240
        assert duckdb.sql("SELECT count(*) FROM late WHERE id < 50").fetchall() == [(50,)]

    def test_only_what_is_asked_for_is_read(self, late):
        self.rows(late, "SELECT k FROM t WHERE id = 70")
        report = late.scan_reports()[-1]
        assert report.row_groups_pruned_statistics == 3
        assert report.rows_selected == 1
        assert report.bytes_scanned < report.bytes_total / 10


class TestPolars:
    AGREED = (
        pl.col("f") < 1,
        pl.col("f") != 1,
        pl.col("f") == 0.0,
        pl.col("f").is_nan(),
        pl.col("a").is_in([1, 2, 3, 4, 5]),
        pl.col("a").is_null(),
        pl.col("s").is_not_null(),
        pl.col("s") == "apple",
        pl.col("s") != "apple",
        pl.col("s").is_in(["apple", "x"]),
        pl.col("s").str.starts_with("a"),
        pl.col("b"),
        ~pl.col("b"),
        pl.col("d") > dt.date(2024, 3, 1),
        pl.col("ts") > JANUARY_3,
        pl.col("tms") > JANUARY_3,
        pl.col("tus") > JANUARY_3,
        pl.col("tns") > JANUARY_3,
        pl.col("tz") > dt.datetime(2024, 1, 3, tzinfo=dt.UTC),
        pl.col("dec") > decimal.Decimal("0.5"),
        pl.col("bin") == b"\x0a\x00\xff",
        pl.col("u") > 2**56,
        pl.col("small") < 0,
        pl.col("dic") == "apple",
        pl.col("st").struct.field("x") > 100,
        pl.col("a").eq_missing(None),
        pl.col("a") > pl.col("small"),
        (pl.col("a") > 3) & (pl.col("id") < 100),
        (pl.col("a") > 3) | (pl.col("s") == "apple"),
        pl.col("a").is_between(2, 5),
    )
    # Polars hands these to pyarrow, which means something else by them.
    DISAGREED = (
        pl.col("f") > 1,
        pl.col("g") > 1,
        pl.col("f") == NAN,
        pl.col("f") >= NAN,
        ~pl.col("a").is_in([1, 2, 3, 4, 5]),
    )

    @staticmethod
    def rows(frame, condition):
        return sorted_rows(frame.filter(condition).collect().to_arrow().to_pylist())

    @pytest.mark.parametrize("condition", AGREED, ids=str)
    def test_filters_have_the_meaning_they_have_in_memory(self, late, path, condition):
        memory = pl.from_arrow(pq.read_table(path)).lazy()
        assert self.rows(pl.scan_pyarrow_dataset(late), condition) == self.rows(memory, condition)

    @pytest.mark.parametrize("condition", DISAGREED, ids=str)
    def test_where_polars_leaves_the_meaning_to_pyarrow_it_is_pyarrows(self, late, path, condition):
        native = pl.scan_pyarrow_dataset(ds.dataset(path))
        assert self.rows(pl.scan_pyarrow_dataset(late), condition) == self.rows(native, condition)

    @pytest.mark.parametrize("condition", [*AGREED, *DISAGREED], ids=str)
    def test_polars_may_keep_the_filter_to_itself(self, late, path, condition):
        memory = pl.from_arrow(pq.read_table(path)).lazy()
        found = pl.scan_pyarrow_dataset(late, allow_pyarrow_filter=False)
        assert self.rows(found, condition) == self.rows(memory, condition)

    def test_projections_limits_and_groups(self, late, path):
        memory = pl.from_arrow(pq.read_table(path)).lazy()
        found = pl.scan_pyarrow_dataset(late)
        assert found.select("k", "id").collect().equals(memory.select("k", "id").collect())
        assert found.head(5).collect()["id"].to_list() == [0, 1, 2, 3, 4]
        assert found.select(pl.len()).collect().item() == 240

        def grouped(frame):
            return frame.group_by("s").agg(pl.len(), pl.col("a").sum()).sort("s").collect()

        assert grouped(found).equals(grouped(memory))

    def test_joins(self, late, path):
        memory = pl.from_arrow(pq.read_table(path)).lazy()

        def joined(frame):
            right = frame.filter(pl.col("s") == "banana").select(pl.col("a").alias("id"), "k")
            return frame.select("id", "d").join(right, on="id").sort("id", "k").collect()

        assert joined(pl.scan_pyarrow_dataset(late)).equals(joined(memory))


class TestPandas:
    def test_frames_are_those_of_pyarrow(self, late, path):
        columns = ["id", "a", "f", "s", "b", "d", "tns", "tz", "dec", "dic"]
        found = late.to_table(columns=columns, filter="id < 100").to_pandas()
        expected = pq.read_table(path, columns=columns).slice(0, 100).to_pandas()
        assert found.equals(expected)
        assert list(found.dtypes) == list(expected.dtypes)

    def test_groups(self, late):
        frame = late.to_table(columns=["s", "a"]).to_pandas()
        expected = many_kinds().select(["s", "a"]).to_pandas()
        assert frame.groupby("s")["a"].sum().equals(expected.groupby("s")["a"].sum())


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    path = tmp_path_factory.mktemp("long") / "long.parquet"
    rows = np.arange(200_000)
    table = pa.table({"id": rows, "s": pa.array([f"text {i % 97}" for i in rows])})
    pq.write_table(table, path, row_group_size=2_000)
    return path


class TestEarlyStop:
    """Nothing is left behind: no scan thread, no open file.

    DataFusion and Polars drop a Python object the next time they are called.
    """

    @pytest.fixture
    def source(self, long):
        return lm.dataset(long, options=lm.ScanOptions(batch_rows=500, threads=2))

    def test_limit_in_datafusion(self, source, long):
        rows = datafusion_rows(source, "SELECT * FROM t WHERE id >= 10 LIMIT 1")
        assert len(rows) == 1
        assert wait_until_idle(long, nudge=lambda: datafusion.lit(1)) == ([], 0)

    def test_limit_in_duckdb(self, source, long):
        connection = duckdb.connect()
        connection.register("t", source)
        assert len(connection.sql("SELECT * FROM t WHERE id >= 10 LIMIT 1").fetchall()) == 1
        connection.close()
        assert wait_until_idle(long) == ([], 0)

    def test_limit_in_polars(self, source, long):
        assert (
            pl.scan_pyarrow_dataset(source).filter(pl.col("id") > 9).head(1).collect().height == 1
        )
        assert wait_until_idle(long, nudge=lambda: pl.Series([1])) == ([], 0)

    def test_a_stream_of_datafusion_that_is_dropped(self, source, long):
        context = datafusion.SessionContext()
        context.register_dataset("t", source)
        stream = context.sql("SELECT * FROM t").execute_stream()
        next(stream)
        del stream
        assert wait_until_idle(long, nudge=lambda: datafusion.lit(1)) == ([], 0)

    def test_a_closed_generator(self, source, long):
        batches = source.to_batches()
        next(batches)
        batches.close()
        assert wait_until_idle(long, seconds=0.1) == ([], 0)
        report = source.scan_reports()[-1]
        assert report.bytes_scanned < report.bytes_total / 2

    def test_a_dropped_generator(self, source, long):
        batches = source.to_batches()
        next(batches)
        del batches
        assert wait_until_idle(long) == ([], 0)

    def test_a_generator_that_never_started(self, source, long):
        batches = source.to_batches(filter="id > 5")
        del batches
        assert wait_until_idle(long, seconds=0.1) == ([], 0)

    def test_a_reader_that_is_closed(self, source, long):
        reader = source.scanner().to_reader()
        reader.read_next_batch()
        reader.close()
        del reader
        assert wait_until_idle(long) == ([], 0)

    def test_an_error_in_the_consumer(self, source, long):
        def consume():
            for _ in source.to_batches():
                raise KeyError("consumer")

        with pytest.raises(KeyError, match="consumer"):
            consume()
        assert wait_until_idle(long) == ([], 0)

    def test_an_error_in_the_scan(self, source, long):
        with pytest.raises(lm.LateError, match="zero"):
            list(source.to_batches(filter="id / (id - 150000) > 3"))
        assert wait_until_idle(long, seconds=0.1) == ([], 0)

    def test_first_rows(self, source, long):
        assert source.head(3)["id"].to_pylist() == [0, 1, 2]
        assert wait_until_idle(long, seconds=0.1) == ([], 0)

    def test_a_whole_scan(self, source, long):
        assert source.to_table().num_rows == 200_000
        assert wait_until_idle(long, seconds=0.1) == ([], 0)
