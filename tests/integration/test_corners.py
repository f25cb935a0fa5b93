"""Corners in which a scan once gave other rows than DataFusion, or none at all."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from datafusion import SessionConfig, SessionContext

import lm_datafusion as lm
from lm_datafusion.predicate.literals import literal_sql


def expected(table: pa.Table, condition: str) -> list[dict]:
    frame = SessionContext(SessionConfig().with_target_partitions(1)).from_arrow(table)
    return frame.filter(frame.parse_sql_expr(condition)).to_arrow_table().to_pylist()


@pytest.mark.parametrize("condition", ["i > 0.0", "i < 0.0", "i > -0.0", "n < 0.0", "z > 0.0"])
def test_integers_against_a_zero_that_is_a_float(tmp_path, condition):
    table = pa.table({"i": [0, 1, 2], "n": [-2, -1, 0], "z": [0, 0, 0]})
    pq.write_table(table, tmp_path / "t.parquet")
    found = lm.dataset(tmp_path / "t.parquet").to_table(filter=condition).to_pylist()
    assert found == expected(table, condition)


@pytest.mark.parametrize("partitions", [1, 8])
def test_datafusion_filters_a_partition_column(tmp_path, partitions):
    for year in (2023, 2024):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(pa.table({"x": [1, 2, 3]}), tmp_path / f"year={year}" / "t.parquet")
    context = SessionContext(SessionConfig().with_target_partitions(partitions))
    context.register_dataset("t", lm.dataset(tmp_path))
    rows = context.sql("SELECT x, year FROM t WHERE year = 2024 AND x > 1 ORDER BY x").to_pydict()
    assert rows == {"x": [2, 3], "year": [2024, 2024]}
    joined = "SELECT a.x FROM t a JOIN t b USING (x) WHERE a.year = 2023 AND b.year = 2024"
    assert sorted(context.sql(joined).to_pydict()["x"]) == [1, 2, 3]


def test_statistics_shorter_than_their_type(tmp_path):
    # DataFusion cuts bounds at 64 bytes, and pyarrow ends the process over such a bound.
    table = pa.table({"h": pa.array([bytes([n]) * 100 for n in range(3)], pa.binary(100))})
    context = SessionContext()
    context.register_record_batches("t", [table.to_batches()])
    path = tmp_path / "t.parquet"
    context.sql(f"COPY t TO '{path}' STORED AS PARQUET").collect()
    found = lm.dataset(path).to_table(filter="h IS NOT NULL")
    assert found.to_pylist() == table.to_pylist()


@pytest.mark.parametrize("data_type", [pa.float32(), pa.decimal128(10, 1)])
def test_bloom_filter_of_floats_read_as_a_type_that_rounds_them(tmp_path, data_type):
    path = tmp_path / "t.parquet"
    options = {"use_dictionary": False, "bloom_filter_options": {"f": {"ndv": 100, "fpp": 0.01}}}
    pq.write_table(pa.table({"f": [0.1200001, 0.2, 0.3]}), path, **options)
    dataset = lm.dataset(path, schema=pa.schema([("f", data_type)]))
    first = dataset.to_table().column("f")[0]
    condition = f"f = {literal_sql(first)}"
    assert dataset.to_table(filter=condition).column("f").to_pylist() == [first.as_py()]


def test_a_condition_with_now_means_what_datafusion_reads(tmp_path):
    # `^` is a power to PostgreSQL and an exclusive or to DataFusion.
    table = pa.table({"i": [0, 1, 2, 3], "ts": pa.array([0] * 4).cast(pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "t.parquet")
    found = lm.dataset(tmp_path / "t.parquet").to_table(filter="i ^ 3 = 0 AND ts < now()")
    assert found.column("i").to_pylist() == [3]


def test_a_fragment_of_a_file_that_changed_is_an_error(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": range(10)}), path)
    (fragment,) = lm.dataset(path).get_fragments()
    pq.write_table(pa.table({"x": range(30)}), path, row_group_size=10)
    with pytest.raises(lm.LateError, match="changed"):
        fragment.to_table()


@pytest.mark.parametrize("glue", [" OR ", " AND "])
def test_conditions_that_nest_deeper_than_python_calls_may(tmp_path, glue):
    table = pa.table({"i": range(1500)})
    pq.write_table(table, tmp_path / "t.parquet")
    dataset = lm.dataset(tmp_path / "t.parquet")
    operator = "=" if glue == " OR " else "<>"
    condition = glue.join(f"(i {operator} {n} {glue} i = 2000)" for n in range(0, 1100, 2))
    assert dataset.count_rows(condition) == (550 if glue == " OR " else 0)
    expression = pc.field("i") == 0
    for n in range(1, 1200):
        expression |= pc.field("i") == n
    assert dataset.count_rows(expression) == 1200


def test_datafusion_reads_a_file_listed_twice_twice(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": range(10)}), path)
    dataset = lm.dataset([path, path], options=lm.ScanOptions(threads=2))
    context = SessionContext()
    context.register_dataset("t", dataset)
    assert context.sql("SELECT count(*) AS n FROM t").to_pydict() == {"n": [20]}


def test_a_name_that_a_file_has_twice_is_an_error(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), path)
    dataset = lm.dataset(path, schema=pa.schema([("a", pa.int64())]))
    with pytest.raises(lm.LateError, match='2 columns are named "a"'):
        dataset.to_table()


def test_partition_values_have_the_type_of_a_given_schema(tmp_path):
    for code in ("007", "008"):
        (tmp_path / f"code={code}").mkdir()
        pq.write_table(pa.table({"x": [1]}), tmp_path / f"code={code}" / "t.parquet")
    schema = pa.schema([("x", pa.int64()), ("code", pa.string())])
    dataset = lm.dataset(tmp_path, schema=schema)
    assert dataset.to_table().column("code").to_pylist() == ["007", "008"]
    assert dataset.to_table(filter="code = '007'").to_pylist() == [{"x": 1, "code": "007"}]
    with pytest.raises(lm.LateError, match="'007' is no date32"):
        lm.dataset(tmp_path, schema=pa.schema([("code", pa.date32())]))


NESTED = {
    "struct in struct": pa.array([{"x": {"y": n}} if n % 10 else None for n in range(1000)]),
    "three structs": pa.array([{"x": {"y": {"z": n}}} for n in range(1000)]),
    "list of a fixed size in struct": pa.array(
        [{"x": [n, n]} for n in range(1000)], pa.struct([("x", pa.list_(pa.int64(), 2))])
    ),
    "struct in struct in list": pa.array([[{"x": {"y": n}}] * (n % 3) for n in range(1000)]),
}


@pytest.mark.parametrize("kind", NESTED)
def test_slices_of_structs_in_structs(tmp_path, kind):
    # DataFusion panics over one that does not begin with the first row.
    table = pa.table({"r": range(1000), "s": NESTED[kind]})
    pq.write_table(table, tmp_path / "t.parquet")
    context = lm.SessionContext(options=lm.ScanOptions(path="late", batch_rows=100))
    context.register_parquet("t", tmp_path / "t.parquet")
    for condition in ("r >= 103", "r >= 103 AND s IS NOT NULL AND r <> 500"):
        found = context.sql(f"SELECT r, s FROM t WHERE {condition} ORDER BY r").to_pylist()
        assert found == expected(table, condition)
        assert [report.path for report in context.scan_reports()] == ["late"]
    ordered = lm.dataset(tmp_path / "t.parquet", options=lm.ScanOptions(batch_rows=100))
    first = ordered.scanner(order_by=[("r", "descending")], limit=300).to_batches()
    rows = [row for batch in first for row in SessionContext().read_batch(batch).to_pylist()]
    assert rows == table.to_pylist()[:-301:-1]
