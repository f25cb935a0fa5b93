"""ORDER BY ... LIMIT, found by bounds: the rows DataFusion gives, from a few pages."""

from __future__ import annotations

import datetime as dt
import itertools
import random
import threading

import datafusion
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.engine.paths import top_k
from lm_datafusion.errors import GaveUpError
from lm_datafusion.metrics import ScanMetrics
from lm_datafusion.plan import FirstRows, ScanRequest
from lm_datafusion.scan import ScanRun, plan_scan

ROWS = 6_000
START = dt.datetime(2024, 1, 1)  # noqa: DTZ001 stored without a zone


def log(number, *, descending=False, nulls="last"):
    """Events in the order of time; some without one, at the end that is asked for."""
    rng = random.Random(number)
    times = sorted(
        START + dt.timedelta(days=number, seconds=rng.randrange(40_000)) for _ in range(ROWS)
    )
    if descending:
        times.reverse()
    nulled = [None] * 50
    times = nulled + times[50:] if nulls == "first" else times[:-50] + nulled
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us")),
            "id": pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64()),
            "level": pa.array([rng.randrange(20) for _ in range(ROWS)], pa.int32()),
            "x": [rng.random() if rng.random() < 0.9 else float("nan") for _ in range(ROWS)],
            "word": [f"w{rng.randrange(500):03}" for _ in range(ROWS)],
            "text": [f"message {i} " * 5 for i in range(ROWS)],
        }
    )


def write(root, **options):
    for number in range(3):
        pq.write_table(
            log(number, **options),
            root / f"{number}.parquet",
            row_group_size=2_000,
            max_rows_per_page=200,
            data_page_size=1 << 30,
            write_page_index=True,
        )
    return str(root)


@pytest.fixture(scope="module", params=["ascending", "descending", "nulls first"])
def folder(request, tmp_path_factory):
    root = tmp_path_factory.mktemp("log")
    nulls = "first" if request.param == "nulls first" else "last"
    return write(root, descending=request.param == "descending", nulls=nulls)


def sessions(folder, path="late"):
    config = datafusion.SessionConfig().with_target_partitions(2)
    # In memory: over files DataFusion goes by bounds that leave NaN out.
    plain = datafusion.SessionContext(config)
    (batch,) = pq.read_table(folder).combine_chunks().to_batches()
    plain.register_record_batches("t", [[batch]])
    ours = lm.SessionContext(config, options=lm.ScanOptions(path=path, threads=2))
    ours.register_parquet("t", folder)
    for context in (plain, ours):
        context.sql("CREATE VIEW v AS SELECT ts AS at, level + 1 AS l, id, text FROM t")
    return plain, ours


ORDERS = ["ASC", "DESC", "ASC NULLS FIRST", "DESC NULLS LAST"]
KEYS = ["ts", "x", "word", "level"]


@pytest.mark.parametrize(("key", "order"), list(itertools.product(KEYS, ORDERS)))
def test_the_rows_of_every_order(folder, key, order):
    plain, ours = sessions(folder)
    for where, limit in [
        ("TRUE", "LIMIT 10"),
        ("level = 3", "LIMIT 7 OFFSET 20"),
        ("level < 2 AND word <> 'w007'", "LIMIT 200"),
        ("level = 77", "LIMIT 5"),
        ("level = 5", "LIMIT 100000"),
        ("TRUE", "LIMIT 0"),
    ]:
        query = f"SELECT * FROM t WHERE {where} ORDER BY {key} {order}, id {limit}"
        found, expected = ours.sql(query), plain.sql(query)
        assert found.schema().names == expected.schema().names
        assert str(found.to_pylist()) == str(expected.to_pylist()), query


@pytest.mark.parametrize(
    "query",
    [
        "SELECT text FROM v WHERE l = 4 ORDER BY at DESC, id DESC LIMIT 5",
        "SELECT a.id FROM t AS a WHERE level = 2 ORDER BY a.ts DESC, a.id LIMIT 5 OFFSET 3",
        "WITH c AS (SELECT * FROM t WHERE level = 1) SELECT id, x FROM c ORDER BY ts, id LIMIT 9",
    ],
)
def test_views_aliases_and_ctes(folder, query):
    plain, ours = sessions(folder)
    assert str(ours.sql(query).to_pylist()) == str(plain.sql(query).to_pylist())
    assert ours.scan_reports()[0].mechanism.startswith("first ")


def test_a_few_pages_are_read_and_the_report_says_so(tmp_path):
    _, ours = sessions(write(tmp_path))
    query = "SELECT id, ts FROM t WHERE ts IS NOT NULL ORDER BY ts DESC NULLS LAST LIMIT 5"
    ours.sql(query).collect()
    (report,) = ours.scan_reports()
    assert report.path == "late"
    assert "best key" in report.mechanism
    assert "proven" in report.order or "ordered" in report.order, report.order
    # The last row group of the last file; of it the last pages, which hold the nulls too.
    assert report.row_groups_pruned_early_stop == 8
    assert report.pages_total - report.pages_pruned <= 6
    assert "early stop" in str(report)


def test_small_tables_stay_with_datafusion(tmp_path):
    plain, ours = sessions(write(tmp_path), path="auto")
    query = "SELECT * FROM t WHERE level = 3 ORDER BY ts DESC, id LIMIT 5"
    assert str(ours.sql(query).to_pylist()) == str(plain.sql(query).to_pylist())
    assert ours.scan_reports()[0].path == "native"


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Large enough that a look at bounds pays."""
    root = tmp_path_factory.mktemp("large")
    rows = 800_000
    table = pa.table(
        {
            "ts": pa.array(range(rows), pa.int64()),
            "level": pa.array([i % 100 for i in range(rows)], pa.int32()),
            **{f"c{i}": pa.array([f"{i} {j}" for j in range(rows)]) for i in range(3)},
        }
    )
    pq.write_table(
        table,
        root / "a.parquet",
        row_group_size=400_000,
        max_rows_per_page=5_000,
        data_page_size=1 << 30,
        write_page_index=True,
        use_dictionary=False,
    )
    return str(root / "a.parquet")


@pytest.mark.parametrize("order", ["ASC", "DESC"])
def test_auto_chooses_it_where_bounds_lead_to_the_rows(large, order):
    plain, ours = sessions_of_one(large)
    query = f"SELECT * FROM t WHERE level = 7 ORDER BY ts {order} LIMIT 10"
    explained = str(ours.explain_scan(query))
    assert "bounds of ts lead to the first rows" in explained
    assert "pages in the order of the best key" in " ".join(explained.split())
    assert "order    " in explained
    assert ours.sql(query).to_pylist() == plain.sql(query).to_pylist()
    (report,) = ours.scan_reports()
    assert report.path == "late"
    assert report.pages_pruned_early_stop > 20


def sessions_of_one(path, options=None):
    config = datafusion.SessionConfig().with_target_partitions(2)
    plain = datafusion.SessionContext(config)
    ours = lm.SessionContext(config, options=options)
    for context in (plain, ours):
        context.register_parquet("t", path)
    return plain, ours


def test_a_declared_order_that_is_wrong_costs_no_row(tmp_path):
    table = pa.table({"k": [5, 1, 9, 3, 7, 2] * 100, "n": list(range(600))})
    path = str(tmp_path / "a.parquet")
    pq.write_table(table, path, row_group_size=100, sorting_columns=[pq.SortingColumn(0)])
    plain = datafusion.SessionContext()
    plain.from_arrow(table, name="t")
    ours = lm.SessionContext(options=lm.ScanOptions(path="late"))
    ours.register_parquet("t", path, file_sort_order=[["k"]])
    first = "SELECT k FROM t WHERE n > 3 ORDER BY k DESC LIMIT 20"
    assert ours.sql(first).to_pylist() == plain.sql(first).to_pylist()


def test_leaving_a_stream_early_leaves_nothing_behind(folder):
    _, ours = sessions(folder)
    before = threading.active_count()
    for _ in range(5):
        stream = ours.sql(
            "SELECT * FROM t WHERE level < 5 ORDER BY ts DESC LIMIT 500"
        ).execute_stream()
        next(iter(stream))
        del stream
    assert threading.active_count() <= before + 1


def test_bounds_that_mislead_cost_no_row(tmp_path):
    """The pages that look best hold no row that passes; the others look all alike."""
    rows, page = 800_000, 5_000
    keys = [10**6 if i % page == 0 else 10**9 - i for i in range(rows)]
    keys[: 2 * page] = range(2 * page)
    table = pa.table(
        {
            "k": pa.array(keys, pa.int64()),
            "level": pa.array([5 if k <= 10**6 else k % 2 for k in keys], pa.int32()),
            **{f"c{i}": pa.array([f"{i} {j}" for j in range(rows)]) for i in range(3)},
        }
    )
    path = str(tmp_path / "a.parquet")
    pq.write_table(
        table,
        path,
        row_group_size=400_000,
        max_rows_per_page=page,
        data_page_size=1 << 30,
        write_page_index=True,
        use_dictionary=False,
    )
    plain, ours = sessions_of_one(path)
    query = "SELECT * FROM t WHERE level = 1 ORDER BY k LIMIT 10"
    assert "bounds of k lead" in str(ours.explain_scan(query))
    for _ in range(3):
        assert ours.sql(query).to_pylist() == plain.sql(query).to_pylist()
        (report,) = ours.scan_reports()
        assert report.path == "late"


def tied_rows(path, most):
    table = lm.dataset(path).table
    first = FirstRows(column="k", row_count=10, most_rows_found=most)
    request = ScanRequest(conjuncts=(), columns=("n",), first=first)
    run = ScanRun(plan_scan(table, request, lm.ScanOptions(), ScanMetrics()), ScanMetrics())
    return sum(batch.num_rows for batch in run.batches())


def test_a_scan_gives_up_when_too_many_rows_tie(tmp_path):
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"k": [7] * 400 + [8] * 400, "n": range(800)}), path)
    assert tied_rows(path, None) == tied_rows(path, 400) == 400
    with pytest.raises(GaveUpError, match="400 rows tie"):
        tied_rows(path, 399)


@pytest.fixture
def ties(tmp_path, monkeypatch):
    """A table whose rows all tie, and sessions for which ten of them are too many."""
    monkeypatch.setattr(top_k, "MOST_TIES", 10)
    path = str(tmp_path / "a.parquet")
    rows = {"k": [7] * 4_000, "n": range(4_000, 0, -1), "s": ["x" * 40] * 4_000}
    pq.write_table(pa.table(rows), path, row_group_size=1_000)
    return sessions_of_one(path, lm.ScanOptions(path="late"))


TIES = "SELECT * FROM t WHERE n > 5 ORDER BY k, n LIMIT 10"


def test_a_session_runs_datafusion_where_too_many_rows_tie(ties):
    plain, ours = ties
    assert "* top_k" in str(ours.explain_scan(TIES))
    for _ in range(3):
        assert ours.sql(TIES).to_pylist() == plain.sql(TIES).to_pylist()
        (report,) = ours.scan_reports()
        assert (report.path, "rows tie" in report.reason) == ("native", True)


def test_a_stream_begins_again_where_too_many_rows_tie(ties):
    plain, ours = ties
    batches = [batch.to_pyarrow() for batch in ours.sql(TIES).execute_stream()]
    assert pa.Table.from_batches(batches).to_pylist() == plain.sql(TIES).to_pylist()
    assert ours.scan_reports()[0].path == "native"


def test_rows_that_are_written_are_read_once_however_many_tie(ties, tmp_path):
    plain, ours = ties
    for _ in range(2):  # the plan that the first run keeps is not one that gives up
        ours.sql(TIES).write_csv(tmp_path / "out.csv", with_header=True)
        assert ours.scan_reports()[0].path == "late"
        written = pyarrow.csv.read_csv(tmp_path / "out.csv")
        assert written.to_pylist() == plain.sql(TIES).to_pylist()
    assert pa.table(ours.sql(TIES)).to_pylist() == plain.sql(TIES).to_pylist()
