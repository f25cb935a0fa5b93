"""Which filters of a plan can fail on a value."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import SessionContext

from lm_datafusion.engine.shape import planned_scans
from lm_datafusion.predicate.fallible import can_fail

SCHEMA = pa.schema([("a", pa.int64()), ("m", pa.decimal128(21, 2)), ("c", pa.string_view())])


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    path = tmp_path_factory.mktemp("fallible") / "t.parquet"
    rows = pa.table({"a": [1], "m": pa.array([1]).cast(pa.decimal128(21, 2)), "c": ["x"]})
    pq.write_table(rows, path)
    made = SessionContext()
    made.register_parquet("t", str(path))
    return made


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a > 5 AND c LIKE '%x%'", False),
        ("a + 1 > 5", False),
        ("a % 3 = 1", False),
        ("upper(c) = 'X'", False),
        ("10 / a > 5", True),
        ("a / 0 = 1", True),
        ("m + m > 5", True),
        ("CAST(c AS BIGINT) > 5", True),
        ("substr(c, a) = 'x'", True),
        ("chr(a) = 'x'", True),
    ],
)
def test_what_is_not_known_to_be_safe_can_fail(session, condition, expected):
    plan = session.sql(f"SELECT c FROM t WHERE {condition}").optimized_logical_plan()
    (scan,) = planned_scans(plan)[("t",)]
    assert scan.filters
    assert can_fail(scan.filters, SCHEMA) is expected
