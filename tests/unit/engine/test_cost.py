"""What reading costs: sizes from footers, shares that were measured, and how they add up."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.engine import cost
from lm_datafusion.engine.catalog import SessionCatalog
from lm_datafusion.engine.query import TableUse
from lm_datafusion.engine.shape import QueryShape
from lm_datafusion.scan.memory.step_history import STEPS
from tests.eager import eager

ROWS, GROUP = 40_000, 10_000


@pytest.fixture
def session(tmp_path):
    rng = np.random.default_rng(6)
    table = pa.table(
        {
            "n": np.arange(ROWS),
            "key": rng.integers(0, 100, ROWS),
            "word": [f"a longer word {number}" for number in rng.integers(0, ROWS, ROWS)],
            "wide": rng.random(ROWS),
        }
    )
    path = str(tmp_path / "t.parquet")
    pq.write_table(table, path, row_group_size=GROUP, use_dictionary=False)
    made = lm.SessionContext()
    made.register_parquet("t", path)
    STEPS.clear()
    return made


@pytest.fixture(autouse=True)
def no_fixed_costs():
    """The table is small: with fixed costs, DataFusion would win whatever the share."""
    with eager():
        yield


@pytest.fixture
def use_of(session):
    catalog = SessionCatalog(session)

    def make(query):
        frame = session.sql(query).native
        shape = QueryShape.of(frame)
        return TableUse(
            table=catalog.parquet_table(("t",)),
            alias="t",
            filters=tuple(shape.filters_of(("t",))),
            columns=shape.columns_of(("t",)),
            options=lm.ScanOptions(condition_cache_bytes=0),
        )

    return make


def test_sizes_are_those_of_the_footer(use_of):
    sizes = cost.column_sizes(use_of("SELECT word, wide FROM t WHERE key = 7"), ["word", "wide"])
    assert sizes["wide"].bytes_per_row == pytest.approx(8, rel=0.1)
    assert sizes["word"].bytes_per_row > 16
    assert sizes["wide"].values_ns == cost.VALUE_NS
    assert sizes["word"].values_ns == cost.TEXT_NS


def test_statistics_leave_fewer_rows(use_of):
    whole = cost.scan_cost(use_of("SELECT wide FROM t WHERE key = 7"))
    quarter = cost.scan_cost(use_of("SELECT wide FROM t WHERE key = 7 AND n < 9000"))
    assert whole.rows == ROWS
    assert quarter.rows == GROUP
    assert quarter.native_s < whole.native_s


def test_a_share_that_nobody_has_measured_is_a_guess_until_pages_are_read(use_of, monkeypatch):
    use = use_of("SELECT word, wide FROM t WHERE key <> 7 AND key % 2 = 1")
    guessed = cost.scan_cost(use)
    assert guessed.is_guess
    monkeypatch.setattr(cost, "SAMPLE_S", 0.0)
    assert guessed.kept_share != pytest.approx(0.5, abs=0.02)
    assert cost.scan_cost(use).kept_share == pytest.approx(0.5, abs=0.02)


def test_a_query_that_runs_again_is_sampled_sooner(use_of, monkeypatch):
    use = use_of("SELECT word, wide FROM t WHERE key = 7")
    sampled = []
    monkeypatch.setattr(cost, "sample_steps", lambda plan: sampled.append(plan) or {})
    monkeypatch.setattr(cost, "SAMPLE_AGAIN_S", 0.0)
    cost.scan_cost(use, is_new=True)
    assert not sampled
    cost.scan_cost(use, is_new=False)
    assert sampled
    sampled.clear()
    cost.scan_cost(use, may_sample=False, is_new=False)
    assert not sampled


def test_the_fewer_rows_pass_the_less_our_scan_costs(use_of, monkeypatch):
    monkeypatch.setattr(cost, "SAMPLE_S", 0.0)
    costs = [
        cost.scan_cost(use_of(f"SELECT word, wide FROM t WHERE key < {bound}"))
        for bound in (1, 50, 99)
    ]
    assert costs[0].late_s < costs[1].late_s < costs[2].late_s
    assert costs[0].native_s == costs[1].native_s == costs[2].native_s


def test_measurements_of_an_earlier_scan_are_used(use_of, session):
    use = use_of("SELECT word, wide FROM t WHERE key < 50")
    options = lm.ScanOptions(path="late", condition_cache_bytes=0)
    session.sql("SELECT word, wide FROM t WHERE key < 50", options).collect()
    assert cost.scan_cost(use).kept_share == pytest.approx(0.5, abs=0.02)
