"""ORC tables in SQL: the answers of DataFusion over the same rows in memory."""

from __future__ import annotations

import os

import datafusion
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import lm_datafusion as lm
from lm_datafusion.errors import CorruptFileError, LateError, OptionError
from tests.integration.test_orc_dataset import STRIDE, TABLE, make_table
from tests.orc_files import write

QUERIES = (
    "SELECT count(*) FROM t",
    "SELECT id, name, tags FROM t WHERE id BETWEEN 12345 AND 12350 ORDER BY id",
    "SELECT id FROM t WHERE name LIKE '%77' AND noise < 50 ORDER BY id",
    "SELECT count(*), sum(noise) FROM t WHERE name LIKE 'name 1%' OR price IS NULL",
    "SELECT id, price FROM t WHERE bucket = 4 ORDER BY price DESC NULLS LAST, id LIMIT 9",
    "SELECT id FROM t ORDER BY noise, id LIMIT 7",
    "SELECT bucket, count(*), max(price) FROM t WHERE noise > 900 GROUP BY bucket ORDER BY bucket",
    "SELECT name, count(*) AS n FROM t GROUP BY name HAVING count(*) > 80 ORDER BY n, name LIMIT 5",
    "SELECT count(*) FROM t WHERE st['a'] = 3 AND upper(name) = 'NAME 7'",
    "SELECT a.id, b.noise FROM t a JOIN t b ON a.id = b.id + 1 WHERE b.noise < 3 ORDER BY a.id",
    "SELECT a.id FROM t a LEFT JOIN t b ON a.id = b.noise AND b.id < 50 WHERE a.id < 40 ORDER BY 1",
    "SELECT id FROM t WHERE noise = (SELECT max(noise) FROM t) ORDER BY id",
    "SELECT id FROM (SELECT id, name FROM t ORDER BY id LIMIT 500) WHERE name LIKE '%9' ORDER BY 1",
    "WITH c AS (SELECT * FROM t WHERE bucket < 3) SELECT count(*) FROM c WHERE name LIKE '%5%'",
    "SELECT id FROM t WHERE id = 5 UNION ALL SELECT id FROM t WHERE id = 39999 ORDER BY id",
    "SELECT id FROM t WHERE at >= '1970-01-01T09:00:00' AND at < '1970-01-01T09:00:05' ORDER BY id",
    "SELECT id FROM t WHERE id < 0",
    "SELECT id FROM t WHERE bucket NOT IN (1, 2, NULL)",
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("orc")
    options = {"row_index_stride": STRIDE, "stripe_size": 100_000, "batch_size": 1_000}
    options["compression"] = "zstd"
    return write(folder / "t.orc", TABLE, bloom_filter_columns=[1, 3], **options)


@pytest.fixture(scope="module")
def memory():
    context = datafusion.SessionContext()
    context.register_record_batches("t", [TABLE.combine_chunks().to_batches()])
    return context


@pytest.fixture
def context(path):
    context = lm.SessionContext()
    context.register_orc("t", path)
    return context


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("reader", ["auto", "late", "native"])
def test_answers(path, memory, query, reader):
    context = lm.SessionContext()
    context.register_orc("t", path, options=lm.ScanOptions(path=reader))
    expected = memory.sql(query).to_pydict()
    for _ in range(3):
        assert context.sql(query).to_pydict() == expected


def test_our_scan_serves_filters(context):
    context.sql("SELECT name FROM t WHERE id = 12345").to_pydict()
    (report,) = context.scan_reports()
    assert (report.table, report.path, report.rows_selected) == ("t", "late", 1)
    assert report.row_groups_pruned_statistics > 0
    assert report.pages_pruned > 30
    # DataFusion does not offer LIKE to a dataset.
    context.sql("SELECT * FROM t WHERE name LIKE '%500%'").to_pydict()
    (report,) = context.scan_reports()
    assert [step.predicate for step in report.steps] == ["(\"name\" LIKE '%500%')"]
    assert report.rows_selected == sum("500" in (n or "") for n in TABLE["name"].to_pylist())


def test_a_limit_reads_little(context):
    assert context.sql("SELECT * FROM t LIMIT 10").to_arrow_table().num_rows == 10
    (report,) = context.scan_reports()
    assert report.rows_selected == 10
    assert report.bytes_scanned < report.bytes_total / 2


def test_filters_that_give_something_else_each_time_are_applied_once(context):
    share = context.sql("SELECT count(*) AS n FROM t WHERE random() < 0.5").to_pydict()["n"][0]
    assert 0.45 < share / TABLE.num_rows < 0.55


def test_explanations(context):
    query = "SELECT id, name FROM t WHERE id = 5 AND name LIKE '%5'"
    explained = context.explain_scan(query)
    (reference,) = explained.references
    assert reference.path == "late"
    assert reference.row_groups_left < reference.row_groups_total
    assert len(reference.filters) == 2
    assert 0 < reference.bytes_estimated < reference.bytes_total
    plan = context.sql(f"EXPLAIN {query}").to_pydict()
    assert "DatasetExec" in "".join(plan["plan"])
    assert "DataFusion has no reader of the format" in plan["plan"][-1]
    analysed = context.sql(f"EXPLAIN ANALYZE {query}").to_pydict()
    assert "-> 1" in analysed["plan"][-1]


def test_read_orc(path, context):
    frame = context.read_orc(path).filter("id < 3").select("id", "name")
    assert frame.to_pydict() == {"id": [0, 1, 2], "name": [None, "name 1", "name 2"]}
    (report,) = context.scan_reports()
    assert report.path == "late"
    assert context.read_orc([path, path]).count() == 2 * TABLE.num_rows


def test_create_external_table(path, context):
    statement = f"CREATE EXTERNAL TABLE made STORED AS ORC LOCATION '{path}'"
    context.sql(f"{statement} OPTIONS ('threads' '1', 'prune_bloom_filter' 'false')")
    assert context.sql("SELECT count(*) AS n FROM made WHERE id > 39000").to_pydict() == {
        "n": [999]
    }
    (report,) = context.scan_reports()
    assert report.path == "late"
    with pytest.raises(Exception, match="no option named 'nonsense'"):
        context.sql(f"{statement.replace('made', 'x')} OPTIONS ('nonsense' '1')")
    with pytest.raises(Exception, match="PARTITIONED BY"):
        context.sql(
            "CREATE EXTERNAL TABLE x (id INT, y INT) STORED AS ORC PARTITIONED BY (y)"
            f" LOCATION '{path}'"
        )


def test_folders_with_partitions(tmp_path):
    for year in (2023, 2024):
        (tmp_path / f"year={year}").mkdir()
        write(tmp_path / f"year={year}" / "part-0.orc", {"a": [year, year + 1]})
    context = lm.SessionContext()
    context.register_orc("t", tmp_path)
    query = "SELECT a FROM t WHERE year = 2024 AND a > 2024"
    assert context.sql(query).to_pydict() == {"a": [2025]}
    assert context.scan_reports()[0].files == 2
    assert context.sql("SELECT year, count(*) AS n FROM t GROUP BY 1 ORDER BY 1").to_pydict() == {
        "year": [2023, 2024],
        "n": [2, 2],
    }


def test_both_formats_in_one_folder(tmp_path):
    write(tmp_path / "a.orc", {"a": [1]})
    pq.write_table(pa.table({"a": [2]}), tmp_path / "b.parquet")
    with pytest.raises(OptionError, match=r"a\.orc \(ORC\) and .*b\.parquet \(Parquet\)"):
        lm.SessionContext().register_orc("t", tmp_path)


def test_orc_and_parquet_in_one_query(path, tmp_path, context):
    pq.write_table(make_table(5_000), tmp_path / "p.parquet", row_group_size=1_000)
    context.register_parquet("p", str(tmp_path / "p.parquet"))
    query = "SELECT t.id FROM t JOIN p ON t.id = p.id WHERE p.name = 'name 77' AND t.bucket < 9"
    expected = [
        row["id"]
        for row in TABLE.slice(0, 5_000).to_pylist()
        if row["name"] == "name 77" and row["bucket"] < 9
    ]
    for _ in range(2):
        assert sorted(context.sql(query).to_pydict()["id"]) == expected


# ---- what a name means -------------------------------------------------------------------------

FILTERED = "SELECT count(*) AS n FROM t WHERE id < 10"


def count(context, query=FILTERED):
    return context.sql(query).to_pydict()["n"][0]


def test_a_name_may_come_to_mean_other_files(tmp_path, context):
    assert count(context) == 10
    context.deregister_table("t")
    other = write(tmp_path / "o.orc", {"id": [1, 2, 3, 40]})
    context.register_orc("t", other)
    assert count(context) == 3
    context.sql("DROP TABLE t")
    context.sql("CREATE TABLE t AS VALUES (1)").collect()
    assert context.sql("SELECT count(*) AS n FROM t").to_pydict() == {"n": [1]}
    context.sql("DROP TABLE t")
    context.register_dataset("t", ds.dataset(pa.table({"id": [5, 6, 70]})))
    assert count(context) == 2
    context.deregister_table("t")
    context.sql(f"CREATE EXTERNAL TABLE t STORED AS ORC LOCATION '{other}'")
    assert count(context) == 3


def test_tables_and_views_of_some_rows_are_not_the_table(context):
    context.sql("CREATE VIEW v AS SELECT * FROM t WHERE bucket = 0")
    context.sql("CREATE TABLE m AS SELECT * FROM t WHERE bucket = 0 LIMIT 50").collect()
    in_view = sum(row["bucket"] == 0 and row["id"] < 10**6 for row in TABLE.to_pylist())
    assert count(context, "SELECT count(*) AS n FROM v WHERE id >= 0") == in_view
    assert count(context, "SELECT count(*) AS n FROM v WHERE name LIKE '%'") < in_view
    assert count(context, "SELECT count(*) AS n FROM m WHERE id >= 0") == 50
    found = context.sql("SELECT * FROM t WHERE id < 5").to_arrow_table()
    context.register_dataset("d", ds.dataset(found))
    assert count(context, "SELECT count(*) AS n FROM d WHERE id >= 0") == 5


def test_views_are_read_late(tmp_path, context):
    context.sql("CREATE VIEW v AS SELECT id, name, id + 1 AS next FROM t")
    query = "SELECT next FROM v WHERE name LIKE '%500%' AND id > 20000"
    expected = [n + 1 for n in ids_like("500") if n > 20_000]
    assert sorted(context.sql(query).to_pydict()["next"]) == expected
    (report,) = context.scan_reports()
    assert (report.path, report.rows_selected) == ("late", len(expected))
    # The view goes on to mean what it meant when it was made.
    context.deregister_table("t")
    context.register_orc("t", write(tmp_path / "o.orc", {"id": [1], "name": ["a 500"]}))
    assert sorted(context.sql(query).to_pydict()["next"]) == expected
    assert context.scan_reports()[0].path == "native"


def ids_like(text):
    return [n for n, name in enumerate(TABLE["name"].to_pylist()) if text in (name or "")]


def test_a_frame_that_was_planned_before_a_name_changed(tmp_path, context):
    frame = context.sql(FILTERED)
    context.deregister_table("t")
    context.register_orc("t", write(tmp_path / "o.orc", {"id": [1]}))
    assert frame.to_pydict() == {"n": [10]}


def test_a_file_that_is_rewritten_is_read_anew(tmp_path):
    path = write(tmp_path / "f.orc", {"id": [1, 2, 3, 40]})
    context = lm.SessionContext()
    context.register_orc("t", path)
    assert count(context) == 3
    write(path, {"id": [1, 2, 3, 4, 5, 60]})
    os.utime(path, ns=(1, 1))
    assert count(context) == 5


def test_a_damaged_file_is_an_error_of_ours(tmp_path):
    path = write(tmp_path / "f.orc", TABLE, row_index_stride=1_000)
    context = lm.SessionContext()
    context.register_orc("t", path)
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        file.seek(100)
        file.write(b"\xff" * (size // 2))
    with pytest.raises(CorruptFileError, match=r"f\.orc"):
        context.sql("SELECT * FROM t WHERE id >= 0").to_arrow_table()
    with pytest.raises(LateError, match=r"none\.orc"):
        context.register_orc("u", tmp_path / "none.orc")


def test_parquet_is_not_registered_as_orc(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "t.parquet")
    with pytest.raises(lm.LateError, match=r"t\.parquet is Parquet, not ORC"):
        lm.SessionContext().register_orc("t", tmp_path / "t.parquet")


def test_the_session_of_the_process_has_orc_tables(tmp_path):
    orc.write_table(pa.table({"a": [1, 2]}), tmp_path / "t.orc")
    session = lm.SessionContext.global_ctx()
    session.sql(f"CREATE EXTERNAL TABLE global_orc STORED AS ORC LOCATION '{tmp_path}/t.orc'")
    try:
        assert session.sql("SELECT sum(a) AS s FROM global_orc").to_pydict() == {"s": [3]}
    finally:
        session.deregister_table("global_orc")
