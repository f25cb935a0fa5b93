from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.metrics import ScanMetrics
from lm_datafusion.plan import ScanRequest
from lm_datafusion.plan.selectivity import EQUAL, RANGE
from lm_datafusion.scan import plan_scan
from lm_datafusion.sql import parse_condition


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("selectivity") / "a.parquet"
    rows = 1_000
    columns = {
        "flag": pa.array([i % 2 for i in range(rows)], pa.int16()),
        "one": pa.array([7] * rows, pa.int32()),
        "id": pa.array(range(rows), pa.int64()),
        "text": [f"t{i}" for i in range(rows)],
    }
    pq.write_table(pa.table(columns), path, row_group_size=250)
    return lm.dataset(path).table


@pytest.mark.parametrize(
    ("condition", "share"),
    [
        ("flag = 1", 0.5),
        ("flag <> 1", 0.5),
        ("one = 7", 1.0),
        ("id = 7", EQUAL),
        ("text = 't7'", EQUAL),
        ("id < 100", 0.1),
        ("id >= 900", 0.1),
        ("text < 't7'", RANGE),
        ("flag = 1 AND id < 100", 0.05),
    ],
)
def test_what_statistics_let_expect(table, condition, share):
    request = ScanRequest(conjuncts=parse_condition(condition, table.schema))
    plan = plan_scan(table, request, lm.ScanOptions(), ScanMetrics())
    found = 1.0
    for step in plan.row_filter.steps:
        found *= step.selectivity
    assert found == pytest.approx(share, rel=0.02)
