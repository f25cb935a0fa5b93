"""NaN with a minus sign in conditions: DataFusion orders it below all numbers, NaN above them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import SessionContext, col, lit

import lm_datafusion as lm

MINUS_NAN = float(np.copysign(np.nan, -1))
CONDITIONS = [
    f"x {operator} '{literal}'::{kind}"
    for operator in ("=", "<>", "<", "<=", ">", ">=")
    for literal in ("NaN", "-NaN")
    for kind in ("double", "real")
]
CONDITIONS += [
    "x IN ('-NaN'::double, 7.0, 8.0, 9.0)",
    "x NOT IN ('NaN'::double, 7.0, 8.0, 9.0)",
    "x > '-NaN'::double AND x < 'NaN'::double",
    "x >= '-NaN'::double AND x >= 'NaN'::double",
    "x <= 'NaN'::double AND x <= '-NaN'::double",
    "x BETWEEN '-NaN'::double AND 1.0",
]


def values(kind):
    return pa.table({"x": pa.array([1.0, np.nan, MINUS_NAN, -np.inf, None, 7.0], kind)})


@pytest.fixture(params=[pa.float64(), pa.float32()], ids=str)
def sessions(request, tmp_path):
    table = values(request.param)
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=2)
    plain = SessionContext()
    plain.from_arrow(table, "t")
    ours = lm.SessionContext(options=lm.ScanOptions(path="late"))
    ours.register_parquet("t", str(tmp_path / "t.parquet"))
    return plain, ours


def rows(frame):
    return sorted(map(repr, zip(*_signed(frame.to_arrow_table()), strict=True)))


def _signed(table):
    column = table.column("x").to_pylist()
    signs = [None if x is None else bool(np.signbit(x)) for x in column]
    return column, signs


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_sign_of_nan_counts(sessions, condition):
    plain, ours = sessions
    query = f"SELECT x FROM t WHERE {condition}"
    for _ in range(3):
        assert rows(ours.sql(query)) == rows(plain.sql(query))
        assert [report.path for report in ours.scan_reports()] == ["late"]


def test_the_sign_of_nan_counts_in_a_dataset(tmp_path):
    table = values(pa.float64())
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=2)
    dataset = lm.dataset(tmp_path / "t.parquet")
    plain = SessionContext()
    plain.from_arrow(table, "t")
    for condition in CONDITIONS:
        found = dataset.to_table(filter=condition)
        wanted = plain.sql(f"SELECT x FROM t WHERE {condition}")
        assert sorted(map(repr, zip(*_signed(found), strict=True))) == rows(wanted)


@pytest.mark.parametrize("value", [float("nan"), MINUS_NAN])
def test_the_sign_of_nan_counts_in_frames(sessions, value):
    plain, ours = sessions
    for session in sessions:
        session.sql("CREATE VIEW v AS SELECT x FROM t WHERE x > '-NaN'::double")
    for name in ("t", "v"):
        found, wanted = (
            rows(session.table(name).filter(col("x") <= lit(value))) for session in (ours, plain)
        )
        assert found == wanted


def test_two_references_with_nan_of_two_signs(tmp_path):
    table = values(pa.float64())
    # DataFusion's own reader takes bounds, which leave NaN out, for those of all values.
    pq.write_table(table, tmp_path / "t.parquet", write_statistics=False)
    plain, ours = SessionContext(), lm.SessionContext(options=lm.ScanOptions(path="late"))
    plain.from_arrow(table, "t")
    ours.register_parquet("t", str(tmp_path / "t.parquet"))
    query = (
        "WITH a AS (SELECT x FROM t) SELECT x FROM a WHERE x >= 'NaN'::double"
        " UNION ALL SELECT x FROM a WHERE x >= '-NaN'::double"
    )
    assert rows(ours.sql(query)) == rows(plain.sql(query))
