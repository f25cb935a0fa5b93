"""A statement that runs again gives DataFusion's rows from a plan that was ready."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.engine import choice, prepared, preparer, trial
from lm_datafusion.engine.parquet_scan import FileRange, leaves_of, over_ranges, without_statistics

ROWS = 8_000
RUNS = 5
QUERIES = [
    "SELECT count(*) FROM t",
    "SELECT count(*), sum(id) FROM t WHERE id < 900",
    "SELECT count(*), sum(id) FROM t WHERE id >= 3500 AND id < 12600 AND word <> ''",
    "SELECT count(*), sum(id) FROM t WHERE id > 1000000",
    "SELECT k, count(*), min(word) FROM t WHERE id < 2500 GROUP BY k ORDER BY k",
    "SELECT k, count(DISTINCT word) FROM t GROUP BY k ORDER BY k LIMIT 3 OFFSET 2",
    "SELECT id, word FROM t WHERE id BETWEEN 990 AND 1010 ORDER BY id",
    "SELECT avg(x) FROM t WHERE word = 'w3' AND k = 4",
    "SELECT k, n FROM (SELECT k, count(*) AS n FROM t WHERE id < 3000 GROUP BY k) WHERE n > 100",
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
    ours = lm.SessionContext(config, options=lm.ScanOptions(**options))
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


@pytest.mark.parametrize("query", QUERIES)
def test_every_run_gives_the_rows_and_the_schema_of_datafusion(folder, ready, query):
    plain, ours = sessions(folder)
    expected = plain.sql(query).to_arrow_table()
    for _ in range(RUNS):
        found = ours.sql(query).to_arrow_table()
        assert found.schema == expected.schema
        assert in_order(found.to_pylist()) == in_order(expected.to_pylist())
    assert len(ready) in (0, RUNS - 1)


def test_most_of_these_are_made_ready(folder, ready):
    _, ours = sessions(folder)
    served = 0
    for query in QUERIES:
        before = len(ready)
        for _ in range(3):
            ours.sql(query).collect()
        served += len(ready) > before
    assert served == len(QUERIES) - 1


def test_the_forms_of_a_result(folder, ready):
    plain, ours = sessions(folder)
    query = "SELECT k, count(*) AS n FROM t WHERE id < 900 GROUP BY k ORDER BY k"
    ours.sql(query).collect()
    for form in ("collect", "to_arrow_table", "to_pylist", "to_pydict", "to_pandas"):
        expected, found = (getattr(c.sql(query), form)() for c in (plain, ours))
        if form == "to_pandas":
            expected, found = expected.to_dict(), found.to_dict()
        assert found == expected, form
    assert len(ready) == 5


def scan_of(plan, context):
    (leaf,) = leaves_of(datafusion.ExecutionPlan.from_bytes(context, plan.serialised))
    return leaf.display()


def test_only_row_groups_that_can_match_are_handed_over(folder, ready):
    _, ours = sessions(folder, path="native")
    query = "SELECT count(*), min(word) FROM t WHERE id >= 2500 AND id < 4500"
    for _ in range(2):
        ours.sql(query).collect()
    said = scan_of(ready[0], ours)
    groups = re.search(r"file_groups=\{2 groups: \[\[(.*?)\], \[(.*?)\]\]\}", said)
    assert [len(group.split(", ")) for group in groups.groups()] == [1, 2]
    assert "1.parquet" not in said


def test_nothing_left_is_an_empty_scan(folder, ready):
    plain, ours = sessions(folder, path="native")
    # Statistics leave it open, the dictionary does not.
    query = "SELECT count(*), max(k) FROM t WHERE word = 'w21'"
    for _ in range(3):
        assert ours.sql(query).to_pylist() == plain.sql(query).to_pylist()
    assert "parquet:" not in scan_of(ready[0], ours)


def test_the_faster_of_two_plans_goes_on(folder, ready, monkeypatch):
    _, ours = sessions(folder)
    query = "SELECT k, count(*), min(word) FROM t WHERE id < 15000 AND x <> 3 GROUP BY k ORDER BY k"
    for _ in range(3):
        ours.sql(query).collect()
    native, pushdown = ready
    paths = [plan.references[0].route.path for plan in ready]
    assert paths == ["native", "native_pushdown"]
    assert "fastest reader" in pushdown.references[0].route.reason
    native.best_s, pushdown.best_s = 2e-9, 1e-9
    native.runs = pushdown.runs = 2
    ours.sql(query).collect()
    assert ready[-1] is pushdown
    assert ours.scan_reports()[0].path == "native_pushdown"
    native.best_s = 0.5e-9
    ours.sql(query).collect()
    assert ready[-1] is native


@pytest.fixture
def scan_can_pay(monkeypatch):
    """Tables of any size are worth a try of our own scan."""
    monkeypatch.setattr(choice, "SMALL_WEIGHT", 0)
    monkeypatch.setattr(choice, "FEWEST_ROW_GROUPS", 2)
    monkeypatch.setattr(choice, "sample_seconds", lambda _: 1e-9)


@pytest.mark.usefixtures("scan_can_pay")
@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, count(*), min(word) FROM t WHERE x < 40 AND word <> 'w3' GROUP BY k ORDER BY k",
        "SELECT count(*) FROM t WHERE word = 'w3' AND k = 4 AND x > 10",
        "SELECT id, word FROM t WHERE x < 40 ORDER BY k DESC, id LIMIT 9",
    ],
)
def test_our_own_scan_is_tried_too(folder, ready, query):
    plain, ours = sessions(folder)
    expected = plain.sql(query).to_arrow_table()
    for run in range(6):
        found = ours.sql(query).to_arrow_table()
        assert found.schema == expected.schema
        assert found.to_pylist() == expected.to_pylist()
        (report,) = ours.scan_reports()
        if report.path == "late":
            assert "fastest reader" in report.reason
            assert report.rows_selected > 0
        if run == 4:
            scan_of_ours(ready).best_s = 1e-9
    tried = [plan.references[0].route.path for plan in ready]
    assert tried[0] == "native"
    assert tried[-1] == "late"


def scan_of_ours(ready):
    (late,) = {plan for plan in ready if isinstance(plan, preparer.ScannedAgain)}
    return late


@pytest.mark.usefixtures("scan_can_pay")
def test_our_own_scan_is_not_used_for_a_file_that_changed(folder, ready):
    _, ours = sessions(folder)
    query = "SELECT k, sum(id) FROM t WHERE x < 40 AND word <> 'w3' GROUP BY k ORDER BY k"
    for _ in range(4):
        ours.sql(query).collect()
    late = scan_of_ours(ready)
    late.best_s = 1e-9
    ours.sql(query).collect()
    assert ready[-1] is late
    before = len(ready)
    pq.write_table(table(5, ROWS), folder / "0.parquet", row_group_size=1_000)
    # What DataFusion makes of it is its own.
    with contextlib.suppress(Exception):
        ours.sql(query).collect()
    assert len(ready) == before


@pytest.mark.usefixtures("scan_can_pay")
def test_the_others_do_not_depend_on_our_own_scan(folder, ready, monkeypatch):
    monkeypatch.setattr(preparer, "late_seconds", lambda *_: 1 / 0)
    _, ours = sessions(folder)
    for _ in range(3):
        ours.sql("SELECT k, min(word) FROM t WHERE x < 40 GROUP BY k").collect()
    assert [plan.references[0].route.path for plan in ready] == ["native", "native_pushdown"]


@pytest.mark.parametrize("pays", ["SMALL_WEIGHT", "FEWEST_ROW_GROUPS", "KNOWN_PAYS"])
@pytest.mark.usefixtures("scan_can_pay")
def test_our_own_scan_is_not_tried_where_it_cannot_pay(folder, ready, monkeypatch, pays):
    limits = {"SMALL_WEIGHT": 10**12, "FEWEST_ROW_GROUPS": 17, "KNOWN_PAYS": 1e-6}
    monkeypatch.setattr(choice, pays, limits[pays])
    _, ours = sessions(folder)
    query = "SELECT k, count(*), min(word) FROM t WHERE x < 40 AND word <> 'w3' GROUP BY k"
    for _ in range(6):
        ours.sql(query).collect()
    assert ready
    assert "late" not in {plan.references[0].route.path for plan in ready}


def test_a_plan_that_cannot_be_kept_is_still_tried_with_both_readers(folder, ready):
    """The threshold of a TopK reaches the scan while it runs: such a plan is made each time."""
    plain, ours = sessions(folder)
    query = "SELECT id, word FROM t WHERE word <> 'w3' ORDER BY k DESC, id LIMIT 9"
    expected = plain.sql(query).to_pylist()
    for _ in range(4):
        assert ours.sql(query).to_pylist() == expected
    assert [type(plan) for plan in ready] == [trial.PlannedAnew] * 3
    assert {plan.references[0].route.path for plan in ready} == {"native", "native_pushdown"}
    ours.deregister_table("t")
    pq.write_table(table(0, 20), folder.parent / "other.parquet")
    ours.register_parquet("t", str(folder.parent / "other.parquet"))
    assert len(ours.sql(query).to_pylist()) == 9
    assert ours.sql(query).to_pylist() != expected


def test_row_groups_are_shared_out_by_the_weight_of_what_is_read(tmp_path, ready):
    """The text of the second file is longer."""
    folder = tmp_path / "t"
    folder.mkdir()
    for number, length in ((0, 1), (1, 40)):
        words = [f"{i:0{length}}" for i in range(4_000)]
        source = pa.table({"id": list(range(4_000)), "word": words})
        path = folder / f"{number}.parquet"
        pq.write_table(source, path, row_group_size=1_000, use_dictionary=False)
    plain, ours = sessions(folder, path="native")
    for column, counts in (("word", [5, 3]), ("id", [1, 1])):
        query = f"SELECT count(DISTINCT {column}) AS n FROM t"
        ready.clear()
        for _ in range(3):
            assert ours.sql(query).to_pylist() == plain.sql(query).to_pylist()
        groups = re.search(r"\[\[(.*?)\], \[(.*?)\]\]", scan_of(ready[0], ours))
        assert [len(group.split(", ")) for group in groups.groups()] == counts, column


@pytest.mark.parametrize(
    ("weights", "partitions", "edges"),
    [
        ([1, 1, 1, 1], 2, [0, 2, 4]),
        ([1, 1, 1, 9], 2, [0, 3, 4]),
        ([9, 1, 1, 1], 3, [0, 0, 1, 4]),
        ([], 2, [0, 0, 0]),
        ([0, 0], 2, [0, 0, 2]),
        ([5], 4, [0, 0, 0, 1, 1]),
        ([10, -8, 10], 3, [0, 2, 2, 3]),
    ],
)
def test_where_parts_are_cut(weights, partitions, edges):
    found = prepared._even_edges(weights, partitions)
    assert found == sorted(found)
    assert (found[0], found[-1], len(found)) == (0, len(weights), partitions + 1)
    assert found == edges


def test_a_changed_file_is_not_read_by_an_old_plan(folder, ready):
    plain, ours = sessions(folder)
    query = "SELECT count(*), sum(id) FROM t WHERE id < 900"
    for _ in range(3):
        ours.sql(query).collect()
    before = len(ready)
    pq.write_table(table(0, 100), folder / "0.parquet")
    for _ in range(3):
        plain, _ = sessions(folder)
        fresh = lm.SessionContext()
        fresh.register_parquet("t", str(folder))
        assert (
            fresh.sql(query).to_pylist()
            == plain.sql(query).to_pylist()
            == [{"count(*)": 100, "sum(t.id)": 4950}]
        )
    # DataFusion itself keeps a session's list of files, and what happens then is its own.
    with contextlib.suppress(Exception):
        ours.sql(query).collect()
    assert len(ready) == before


def test_a_file_that_came_is_left_to_datafusion(folder, ready):
    _, ours = sessions(folder)
    query = "SELECT count(*), sum(id) FROM t WHERE id < 900"
    for _ in range(3):
        ours.sql(query).collect()
    old = ready[-1]
    pq.write_table(table(20_000), folder / "2.parquet")
    ours.sql(query).collect()
    assert ready[-1] is not old


def test_what_names_mean_may_change(tmp_path, folder, ready):
    _, ours = sessions(folder)
    pq.write_table(table(0, 10), tmp_path / "other.parquet")
    query = "SELECT count(*) AS n FROM t WHERE id >= 0"
    for _ in range(3):
        assert ours.sql(query).to_pylist() == [{"n": 2 * ROWS}]
    frame = ours.sql(query)
    ours.deregister_table("t")
    ours.register_parquet("t", str(tmp_path / "other.parquet"))
    for _ in range(3):
        assert ours.sql(query).to_pylist() == [{"n": 10}]
    assert frame.to_pylist() == [{"n": 2 * ROWS}]
    assert ready


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM t WHERE id > 5",
        "SELECT id FROM t WHERE id > 5 LIMIT 3",
        "SELECT id FROM t ORDER BY id DESC LIMIT 3",
        "SELECT max(id) FROM t WHERE k = 3",
        "SELECT count(*) FROM t WHERE x < random() * 0",
        "SELECT count(*) FROM t WHERE now() > to_timestamp('2020-01-01')",
        "SELECT count(*) FROM t AS a JOIN t AS b ON a.id = b.id WHERE a.id < 50",
        "SELECT count(*) FROM m",
        "SELECT sum(own(id)) FROM t",
        "EXPLAIN SELECT count(*) FROM t",
    ],
)
def test_what_is_not_made_ready(folder, ready, query):
    _, ours = sessions(folder)
    ours.from_pydict({"a": [1, 2]}, name="m")
    ours.register_udf(datafusion.udf(lambda a: a, [pa.int64()], pa.int64(), "stable", name="own"))
    for _ in range(3):
        ours.sql(query).collect()
    assert not any(isinstance(plan, prepared.PreparedPlan) for plan in ready)


def test_a_plan_that_fails_is_not_used_again(folder, ready, monkeypatch):
    plain, ours = sessions(folder)
    query = "SELECT count(*), sum(id) FROM t WHERE id < 900"
    ours.sql(query).collect()
    ours.sql(query).collect()
    ready[0].serialised = b"\x00"
    for _ in range(3):
        assert ours.sql(query).to_pylist() == plain.sql(query).to_pylist()
    assert len(ready) == 2


def test_an_error_is_datafusions(folder):
    plain, ours = sessions(folder)
    query = "SELECT count(*), sum(1 / (id - 5)) FROM t WHERE id < 900"
    for _ in range(3):
        with pytest.raises(Exception, match="Divide by zero") as raised:
            ours.sql(query).collect()
        with pytest.raises(Exception, match="Divide by zero") as expected:
            plain.sql(query).collect()
        assert str(raised.value) == str(expected.value)


def row_groups(path):
    metadata = pq.read_metadata(path)
    for index in range(metadata.num_row_groups):
        column = metadata.row_group(index).column(0)
        start = column.dictionary_page_offset or column.data_page_offset
        yield FileRange(path, start, start + 1), metadata.row_group(index).num_rows


def test_a_part_is_one_row_group(folder):
    context = datafusion.SessionContext()
    path = os.path.join(folder, "0.parquet")
    context.register_parquet("t", path)
    plan = context.sql("SELECT id FROM t").execution_plan()
    (leaf,) = leaves_of(plan)
    for part, rows in row_groups(path):
        serialised = over_ranges(leaf.to_bytes(context), [[part]])
        cut = datafusion.ExecutionPlan.from_bytes(context, serialised)
        found = [batch.to_pyarrow() for batch in context.execute(cut, 0)]
        assert sum(batch.num_rows for batch in found) == rows


def test_statistics_leave_a_scan_as_it_was(folder):
    context = datafusion.SessionContext()
    context.register_parquet("t", str(folder))
    (leaf,) = leaves_of(context.sql("SELECT id FROM t WHERE id < 7").execution_plan())
    serialised = leaf.to_bytes(context)
    lighter = without_statistics(serialised)
    assert len(lighter) < len(serialised)
    again = datafusion.ExecutionPlan.from_bytes(context, lighter)
    assert again.display() == leaf.display()
    with pytest.raises(ValueError, match="not scanned"):
        over_ranges(serialised, [[FileRange("/elsewhere.parquet", 4, 5)]])


def test_a_frame_that_is_not_planned_keeps_the_meaning_of_its_names(tmp_path, folder, ready):
    _, ours = sessions(folder)
    pq.write_table(table(0, 10), tmp_path / "other.parquet")
    query = "SELECT count(*) AS n, sum(k) AS s FROM t WHERE id >= 0"
    (before,) = [ours.sql(query).to_pylist() for _ in range(3)][-1:]
    waiting, derived = ours.sql(query), ours.sql(query).select("n")
    assert "df" not in vars(waiting)
    ours.deregister_table("t")
    ours.register_parquet("t", str(tmp_path / "other.parquet"))
    assert ours.sql(query).to_pylist()[0]["n"] == 10
    assert waiting.to_pylist() == before
    assert derived.to_pylist() == [{"n": before[0]["n"]}]
    assert waiting.schema().names == ["n", "s"]
    assert ours.sql(query).execution_plan() is not None


def test_threads_run_one_statement_at_a_time_or_together(folder):
    plain, ours = sessions(folder)
    query = "SELECT k, count(*), min(word) FROM t WHERE id < 9000 GROUP BY k ORDER BY k"
    expected = plain.sql(query).to_pylist()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: ours.sql(query).to_pylist(), range(64)))
    assert all(rows == expected for rows in found)


def test_a_plan_of_before_does_not_reach_the_catalog_of_after(tmp_path, folder, monkeypatch):
    """A statement is made ready while its table becomes another one."""
    _, ours = sessions(folder)
    pq.write_table(table(0, 10), tmp_path / "other.parquet")
    query = "SELECT count(*) AS n FROM t WHERE id >= 0"
    ours.sql(query).collect()
    prepare, inside, go = preparer.prepare, threading.Event(), threading.Event()

    def slowly(*given):
        plan = prepare(*given)
        inside.set()
        go.wait(10)
        return plan

    monkeypatch.setattr(preparer, "prepare", slowly)
    thread = threading.Thread(target=ours.sql(query).collect)
    thread.start()
    inside.wait(10)
    monkeypatch.setattr(preparer, "prepare", prepare)
    ours.deregister_table("t")
    ours.register_parquet("t", str(tmp_path / "other.parquet"))
    assert ours.sql(query).to_pylist() == [{"n": 10}]
    go.set()
    thread.join()
    for _ in range(3):
        assert ours.sql(query).to_pylist() == [{"n": 10}]


def test_a_frame_of_before_is_not_prepared_for_the_catalog_of_after(tmp_path, folder, monkeypatch):
    """The frame is asked for its rows before its table changes, and made ready after."""
    _, ours = sessions(folder)
    pq.write_table(table(100_000, 50), tmp_path / "other.parquet")
    query = "SELECT id, word FROM t WHERE word <> 'w3' ORDER BY k DESC, id LIMIT 3"
    repeats = ours._server._repeats
    find, inside, go = repeats.find, threading.Event(), threading.Event()

    def slowly(*given):
        inside.set()
        go.wait(10)
        return find(*given)

    monkeypatch.setattr(repeats, "find", slowly)
    thread = threading.Thread(target=ours.sql(query).collect)
    thread.start()
    inside.wait(10)
    monkeypatch.setattr(repeats, "find", find)
    ours.deregister_table("t")
    ours.register_parquet("t", str(tmp_path / "other.parquet"))
    expected = ours.sql(query).to_pylist()
    go.set()
    thread.join()
    for _ in range(5):
        assert ours.sql(query).to_pylist() == expected
    assert all(row["id"] >= 100_000 for row in expected)


@pytest.mark.parametrize(
    ("query", "is_settled"),
    [
        ("SELECT k, count(*) FROM t GROUP BY k", True),
        ("SELECT k, count(*) FROM t GROUP BY k LIMIT 2", False),
        ("SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY n, k LIMIT 2", True),
        ("SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY n, k LIMIT 2 OFFSET 1", True),
        ("SELECT sum(id) FROM (SELECT id FROM t LIMIT 9)", False),
        ("SELECT id FROM t WHERE word = 'SortExec' LIMIT 9", False),
        ("SELECT id FROM t ORDER BY id LIMIT 9", True),
    ],
)
def test_which_rows_are_given_is_settled(folder, query, is_settled):
    plain, _ = sessions(folder)
    assert prepared.can_be_tried(plain.sql(query).execution_plan()) == is_settled


def test_files_that_are_listed_each_time_are_planned_each_time(folder, ready):
    plain, ours = sessions(folder)
    query = "SELECT count(*) AS n, sum(id) AS s FROM t"
    for context in (plain, ours):
        context.sql("SET datafusion.runtime.list_files_cache_limit = '0K'")
        for _ in range(3):
            context.sql(query).collect()
    (folder / "deeper").mkdir()
    pq.write_table(table(50_000), folder / "deeper" / "9.parquet")
    assert ours.sql(query).to_pylist() == plain.sql(query).to_pylist()
    assert not ready
