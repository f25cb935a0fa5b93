"""A statement gives DataFusion's own rows and schema each time it runs, whatever its types."""

from __future__ import annotations

import datafusion
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm

QUERIES = [
    "SELECT min(f) FROM t",
    "SELECT max(f) FROM t WHERE i > 1",
    "SELECT arrow_cast(0.1, 'Float16') AS a, count(*) FROM t",
    "SELECT count(*) FROM t WHERE i + arrow_cast(1.5, 'Float16') > 3",
    "SELECT arrow_cast(min(i), 'Float16') AS a FROM t",
    "SELECT with_metadata(3, 'a', 'b') AS x, count(*) FROM t",
    "SELECT i, with_metadata(7, 'k', 'v') AS x FROM t ORDER BY i",
    "SELECT sum(y) FROM t",
    "SELECT count(*), max(y) FROM t WHERE y > 0",
    "SELECT y, count(*) FROM t GROUP BY y ORDER BY y",
    "SELECT count(*), sum(z) FROM t",
    "SELECT g, arrow_typeof(g), count(*) FROM t GROUP BY g ORDER BY g",
]


@pytest.fixture
def folder(tmp_path):
    table = pa.table(
        {
            "i": range(4),
            "f": pa.array(np.arange(4, dtype=np.float16)),
            # Bounds leave NaN out: DataFusion's reader takes both columns for constants.
            "y": [1.1, float("nan"), 1.1, 1.1],
            "z": pa.array([0.0, -0.0, float("nan"), 0.0], pa.float32()),
            "g": pa.array(["a", "b", "a", None]).dictionary_encode(),
        }
    )
    (tmp_path / "t").mkdir()
    for name in ("0", "1"):
        pq.write_table(table, tmp_path / "t" / f"{name}.parquet", row_group_size=2)
    return tmp_path / "t"


@pytest.mark.parametrize("query", QUERIES)
def test_runs_agree(folder, query):
    config = datafusion.SessionConfig().with_target_partitions(2)
    plain, ours = datafusion.SessionContext(config), lm.SessionContext(config)
    for context in (plain, ours):
        context.register_parquet("t", str(folder))
    wanted = plain.sql(query).to_arrow_table()
    for _ in range(4):
        found = ours.sql(query).to_arrow_table()
        assert found.schema.equals(wanted.schema, check_metadata=True)
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, wanted.to_pylist()))
