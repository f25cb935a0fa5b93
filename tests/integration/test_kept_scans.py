"""Frames over our own scan are kept for statements that run again, and scan anew each time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.dataset import LateFragment
from lm_datafusion.engine import preparer, trial

ROWS = 8_000
RUNS = 5
QUERIES = [
    "SELECT count(*), sum(id) FROM t WHERE id < 900",
    "SELECT count(*), sum(id) FROM t WHERE id >= 3500 AND id < 12600 AND word <> ''",
    "SELECT count(*), sum(id) FROM t WHERE id > 1000000",
    "SELECT k, count(*), min(word) FROM t WHERE id < 2500 GROUP BY k ORDER BY k",
    "SELECT id, word FROM t WHERE id BETWEEN 990 AND 1010 ORDER BY id",
    "SELECT avg(x) FROM t WHERE word = 'w3' AND k = 4",
    "SELECT k, n FROM (SELECT k, count(*) AS n FROM t WHERE id < 3000 GROUP BY k) WHERE n > 100",
    "SELECT a.k, count(*) FROM t AS a JOIN t AS b ON a.id = b.id WHERE a.id < 50 GROUP BY a.k",
]


def table(start, rows=ROWS):
    ids = range(start, start + rows)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "k": pa.array([i % 7 for i in ids], pa.int32()),
            "word": [None if i % 11 == 0 else f"w{i % 13}" for i in ids],
            "x": [i / 3 for i in ids],
        }
    )


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "t"
    place.mkdir()
    for number in range(2):
        pq.write_table(table(number * ROWS), place / f"{number}.parquet", row_group_size=1_000)
    return place


def sessions(folder, **options):
    config = datafusion.SessionConfig({"datafusion.execution.target_partitions": "2"})
    plain = datafusion.SessionContext(config)
    ours = lm.SessionContext(config, options=lm.ScanOptions(path="late", **options))
    for context in (plain, ours):
        context.register_parquet("t", str(folder))
    return plain, ours


@pytest.fixture
def ready(monkeypatch):
    """Plans that were ready and ran."""
    seen = []
    collect = trial.ReadyPlan.collect

    def counted(self, *arguments):
        seen.append(self)
        return collect(self, *arguments)

    monkeypatch.setattr(trial.ReadyPlan, "collect", counted)
    return seen


def in_order(rows):
    return sorted(map(repr, rows))


def only(ready):
    (late,) = set(ready)
    assert isinstance(late, preparer.ScannedAgain)
    return late


@pytest.mark.parametrize("query", QUERIES)
def test_a_frame_over_our_own_scan_is_kept(folder, ready, query):
    plain, ours = sessions(folder, condition_cache_bytes=0)
    expected = plain.sql(query).to_arrow_table()
    reports = []
    for _ in range(RUNS):
        found = ours.sql(query).to_arrow_table()
        assert found.schema == expected.schema
        assert in_order(found.to_pylist()) == in_order(expected.to_pylist())
        reports += ours.scan_reports()
    assert len(ready) == RUNS - 1
    assert len(only(ready)._idle) == 1
    # Each run has reports of its own.
    per_run = len(reports) // RUNS
    counts = [(r.files, r.row_groups_total, r.rows_total, r.rows_selected) for r in reports]
    assert counts == counts[:per_run] * RUNS


def test_runs_at_the_same_time_have_frames_of_their_own(folder, ready):
    plain, ours = sessions(folder, condition_cache_bytes=0)
    query = "SELECT k, count(*) AS n, min(word) AS w FROM t WHERE id < 9500 GROUP BY k ORDER BY k"
    expected = plain.sql(query).to_pylist()

    def run(_):
        found = ours.sql(query).to_pylist()
        (report,) = ours.scan_reports()
        return found, report.rows_selected, report.row_groups_total

    for _ in range(2):
        ours.sql(query).collect()
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(run, range(60))) == [(expected, 9500, 16)] * 60
    assert 1 <= len(only(ready)._idle) <= 6


def test_a_kept_frame_reads_files_as_they_are(folder, ready):
    _, ours = sessions(folder)
    query = "SELECT count(*) AS n, sum(id) AS total FROM t WHERE id < 900"
    for _ in range(3):
        assert ours.sql(query).to_pylist() == [{"n": 900, "total": 404_550}]
    before = len(ready)
    pq.write_table(table(0, 100), folder / "0.parquet")
    for _ in range(3):
        assert ours.sql(query).to_pylist() == [{"n": 100, "total": 4950}]
    assert len(ready) == before


def test_a_file_that_changes_while_a_kept_frame_runs(folder, ready, monkeypatch):
    _, ours = sessions(folder)
    query = "SELECT count(*) AS n, sum(id) AS total FROM t WHERE id < 900"
    for _ in range(3):
        ours.sql(query).collect()
    scanner = LateFragment.scanner
    changes = [lambda: pq.write_table(table(0, 100), folder / "0.parquet")]

    def change_first(self, *arguments, **options):
        while changes:
            changes.pop()()
        return scanner(self, *arguments, **options)

    monkeypatch.setattr(LateFragment, "scanner", change_first)
    # What was planned for the old file is not read from the new one: the statement begins anew.
    assert ours.sql(query).to_pylist() == [{"n": 100, "total": 4950}]
    assert isinstance(ready[-1], preparer.ScannedAgain)
    ran = len(ready)
    assert ours.sql(query).to_pylist() == [{"n": 100, "total": 4950}]
    assert len(ready) == ran


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM t WHERE id < 900 AND x < random() * 0",
        "SELECT count(*) FROM t WHERE id < 900 AND now() > to_timestamp('2020-01-01')",
        "SELECT sum(own(id)) FROM t WHERE id < 900",
    ],
)
def test_frames_whose_meaning_may_change_are_not_kept(folder, ready, query):
    _, ours = sessions(folder)
    ours.register_udf(datafusion.udf(lambda a: a, [pa.int64()], pa.int64(), "stable", name="own"))
    for _ in range(3):
        ours.sql(query).collect()
    assert not ready
