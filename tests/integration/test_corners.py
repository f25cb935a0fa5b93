"""Corners in which a scan once gave other rows than DataFusion, or none at all."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import SessionConfig, SessionContext

import lm_datafusion as lm


def expected(table: pa.Table, condition: str) -> list[dict]:
    frame = SessionContext(SessionConfig().with_target_partitions(1)).from_arrow(table)
    return frame.filter(frame.parse_sql_expr(condition)).to_arrow_table().to_pylist()


@pytest.mark.parametrize("condition", ["i > 0.0", "i < 0.0", "i > -0.0", "n < 0.0", "z > 0.0"])
def test_integers_against_a_zero_that_is_a_float(tmp_path, condition):
    table = pa.table({"i": [0, 1, 2], "n": [-2, -1, 0], "z": [0, 0, 0]})
    pq.write_table(table, tmp_path / "t.parquet")
    found = lm.dataset(tmp_path / "t.parquet").to_table(filter=condition).to_pylist()
    assert found == expected(table, condition)
