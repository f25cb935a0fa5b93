"""The runner of the differential suites, on files of its own."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lm_datafusion.dataset.scanner import LateScanner
from tests.suites.outcomes import Outcome
from tests.suites.queries import run_queries
from tests.suites.records import parse_records
from tests.suites.slt import report, run_files, run_one

TABLES = """
# a comment
statement ok
CREATE TABLE t AS VALUES (1, 'a', 1.5), (2, 'b', NULL), (3, 'c', 2.5), (4, NULL, 'NaN');

query IT rowsort label-1
SELECT column1, column2 FROM t WHERE column1 > 2
----
3 c
4 NULL



statement ok
INSERT INTO t VALUES (6, 'f', 6.5), (7, 'a', 7.5)

query I
SELECT count(*) FROM t WHERE column2 = 'a'
----
2

query ITR
SELECT * FROM t WHERE column1 <> 4 ORDER BY column1 DESC LIMIT 2

skipif datafusion
query I
SELECT no_such_function_at_all()

include ./shared.slt.part

statement ok
COPY t TO 'test_files/scratch/tables/t.parquet'

statement ok
CREATE EXTERNAL TABLE written STORED AS PARQUET LOCATION 'test_files/scratch/tables/t.parquet'

query I
SELECT a.column1 FROM written a JOIN t b ON a.column1 = b.column1 WHERE a.column1 > 3

query TT
EXPLAIN SELECT * FROM t WHERE column1 > 2
----
not compared
"""
SHARED = """
onlyif postgresql
statement ok
SELECT 1

statement ok
CREATE VIEW v AS SELECT column1 AS k FROM t WHERE column1 % 2 = 1

query I
SELECT k FROM v WHERE k > 1
----
3
"""
ERRORS = """
statement error DataFusion error: .*
SELECT no_such_column

query error
SELECT 1 / column1 FROM (VALUES (0)) WHERE column1 = 0
----
some error

of two lines


query I
SELECT 1

halt

query I
SELECT 2
"""


@pytest.fixture
def folder(tmp_path):
    found = tmp_path / "root" / "test_files"
    (found / "deeper").mkdir(parents=True)
    (found / "tables.slt").write_text(TABLES)
    (found / "shared.slt.part").write_text(SHARED)
    (found / "deeper" / "errors.slt").write_text(ERRORS)
    return found


def run(folder, tmp_path, **options):
    files = sorted(folder.rglob("*.slt"))
    return run_files(files, folder, folder.parent, out=tmp_path / "out", **options)


def test_files_are_parsed(folder):
    tables = parse_records(folder / "tables.slt")
    assert [record.text.split()[0] for record in tables] == [
        *("CREATE", "SELECT", "INSERT", "SELECT", "SELECT", "CREATE", "SELECT"),
        *("COPY", "CREATE", "SELECT", "EXPLAIN"),
    ]
    assert (tables[1].file, tables[1].line) == ("tables.slt", 6)
    assert [record.is_query for record in tables].count(True) == 5
    errors = parse_records(folder / "deeper" / "errors.slt")
    assert [record.text.splitlines()[0][:8] for record in errors] == [
        "SELECT n",
        "SELECT 1",
        "SELECT 1",
    ]


def test_nothing_differs(folder, tmp_path, capsys):
    results = run(folder, tmp_path, paths=("auto", "late"))
    assert report(results, ("auto", "late")), capsys.readouterr().out
    counts = sum((found.result.counts for found in results[1:]), results[0].result.counts)
    assert counts["queries"] == 8
    assert counts["queries on late read by late"] >= 4
    assert counts["queries that fail in DataFusion"] == 2
    assert "0 differences, 0 files that did not end" in capsys.readouterr().out


def test_rows_that_tie_may_be_in_any_order():
    def outcome(*rows):
        return Outcome(schema=("u | int64", "s | string"), rows=rows)

    first = outcome("2 | a", "1 | b", "1 | c")
    assert first.is_same(outcome("2 | a", "1 | c", "1 | b"), key="U")
    assert not first.is_same(outcome("1 | b", "2 | a", "1 | c"), key="u")
    assert first.is_same(outcome("1 | b", "2 | a", "1 | c"))
    assert not first.is_same(outcome("2 | a", "1 | c", "1 | c"))


def test_a_lost_row_is_a_difference_with_a_script(folder, tmp_path, monkeypatch, capsys):
    scan = LateScanner.to_batches

    def losing(self):
        for batch in scan(self):
            yield batch.slice(1)

    monkeypatch.setattr(LateScanner, "to_batches", losing)
    file = folder / "tables.slt"
    found = run_one(file, folder, folder.parent, ("auto", "late"), tmp_path / "out")
    lost = found.result.differences
    assert {difference.path for difference in lost} == {"late"}
    assert {difference.kind for difference in lost} == {"rows"}
    assert lost[0].record.line == 6
    assert not report([found], ("late",))
    assert "tables.slt:6: rows on the path late, run 1." in capsys.readouterr().out
    # The script stands alone: in another process nothing is lost.
    script = tmp_path / "out" / "tables.slt" / "0" / "show.py"
    shown = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert shown.stdout.count("column2: ") == 8


def test_a_file_that_takes_too_long_fails_alone(folder, tmp_path, capsys):
    results = run(folder, tmp_path, paths=("late",), timeout_s=0.01)
    assert [found.failure.partition("\n")[0] for found in results] == ["took longer than 0 s"] * 2
    assert not report(results, ("late",))
    assert "2 files that did not end" in capsys.readouterr().out


def test_queries_over_a_folder_of_tables(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "queries").mkdir()
    table = pa.table({"k": range(30), "s": list("abc") * 10})
    pq.write_table(table, tmp_path / "data" / "t.parquet", row_group_size=10)
    file = tmp_path / "queries" / "1.sql"
    file.write_text(
        "-- two; of them\nSELECT s, sum(k) FROM t WHERE k > 12 GROUP BY s;\nSELECT 1;\n"
    )
    (found,) = run_queries(tmp_path / "data", [file], ("auto", "late"), tmp_path / "out")
    assert not found.result.differences
    assert found.result.counts["queries"] == 2
    assert found.result.counts["queries on late read by late"] == 1
