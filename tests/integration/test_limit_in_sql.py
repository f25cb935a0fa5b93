"""LIMIT without ORDER BY: any rows will do, and a scan stops once it has them."""

from __future__ import annotations

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from tests.eager import eager

ROWS = 20_000


@pytest.fixture
def path(tmp_path):
    table = pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "k": pa.array([i % 7 for i in range(ROWS)], pa.int32()),
            "word": [f"w{i % 13}" for i in range(ROWS)],
            "wide": [f"a longer text of row {i}" for i in range(ROWS)],
        }
    )
    path = str(tmp_path / "t.parquet")
    pq.write_table(table, path, row_group_size=2_000, max_rows_per_page=500, write_page_index=True)
    return path


def sessions(file, **options):
    plain = datafusion.SessionContext()
    ours = lm.SessionContext(options=lm.ScanOptions(threads=1, **options))
    for context in (plain, ours):
        context.register_parquet("t", file)
    return plain, ours


def test_a_late_scan_stops_when_it_has_enough(path):
    plain, ours = sessions(path, path="late")
    found = ours.sql("SELECT id, wide FROM t WHERE k = 3 LIMIT 5").to_pylist()
    (report,) = ours.scan_reports()
    assert report.path == "late"
    assert "stops after 5 rows" in report.mechanism
    assert report.pages_fetched == 3, "one page of each column"
    matching = plain.sql("SELECT id, wide FROM t WHERE k = 3").to_pylist()
    assert len(found) == 5
    assert all(row in matching for row in found)
    assert "stops after 5 rows" in str(ours.explain_scan("SELECT id FROM t WHERE k = 3 LIMIT 5"))


def test_row_groups_that_match_as_a_whole_come_first(path):
    _, ours = sessions(path, path="late")
    found = ours.sql("SELECT id FROM t WHERE id >= 1999 LIMIT 10").to_pylist()
    (report,) = ours.scan_reports()
    assert len(found) == 10
    assert all(row["id"] >= 2000 for row in found), "not from the first row group"
    assert report.row_groups_pruned_early_stop == 9


@pytest.mark.parametrize("path_word", ["late", "auto"])
@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("SELECT id, k FROM t WHERE k = 3 LIMIT 5", 5),
        ("SELECT id, k FROM t WHERE k = 3 LIMIT 5 OFFSET 4", 5),
        ("SELECT id, k FROM t WHERE k = 3 LIMIT 0", 0),
        ("SELECT id + 1 AS n, k FROM (SELECT * FROM t WHERE k = 3) AS s LIMIT 5", 5),
        ("SELECT k FROM t WHERE k = 3 AND word = 'w1' LIMIT 100000", None),
        ("SELECT k FROM t WHERE k > 100 LIMIT 5", 0),
        ("SELECT k FROM t WHERE k = 3 OFFSET 19", None),
        ("SELECT count(*) AS n FROM (SELECT k FROM t WHERE k = 3 LIMIT 9)", 1),
        ("SELECT k FROM t WHERE k = 3 LIMIT 4", 4),
    ],
)
def test_as_many_rows_as_datafusion_gives(path, path_word, query, count):
    plain, ours = sessions(path, path=path_word)
    for _ in range(3):
        expected, found = plain.sql(query).to_arrow_table(), ours.sql(query).to_arrow_table()
        assert found.schema == expected.schema
        assert found.num_rows == expected.num_rows
        assert count is None or found.num_rows == count
        if "k" in found.column_names:
            assert set(found["k"].to_pylist()) <= {3}
    if "count(*)" in query:
        assert found.to_pylist() == [{"n": 9}]


def test_a_filter_above_a_limit_is_no_filter_of_the_scan(path):
    _, ours = sessions(path, path="late")
    query = "SELECT * FROM (SELECT * FROM t LIMIT 7000) WHERE k = 3"
    assert ours.sql(query).to_arrow_table().num_rows == 1000
    assert ours.scan_reports()[0].path == "native"


def test_of_a_wide_table_the_other_columns_are_read_for_those_rows_only(path):
    _, ours = sessions(path)

    def reason(query):
        with eager():
            (found,) = ours.explain_scan(query).to_dict()
        return found["reason"]

    assert reason("SELECT * FROM t WHERE k = 3 LIMIT 5").startswith("any 5 rows")
    assert "any" not in reason("SELECT * FROM t WHERE k = 3 ORDER BY id LIMIT 5")
