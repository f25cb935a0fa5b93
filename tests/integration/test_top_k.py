"""The first rows of an order, read in two phases, are those DataFusion gives."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import os
import random

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.engine.paths import some_groups
from tests.eager import eager

ROWS = 4_000
DAY = dt.date(2024, 1, 1)


def table(seed, rows=ROWS):
    rng = random.Random(seed)

    def column(draw, nulls=0.1):
        return [None if rng.random() < nulls else draw() for _ in range(rows)]

    return pa.table(
        {
            "id": pa.array(range(seed * rows, (seed + 1) * rows), pa.int64()),
            "many": pa.array(column(lambda: rng.randrange(1_000_000)), pa.int64()),
            "few": pa.array(column(lambda: rng.randrange(300)), pa.int16()),
            "One": pa.array([7] * rows, pa.int32()),
            "text": column(lambda: rng.choice("abcdef") * rng.randrange(9)),
            "day": pa.array(column(lambda: DAY + dt.timedelta(rng.randrange(2_000)))),
            "money": pa.array(
                column(lambda: decimal.Decimal(rng.randrange(10_000)) / 100), pa.decimal128(9, 2)
            ),
            "real": column(rng.random),
            **{f"wide{i}": column(lambda: "x" * rng.randrange(20)) for i in range(30)},
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("top_k")
    for seed in range(2):
        pq.write_table(
            table(seed),
            root / f"{seed}.parquet",
            row_group_size=1_000,
            max_rows_per_page=100,
            write_page_index=True,
        )
    return str(root)


def sessions(folder, path="late"):
    config = datafusion.SessionConfig().with_target_partitions(2)
    plain = datafusion.SessionContext(config)
    ours = lm.SessionContext(config, options=lm.ScanOptions(path=path))
    for context in (plain, ours):
        context.register_parquet("t", folder)
        context.sql("CREATE VIEW v AS SELECT * EXCEPT (few), few + 1 AS few, many AS m FROM t")
    return plain, ours


KEYS = ["many", "few", "text", "day", "money"]
ORDERS = ["ASC", "DESC", "ASC NULLS FIRST", "DESC NULLS LAST"]


@pytest.mark.parametrize(("key", "order"), list(itertools.product(KEYS, ORDERS)))
def test_every_order_of_every_kind_of_key(folder, key, order):
    plain, ours = sessions(folder)
    for where, limit in [
        ("wide3 LIKE '%xxxxx%'", "LIMIT 10"),
        ("real < 0.2 AND few <> 5", "LIMIT 7 OFFSET 20"),
        ("id % 500 = 3", "LIMIT 1000"),
        ("id < 0", "LIMIT 5"),
        ("TRUE", "LIMIT 1"),
    ]:
        query = f"SELECT * FROM t WHERE {where} ORDER BY {key} {order}, id {limit}"
        expected = plain.sql(query).to_arrow_table()
        found = ours.sql(query).to_arrow_table()
        assert found.schema == expected.schema
        assert found.to_pylist() == expected.to_pylist(), query
        (report,) = ours.scan_reports()
        assert report.path == "late", query


def test_ties_are_any_of_the_rows_that_tie(folder):
    plain, ours = sessions(folder)
    query = "SELECT few, id, wide1 FROM t WHERE real < 0.5 ORDER BY few LIMIT 15"
    found = ours.sql(query).to_pylist()
    assert [row["few"] for row in found] == [row["few"] for row in plain.sql(query).to_pylist()]
    unlimited = plain.sql(query.replace(" LIMIT 15", "")).to_pylist()
    assert all(row in unlimited for row in found)
    assert len({row["id"] for row in found}) == 15


def test_a_key_that_tells_nothing_apart(folder):
    plain, ours = sessions(folder)
    query = 'SELECT "One", id FROM t ORDER BY "One", id LIMIT 3'
    assert ours.sql(query).to_pylist() == plain.sql(query).to_pylist()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM v WHERE text LIKE 'a%' ORDER BY m, id LIMIT 9",
        "SELECT id, upper(text) FROM v WHERE few > 5 ORDER BY many DESC, id LIMIT 9 OFFSET 2",
        "SELECT id AS many, many AS other FROM t ORDER BY other, id LIMIT 4",
        "SELECT x.* FROM (SELECT id, many FROM t WHERE few = 3) x ORDER BY x.many, x.id LIMIT 4",
        "WITH w AS (SELECT * FROM t) SELECT * FROM w WHERE few = 3 ORDER BY many, id LIMIT 4",
    ],
)
def test_views_aliases_and_subqueries(folder, query):
    plain, ours = sessions(folder)
    assert ours.sql(query).to_pylist() == plain.sql(query).to_pylist()
    assert [report.path for report in ours.scan_reports()] == ["late"]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM t ORDER BY many + 1, id LIMIT 3",
        "SELECT * FROM v ORDER BY few, id LIMIT 3",
        "SELECT DISTINCT few FROM t ORDER BY few LIMIT 3",
        "SELECT few, count(*) FROM t GROUP BY few ORDER BY few LIMIT 3",
        "SELECT a.id FROM t a JOIN t b ON a.id = b.few ORDER BY a.many, a.id LIMIT 3",
        "SELECT id, rank() OVER (ORDER BY few) FROM t ORDER BY many, id LIMIT 3",
        "(SELECT id, many FROM t) UNION ALL (SELECT id, few FROM t) ORDER BY many, id LIMIT 3",
        "SELECT * FROM (SELECT * FROM t LIMIT 8000) ORDER BY many, id LIMIT 3",
        "SELECT * FROM t WHERE random() < 2 ORDER BY many, id LIMIT 3",
    ],
)
def test_other_queries_stay_with_datafusion(folder, query):
    plain, ours = sessions(folder)
    assert sorted(map(str, ours.sql(query).to_pylist())) == sorted(
        map(str, plain.sql(query).to_pylist())
    )
    assert {report.path for report in ours.scan_reports()} <= {"native"}


@pytest.mark.parametrize("batch_size", [4, 8192])
def test_rows_come_in_order_however_many_batches_they_are(tmp_path, batch_size):
    rows = 20 * batch_size if batch_size < 100 else 30_000
    path = str(tmp_path / "a.parquet")
    keys = [(i * 7919) % (rows + 11) for i in range(rows)]
    pq.write_table(pa.table({"k": keys, "w": ["w" * 200] * rows}), path)
    config = datafusion.SessionConfig().with_target_partitions(2).with_batch_size(batch_size)
    ours = lm.SessionContext(config, options=lm.ScanOptions(path="late"))
    ours.register_parquet("t", path)
    frame = ours.sql(f"SELECT * FROM t ORDER BY k LIMIT {rows // 3}")
    for _ in range(10):
        found = frame.to_arrow_table()["k"].to_pylist()
        assert found == sorted(keys)[: rows // 3]
    assert [report.path for report in ours.scan_reports()] == ["late"]
    assert len(frame.collect_partitioned()) == 1


@pytest.mark.parametrize("dialect", ["snowflake", "clickhouse", "mysql", "bigquery", "generic"])
def test_texts_with_backslashes_in_every_dialect(tmp_path, dialect):
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"s": [f"a\\b{i}" for i in range(50)], "w": ["w" * 99] * 50}), path)
    plain = datafusion.SessionContext()
    ours = lm.SessionContext(options=lm.ScanOptions(path="late"))
    for context in (plain, ours):
        context.register_parquet("t", path)
        context.sql(f"SET datafusion.sql_parser.dialect = '{dialect}'")
    query = "SELECT * FROM t ORDER BY s LIMIT 5"
    assert ours.sql(query).to_pylist() == plain.sql(query).to_pylist()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT few, 10 / (id - 3999) AS d, wide1 FROM t ORDER BY many, id LIMIT 1",
        "SELECT * FROM (SELECT many, 10 / (id - 7) AS d FROM t) WHERE many > 5 ORDER BY 1 LIMIT 1",
    ],
)
def test_an_error_in_a_row_that_is_not_among_the_first_is_still_one(folder, query):
    plain, ours = sessions(folder)
    with pytest.raises(Exception, match="Divide by zero"):
        plain.sql(query).collect()
    with pytest.raises(Exception, match="Divide by zero"):
        ours.sql(query).collect()


@pytest.mark.parametrize("path", ["late", "auto"])
def test_metadata_of_schemas_is_kept(tmp_path, path):
    file = str(tmp_path / "a.parquet")
    schema = pa.schema([pa.field("k", pa.int64(), metadata={"a": "b"})], metadata={"c": "d"})
    pq.write_table(pa.table({"k": range(9)}, schema=schema), file)
    frames = []
    options = lm.ScanOptions(path=path)
    for context in (datafusion.SessionContext(), lm.SessionContext(options=options)):
        context.register_parquet("t", file, skip_metadata=False)
        frames.append(context.sql("SELECT * FROM t WHERE k > 2 ORDER BY k LIMIT 3"))
    expected, found = (frame.to_arrow_table() for frame in frames)
    assert found.schema.equals(expected.schema, check_metadata=True)
    assert found.equals(expected)


def test_parameters(folder):
    plain, ours = sessions(folder)
    query = "SELECT * FROM t WHERE few > $least ORDER BY many, id LIMIT 5"
    values = {"least": 100}
    expected = plain.sql(query, param_values=values).to_pylist()
    assert ours.sql(query, param_values=values).to_pylist() == expected
    assert [report.path for report in ours.scan_reports()] == ["late"]


def test_auto_walks_where_rows_are_wide(folder):
    plain, ours = sessions(folder, "auto")
    wide = "SELECT * FROM t WHERE few = 3 ORDER BY many, id LIMIT 5"
    with eager():
        assert ours.sql(wide).to_pylist() == plain.sql(wide).to_pylist()
    assert [report.path for report in ours.scan_reports()] == ["late"]


def test_a_plan_alone_reads_nothing(folder):
    _, ours = sessions(folder)
    ours.sql("SELECT * FROM t WHERE few = 3 ORDER BY many LIMIT 5").execution_plan()
    assert not any(report.bytes_scanned for report in ours.scan_reports())


@pytest.mark.parametrize("files", [1, 2])
def test_a_file_that_changes_after_groups_were_found_is_an_error(tmp_path, monkeypatch, files):
    path = tmp_path / "a.parquet"
    for name in ("a", "b")[:files]:
        pq.write_table(table(0), tmp_path / f"{name}.parquet")
    _, ours = sessions(str(tmp_path))
    find_rows = some_groups.find_rows

    def find_and_replace(*arguments):
        found = find_rows(*arguments)
        pq.write_table(table(1), path)
        os.utime(path, (1, 1))
        return found

    monkeypatch.setattr(some_groups, "find_rows", find_and_replace)
    frame = ours.sql("SELECT text, few, count(*) FROM t GROUP BY text, few LIMIT 5")
    with pytest.raises(lm.LateError, match="changed"):
        frame.collect()


@pytest.mark.parametrize(
    ("wide", "path"),
    [
        (pa.array([n / 7 for n in range(200_000)]), "late"),
        (pa.array([f"some words of no meaning {n}" for n in range(200_000)]), "late"),
    ],
    ids=["numbers", "text"],
)
def test_other_columns_are_read_for_the_first_rows_only(tmp_path, wide, path):
    rng = random.Random(1)
    columns = {"k": [rng.randrange(10**9) for _ in wide], "few": [rng.randrange(9) for _ in wide]}
    made = pa.table({**columns, **{f"w{n}": wide for n in range(8)}})
    pq.write_table(made, tmp_path / "t.parquet", use_dictionary=False)
    plain, ours = datafusion.SessionContext(), lm.SessionContext()
    query = "SELECT * FROM t WHERE few = 3 ORDER BY k LIMIT 5"
    for context in (plain, ours):
        context.register_parquet("t", tmp_path / "t.parquet")
    for _ in range(2):  # a short query is DataFusion's the first time
        assert ours.sql(query).to_pylist() == plain.sql(query).to_pylist()
    assert [report.path for report in ours.scan_reports()] == [path]
