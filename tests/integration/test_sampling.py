"""What a filter drops is looked at on a few pages, where that decides which reader is used."""

from __future__ import annotations

import datafusion
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.engine import choice
from lm_datafusion.metrics import ScanMetrics
from lm_datafusion.plan import ScanRequest
from lm_datafusion.scan import known_steps, plan_scan, sample_steps, sampling
from lm_datafusion.sql.condition import parse_condition

ROWS = 200_000


@pytest.fixture
def path(tmp_path):
    """Nine words in ten are empty, of which statistics know nothing; the other columns are wide."""
    rng = np.random.default_rng(4)
    word = np.where(rng.random(ROWS) < 0.9, "", "w")
    table = pa.table(
        {
            "word": word,
            "half": rng.integers(0, 2, ROWS).astype(np.int8),
            **{f"wide{n}": np.char.add("x" * 40, np.arange(ROWS).astype(str)) for n in range(3)},
        }
    )
    path = str(tmp_path / "t.parquet")
    pq.write_table(table, path, row_group_size=50_000, write_page_index=True)
    return path


@pytest.fixture
def looks(monkeypatch):
    """How often pages were looked at."""
    seen = []
    monkeypatch.setattr(choice, "SMALL_WEIGHT", 1_000_000)
    monkeypatch.setattr(choice, "SECOND_LOOK_WEIGHT", 1_000_000)
    monkeypatch.setattr(
        choice, "sample_steps", lambda plan: seen.append(plan) or sample_steps(plan)
    )
    return seen


def session(path):
    config = datafusion.SessionConfig({"datafusion.execution.target_partitions": "2"})
    context = lm.SessionContext(config)
    context.register_parquet("t", path)
    return context


def route(context, query):
    (found,) = context.explain_scan(query).to_dict()
    return found["path"], found["reason"]


def test_pages_tell_what_statistics_do_not(path, looks):
    context = session(path)
    few = "SELECT max(wide0), max(wide1), max(wide2) FROM t WHERE word <> ''"
    many = "SELECT max(wide0), max(wide1), max(wide2) FROM t WHERE word <> 'w'"
    assert route(context, few)[0] == "native_pushdown"
    assert "as measured about 1" in route(context, few)[1]
    assert route(context, many)[0] == "native"
    assert "as measured about 9" in route(context, many)[1]
    plain = datafusion.SessionContext()
    plain.register_parquet("t", path)
    for query in (few, many):
        assert context.sql(query).to_pylist() == plain.sql(query).to_pylist()


def test_nothing_is_read_where_it_does_not_matter(path, looks, monkeypatch):
    context = session(path)
    # What the filter reads is most of it already; and a table that is small.
    assert "at least" in route(context, "SELECT max(half) FROM t WHERE wide0 <> ''")[1]
    assert not looks
    monkeypatch.setattr(choice, "SMALL_WEIGHT", 1e12)
    path, reason = route(context, "SELECT max(wide0), max(half) FROM t WHERE word <> ''")
    assert (path, reason) == ("native", "the table is small")
    assert not looks


def test_what_was_found_out_is_kept_for_other_statements(path, looks):
    context = session(path)
    for columns in ("max(wide0), max(wide1)", "min(wide1), min(wide2)"):
        assert route(context, f"SELECT {columns} FROM t WHERE word <> ''")[0] == "native_pushdown"
    assert len(looks) == 1


def read_plan(path, condition):
    dataset = lm.dataset(path)
    request = ScanRequest(conjuncts=parse_condition(condition, dataset.schema))
    return plan_scan(dataset.table, request, lm.ScanOptions(), ScanMetrics())


def test_each_step_sees_what_the_ones_before_it_left(path):
    plan = read_plan(path, "word <> '' AND half = 1")
    assert known_steps(plan) == {}
    found = sample_steps(plan)
    shares = sorted(step.kept_share for step in found.values())
    assert shares == pytest.approx([0.1, 0.5], abs=0.03)
    fewer, more = sorted(step.rows_in for step in found.values())
    # Of three row groups, the pages up to 8,192 rows.
    assert fewer < more < 3 * 50_000
    assert more >= 8_192
    assert known_steps(plan)


def test_no_row_group_left(path):
    plan = read_plan(path, "half > 100")
    assert not plan.tasks
    assert sample_steps(plan) == {}


def test_a_filter_that_fails_tells_nothing(path):
    assert sample_steps(read_plan(path, "1 / (half - half) > 0")) == {}


def test_the_faster_of_two_row_groups_tells_how_long_all_would_take(path, monkeypatch):
    """Four row groups take four times as long as one."""
    schema = pq.read_schema(path)
    request = ScanRequest(conjuncts=parse_condition("word <> ''", schema), columns=("wide0",))
    table = lm.dataset(path).table
    plan = plan_scan(table, request, lm.ScanOptions(), ScanMetrics())
    clock = iter([10.0, 10.9, 20.0, 20.5])
    monkeypatch.setattr(sampling.time, "perf_counter", lambda: next(clock))
    seen = []
    monkeypatch.setattr(sampling, "ScanRun", lambda part, _: seen.append(part) or Nothing())
    assert sampling.sample_seconds(plan) == pytest.approx(2.0)
    assert [part.tasks for part in seen] == [(plan.tasks[1],), (plan.tasks[2],)]
    monkeypatch.setattr(sampling, "ScanRun", lambda *_: 1 / 0)
    assert sampling.sample_seconds(plan) == float("inf")


class Nothing:
    def batches(self):
        return iter([])
