"""Short queries: DataFusion's reader the first time, the cheapest path from the second time on."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import col, lit

import lm_datafusion as lm
from lm_datafusion.engine import cost, server, watch
from lm_datafusion.engine.catalog import SessionCatalog
from lm_datafusion.formats.cache import FACTS

ROWS = 300_000
QUERY = "SELECT sum(w0), sum(w1), sum(w2), sum(w3) FROM t WHERE key = 7"


@pytest.fixture
def session(tmp_path):
    rng = np.random.default_rng(4)
    columns = {f"w{n}": rng.random(ROWS) for n in range(4)}
    table = pa.table({"key": rng.integers(0, 1000, ROWS), **columns})
    pq.write_table(table, tmp_path / "t.parquet")
    made = lm.SessionContext(options=lm.ScanOptions(condition_cache_bytes=0))
    made.register_parquet("t", str(tmp_path / "t.parquet"))
    return made


def paths(session, run, times=3):
    found = []
    for _ in range(times):
        run()
        found += [report.path for report in session.scan_reports()]
    return found


def test_a_short_query_is_read_late_from_the_second_time_on(session):
    assert paths(session, lambda: session.sql(QUERY).collect()) == ["native", "late", "late"]


def test_one_footer_tells_that_a_query_is_short(tmp_path):
    for name in "abcd":
        pq.write_table(pa.table({"key": range(1000)}), tmp_path / f"{name}.parquet")
    made = lm.SessionContext()
    made.register_parquet("t", str(tmp_path))
    FACTS.clear()
    made.sql("SELECT count(*) FROM t WHERE key = 7").collect()
    assert len(FACTS) == 1


def test_a_long_query_is_read_late_at_once(session, monkeypatch):
    monkeypatch.setattr(cost, "SAMPLE_S", 0.0)
    monkeypatch.setattr(cost, "SHORT_S", 0.0)
    FACTS.clear()
    assert paths(session, lambda: session.sql(QUERY).collect(), 1) == ["late"]


def test_frames_without_a_text_are_recognised_too(session):
    def run():
        session.table("t").filter(col("key") == lit(7)).select("w0", "w1", "w2", "w3").collect()

    assert paths(session, run) == ["native", "late", "late"]


def test_explaining_is_no_run(session):
    assert "for the first time" in str(session.explain_scan(QUERY))
    session.sql(f"EXPLAIN {QUERY}").collect()
    assert paths(session, lambda: session.sql(QUERY).collect(), 2) == ["native", "late"]


def test_a_path_that_is_asked_for_runs_the_first_time(session):
    options = lm.ScanOptions(path="late", condition_cache_bytes=0)
    assert paths(session, lambda: session.sql(QUERY, options).collect(), 1) == ["late"]


def test_what_is_known_of_a_filter_serves_new_queries(session):
    paths(session, lambda: session.sql(QUERY).collect())
    other = "SELECT sum(w0), avg(w1), avg(w2), avg(w3) FROM t WHERE key = 7"
    assert paths(session, lambda: session.sql(other).collect(), 1) == ["late"]


def test_a_table_that_is_new_in_a_query_over_two_is_read_late_the_second_time(session, tmp_path):
    rng = np.random.default_rng(5)
    columns = {f"w{n}": rng.random(ROWS) for n in range(4)}
    table = pa.table({"key": rng.integers(0, 1000, ROWS), **columns})
    pq.write_table(table, tmp_path / "u.parquet")
    session.register_parquet("u", str(tmp_path / "u.parquet"))
    paths(session, lambda: session.sql(QUERY).collect())
    both = f"{QUERY} UNION ALL {QUERY.replace('FROM t', 'FROM u').replace('key = 7', 'key = 9')}"
    found = []
    for _ in range(3):
        session.sql(both).collect()
        found.append(sorted(report.path for report in session.scan_reports()))
    assert found == [["late", "native"], ["late", "late"], ["late", "late"]]


def test_a_reader_that_fails_is_not_tried_again(session, monkeypatch):
    calls = []

    def fail(scanner):
        calls.append(scanner)
        raise NotImplementedError("made up")
        yield

    monkeypatch.setattr(watch._Scanner, "to_batches", fail)
    options = lm.ScanOptions(path="late", condition_cache_bytes=0)
    session.sql(QUERY, options).collect()
    count = len(calls)
    assert count > 0
    found = paths(session, lambda: session.sql(QUERY, options).collect(), 2)
    assert found == ["native", "native"]
    assert len(calls) == count


def test_a_filter_that_no_scan_can_measure_is_chosen_for_three_times(tmp_path, monkeypatch):
    # Too few rows for a measurement, and a cost that depends on it.
    monkeypatch.setattr(cost, "STATEMENT_S", 0.0)
    monkeypatch.setattr(cost, "ROW_GROUP_S", 0.0)
    monkeypatch.setattr(cost, "NATIVE_ROW_GROUP_S", 0.0)
    wide = {f"w{n}": [f"{n} {row}" * 9 for row in range(1000)] for n in range(4)}
    pq.write_table(pa.table({"key": range(1000), **wide}), tmp_path / "t.parquet")
    made = lm.SessionContext(options=lm.ScanOptions(path="late", condition_cache_bytes=0))
    made.register_parquet("t", str(tmp_path / "t.parquet"))
    chosen = []
    choose = server.choose
    monkeypatch.setattr(server, "choose", lambda *given: chosen.append(0) or choose(*given))
    for _ in range(6):
        made.sql("SELECT max(w0), max(w1), max(w2), max(w3) FROM t WHERE key > 5").collect()
    assert len(chosen) == 3


@pytest.mark.parametrize(
    ("query", "is_listed"),
    [
        ("SELECT sum(w0) FROM t", False),
        ("SELECT key, count(*) AS c FROM t GROUP BY key ORDER BY c LIMIT 3", False),
        ("SELECT a.w0 FROM t a JOIN t b ON a.key = b.key AND a.w0 = b.w1", False),
        ("SELECT sum(w0) FROM t WHERE key = 7", True),
        ("SELECT * FROM t ORDER BY w0 LIMIT 3", True),
        ("SELECT key, count(*) FROM t GROUP BY key LIMIT 3", True),
    ],
)
def test_files_are_not_listed_for_a_first_run_that_cannot_be_narrowed(
    session, query, is_listed, monkeypatch
):
    listed = []
    table_of = SessionCatalog.parquet_table
    monkeypatch.setattr(
        SessionCatalog, "parquet_table", lambda *given: listed.append(0) or table_of(*given)
    )
    session.sql(query).collect()
    assert bool(listed) == is_listed
    (report,) = session.scan_reports()
    assert (report.table, report.files) == ("t", 1)
    assert report.bytes_total > 0
