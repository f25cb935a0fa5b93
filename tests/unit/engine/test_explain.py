"""What `explain_scan` says of the paths a query could take."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from tests.eager import eager

ROWS = 300_000


@pytest.fixture
def session(tmp_path):
    rng = np.random.default_rng(1)
    columns = {f"w{n}": rng.random(ROWS) for n in range(4)}
    table = pa.table({"key": rng.integers(0, 100, ROWS), **columns})
    pq.write_table(table, tmp_path / "t.parquet")
    made = lm.SessionContext(options=lm.ScanOptions(condition_cache_bytes=0))
    made.register_parquet("t", str(tmp_path / "t.parquet"))
    with eager():
        yield made


@pytest.mark.parametrize(
    ("query", "winner"),
    [
        ("SELECT sum(w0), sum(w1), sum(w2) FROM t WHERE key = 7", "late"),
        ("SELECT sum(w0) FROM t WHERE key <> 7", "native"),
        ("SELECT * FROM t WHERE key = 7 ORDER BY w0 LIMIT 5", "top_k"),
    ],
)
def test_every_offer_has_its_cost_and_the_winner_is_first(session, query, winner):
    for _ in range(2):
        session.sql(query).collect()
    paths = session.explain_scan(query).paths
    assert [path.name for path in paths if path.is_chosen] == [paths[0].name] == [winner]
    assert {path.name for path in paths} == {"native", "late", "top_k", "any_rows", "some_groups"}
    costs = {path.name: path.seconds for path in paths if path.seconds is not None}
    assert {"native", "late", winner} <= set(costs)
    assert costs["native"] > 0


def test_a_path_that_declines_says_why(session):
    paths = session.explain_scan("SELECT sum(w0) FROM t WHERE key = 7").paths
    (top_k,) = [path for path in paths if path.name == "top_k"]
    assert top_k.seconds is None
    assert "first rows" in top_k.reason
