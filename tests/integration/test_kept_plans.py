"""Statements that run again give what DataFusion gives, whatever has happened in between."""

from __future__ import annotations

import os
import threading

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from tests.eager import eager

QUERIES = (
    "SELECT count(*) FROM t",
    "SELECT min(a), max(a) FROM t",
    "SELECT sum(a) FROM t WHERE s LIKE '%7%'",
    "SELECT * FROM t WHERE a % 10 = 3 ORDER BY a LIMIT 5",
    "SELECT s FROM t WHERE a > 50 ORDER BY s DESC LIMIT 3",
)


def write(path, start, rows=200):
    ids = range(start, start + rows)
    table = pa.table({"a": ids, "s": [f"text {i}" for i in ids]})
    pq.write_table(table, path, row_group_size=50)


def sessions(folder, path="auto"):
    plain, ours = datafusion.SessionContext(), lm.SessionContext(options=lm.ScanOptions(path=path))
    for context in (plain, ours):
        context.register_parquet("t", str(folder))
    return plain, ours


@pytest.fixture(autouse=True)
def _eager():
    with eager():
        yield


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "0.parquet", 0)
    return tmp_path


@pytest.mark.parametrize("path", ["auto", "late", "native"])
@pytest.mark.parametrize("query", QUERIES)
def test_every_run_gives_the_same(folder, path, query):
    plain, ours = sessions(folder, path)
    expected = plain.sql(query).to_arrow_table()
    for _ in range(5):
        found = ours.sql(query).to_arrow_table()
        assert found.schema == expected.schema
        assert found.to_pylist() == expected.to_pylist()


def test_a_kept_plan_is_not_planned_again(folder, monkeypatch):
    _, ours = sessions(folder, "late")
    query = QUERIES[2]
    for _ in range(3):
        ours.sql(query).collect()
    planned = []
    plan = datafusion.SessionContext.sql
    monkeypatch.setattr(
        datafusion.SessionContext, "sql", lambda *a, **k: planned.append(a) or plan(*a, **k)
    )
    ours.sql(query).collect()
    assert planned == []
    assert ours.scan_reports()[0].rows_total == 200


@pytest.mark.parametrize("query", QUERIES)
def test_of_a_file_that_is_replaced_one_version_is_read(folder, query):
    """DataFusion keeps its list of files, and may answer from it, or fail."""
    plain, ours = sessions(folder)
    for _ in range(3):
        ours.sql(query).collect()
        plain.sql(query).collect()
    write(folder / "new", 1_000, rows=300)
    os.replace(folder / "new", folder / "0.parquet")
    fresh, _ = sessions(folder)
    allowed = [outcome(plain, query), outcome(fresh, query)]
    for _ in range(3):
        assert outcome(ours, query) in allowed


def outcome(session, query):
    try:
        return session.sql(query).to_pylist()
    except Exception as error:  # noqa: BLE001 DataFusion's own classes
        return str(error)


@pytest.mark.parametrize("query", QUERIES)
def test_a_table_that_is_registered_again_is_another(folder, tmp_path_factory, query):
    _, ours = sessions(folder)
    for _ in range(3):
        ours.sql(query).collect()
    other = tmp_path_factory.mktemp("other")
    write(other / "1.parquet", 5_000)
    ours.deregister_table("t")
    ours.register_parquet("t", str(other))
    plain, _ = sessions(other)
    for _ in range(3):
        assert ours.sql(query).to_pylist() == plain.sql(query).to_pylist()


def test_a_frame_of_before_a_change_means_what_it_meant(folder, tmp_path_factory):
    plain, ours = sessions(folder)
    query = QUERIES[2]
    for _ in range(3):
        ours.sql(query).collect()
    frame, expected = ours.sql(query), plain.sql(query).to_pylist()
    other = tmp_path_factory.mktemp("other")
    write(other / "1.parquet", 5_000)
    ours.deregister_table("t")
    ours.register_parquet("t", str(other))
    assert frame.to_pylist() == expected


def test_threads_run_one_statement_at_the_same_time(folder):
    plain, ours = sessions(folder, "late")
    query = QUERIES[2]
    expected, wrong = plain.sql(query).to_pylist(), []

    def run():
        for _ in range(20):
            found = ours.sql(query).to_pylist()
            if found != expected or ours.scan_reports()[0].rows_total != 200:
                wrong.append(found)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
