"""Some groups, found in two phases, are whole groups of the table."""

from __future__ import annotations

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.engine.paths import some_groups

ROWS = 20_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("groups")
    for number in range(2):
        ids = range(number * ROWS, (number + 1) * ROWS)
        rows = {
            "user": pa.array([None if i % 97 == 0 else i * 7919 % 5_000 for i in ids], pa.int64()),
            "word": [None if i % 11 == 0 else f"w{i % 13}" for i in ids],
            "sex": pa.array([i % 2 for i in ids], pa.int8()),
            "x": [float(i % 50) for i in ids],
        }
        pq.write_table(pa.table(rows), root / f"{number}.parquet", row_group_size=5_000)
    return str(root)


def sessions(folder, path="late"):
    config = datafusion.SessionConfig({"datafusion.execution.target_partitions": "2"})
    plain = datafusion.SessionContext(config)
    ours = lm.SessionContext(config, options=lm.ScanOptions(path=path))
    for context in (plain, ours):
        context.register_parquet("t", folder)
        context.sql('CREATE VIEW v AS SELECT "user" AS u, word, x + 1 AS y FROM t')
    return plain, ours


@pytest.mark.parametrize(
    ("query", "limit", "rows"),
    [
        ('SELECT "user", count(*), sum(x) FROM t GROUP BY "user"', "LIMIT 10", 10),
        ('SELECT "user", word, count(*) FROM t GROUP BY "user", word', "LIMIT 10", 10),
        ('SELECT word, "user", min(x) FROM t GROUP BY word, "user"', "LIMIT 7 OFFSET 20", 7),
        ("SELECT u, max(y) AS m FROM v WHERE word <> 'w3' GROUP BY u", "LIMIT 12", 12),
        ('SELECT count(*), "user" FROM t WHERE x > 3 GROUP BY "user"', "LIMIT 300", 300),
    ],
)
def test_groups_are_whole_groups_of_the_table(folder, query, limit, rows):
    plain, ours = sessions(folder)
    everything = set(map(repr, plain.sql(query).to_pylist()))
    frame = ours.sql(f"{query} {limit}")
    found = list(map(repr, frame.to_pylist()))
    assert len(found) == len(set(found)) == rows
    assert set(found) <= everything
    assert ours.scan_reports()[0].path == "late"
    assert frame.schema() == plain.sql(query).schema()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT word, count(*) FROM t GROUP BY word LIMIT 100",  # fewer groups than that
        "SELECT sex, count(*) FROM t GROUP BY sex LIMIT 1",  # half of the table
    ],
)
def test_what_does_not_pay_is_left_to_datafusion(folder, query):
    plain, ours = sessions(folder)
    everything = set(map(repr, plain.sql(query.partition(" LIMIT")[0]).to_pylist()))
    found = list(map(repr, ours.sql(query).to_pylist()))
    assert len(found) == len(plain.sql(query).to_pylist())
    assert set(found) <= everything
    assert ours.scan_reports()[0].path == "native"


@pytest.mark.parametrize(
    "query",
    [
        'SELECT "user", count(*) FROM t GROUP BY "user"',
        'SELECT "user", count(*) FROM t GROUP BY "user" HAVING count(*) > 3 LIMIT 5',
        'SELECT "user", count(*) FROM t GROUP BY "user" ORDER BY 2 LIMIT 5',
        'SELECT "user", sum(1 / "user") FROM t GROUP BY "user" LIMIT 5',
        'SELECT "user", count(*) FILTER (WHERE 1 / "user" > 0) FROM t GROUP BY "user" LIMIT 5',
        'SELECT "user" + 1, count(*) FROM t GROUP BY "user" + 1 LIMIT 5',
        "SELECT x, count(*) FROM t GROUP BY x LIMIT 5",
        "SELECT count(*) FROM t LIMIT 5",
        'SELECT "user", count(*) FROM t GROUP BY "user" LIMIT 0',
        'SELECT "user", count(*) FROM t GROUP BY "user" LIMIT 5000',
        'SELECT "user", count(*) FROM t GROUP BY ROLLUP ("user", word) LIMIT 5',
    ],
)
def test_other_queries_are_not_some_groups(folder, query):
    _, ours = sessions(folder)
    assert "some_groups" not in {
        path.name for path in ours.explain_scan(query).paths if path.seconds is not None
    }


def test_small_tables_are_left_alone(folder):
    _, ours = sessions(folder, path="auto")
    ours.sql('SELECT "user", count(*) FROM t GROUP BY "user" LIMIT 5').collect()
    assert ours.scan_reports()[0].path == "native"


def test_groups_that_the_first_rows_do_not_show_are_not_lost(folder, monkeypatch):
    monkeypatch.setattr(some_groups, "SAMPLE_ROWS", 20)
    plain, ours = sessions(folder)
    query = 'SELECT "user", count(*) FROM t GROUP BY "user"'
    everything = set(map(repr, plain.sql(query).to_pylist()))
    found = list(map(repr, ours.sql(f"{query} LIMIT 30").to_pylist()))
    assert len(found) == len(set(found)) == 30
    assert set(found) <= everything
    assert "too few groups" in ours.scan_reports()[0].reason


def test_a_plan_and_an_explanation_read_nothing(folder, monkeypatch):
    _, ours = sessions(folder)
    monkeypatch.setattr(some_groups, "find_rows", None)
    query = 'SELECT "user", count(*) FROM t GROUP BY "user" LIMIT 5'
    assert "DatasetExec" in ours.sql(query).execution_plan().display_indent()
    explained = ours.sql(f"EXPLAIN {query}").to_pydict()["plan"]
    assert any("DatasetExec" in plan for plan in explained)
    assert "any 5 groups" in str(ours.explain_scan(query))


def test_groups_that_turn_out_to_be_large_are_left_to_datafusion(tmp_path):
    rows = 400_000
    keys = [i if i < 70_000 else i % 10 for i in range(rows)]
    table = pa.table({"k": keys, "s": [f"text {i}" for i in range(rows)]})
    path = str(tmp_path / "a.parquet")
    pq.write_table(table, path, row_group_size=50_000)
    plain, ours = datafusion.SessionContext(), lm.SessionContext()
    for context in (plain, ours):
        context.register_parquet("t", path)
    query = "SELECT k, count(*) AS c, min(s) AS s FROM t GROUP BY k"
    everything = {row["k"]: row for row in plain.sql(query).to_pylist()}
    assert "* some_groups" in str(ours.explain_scan(f"{query} LIMIT 10"))
    for _ in range(3):
        found = ours.sql(f"{query} LIMIT 10").to_pylist()
        assert len({row["k"] for row in found}) == 10
        assert all(everything[row["k"]] == row for row in found)
        (report,) = ours.scan_reports()
        assert (report.path, "rows were found" in report.reason) == ("native", True)
