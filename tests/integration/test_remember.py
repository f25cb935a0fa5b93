"""Conditions that are remembered: the second query does not evaluate them again."""

from __future__ import annotations

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from tests.eager import eager

ROWS = 20_000
LIKE = "SELECT count(*), min(word) FROM t WHERE text LIKE '%77%' AND k > 2"


@pytest.fixture
def path(tmp_path):
    path = str(tmp_path / "t.parquet")
    write(path, 0)
    with eager():
        yield path


def write(path, start):
    ids = range(start, start + ROWS)
    table = pa.table(
        {
            "text": [f"text {i}" for i in ids],
            "k": [i % 5 for i in ids],
            "word": [f"w{i % 100}" for i in ids],
        }
    )
    pq.write_table(table, path, row_group_size=4_000)


def session(path, **options):
    context = lm.SessionContext(options=lm.ScanOptions(**options))
    context.register_parquet("t", path)
    return context


def plain(path, query):
    context = datafusion.SessionContext()
    context.register_parquet("t", path)
    return context.sql(query).to_pylist()


def test_the_second_time_rows_are_known(path):
    ours = session(path)
    reports = []
    for _ in range(4):
        assert ours.sql(LIKE).to_pylist() == plain(path, LIKE)
        reports += ours.scan_reports()
    assert [report.path for report in reports] == ["late"] * 4
    assert reports[0].steps
    assert not any(report.steps for report in reports[1:])
    assert lm.condition_cache_bytes() > 0


def test_another_query_with_the_same_condition(path):
    ours = session(path)
    ours.sql(LIKE).collect()
    other = "SELECT word, count(*) FROM t WHERE k > 2 AND text LIKE '%77%' GROUP BY word ORDER BY 1"
    assert ours.sql(other).to_pylist() == plain(path, other)
    assert not ours.scan_reports()[0].steps


def test_a_scan_that_stops_early_gives_right_rows(path):
    ours = session(path)
    query = f"{LIKE.replace('count(*), min(word)', 'word')} LIMIT 5"
    for _ in range(3):
        assert ours.sql(query).to_arrow_table().num_rows == 5
    ours.sql(LIKE).collect()
    assert ours.sql(query).to_arrow_table().num_rows == 5


def test_without_a_cache_conditions_are_evaluated_each_time(path):
    off = session(path, condition_cache_bytes=0)
    for _ in range(3):
        assert off.sql(LIKE).to_pylist() == plain(path, LIKE)
        assert off.scan_reports()[0].steps


def test_a_changed_file_is_evaluated_anew(path):
    session(path).sql(LIKE).collect()
    write(path, 50_000)
    ours = session(path)
    assert ours.sql(LIKE).to_pylist() == plain(path, LIKE)
    assert ours.scan_reports()[0].steps
