"""Filters of a plan as SQL, and back."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import SessionContext

from lm_datafusion.engine.shape import planned_scans
from lm_datafusion.predicate.pushed_filters import to_conjuncts, to_sql

SCHEMA = pa.schema(
    [("a", pa.int64()), ("b", pa.float64()), ("c", pa.string_view()), ("d", pa.date32())]
)


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    path = tmp_path_factory.mktemp("conjuncts") / "t.parquet"
    rows = {"a": [1], "b": [1.0], "c": ["x"], "d": pa.array([0], pa.date32())}
    pq.write_table(pa.table(rows), path)
    made = SessionContext()
    made.register_parquet("t", str(path))
    return made


def filters(session, condition):
    plan = session.sql(f"SELECT * FROM t WHERE {condition}").optimized_logical_plan()
    return planned_scans(plan)[("t",)][0].filters


@pytest.mark.parametrize(
    "condition",
    [
        "a > 5",
        "a IS NULL",
        "a IS NOT NULL AND b < 2.5",
        "c LIKE '%x%'",
        "c NOT LIKE 'x%'",
        "c ILIKE 'x%'",
        "a IN (1, 2, 3, 4, 5)",
        "a NOT IN (1, 2, 3, 4, 5)",
        "NOT (a > 5 OR b < 1)",
        "d >= DATE '2020-01-01'",
        "octet_length(c) > 3",
        "a % 3 = 1",
        "c = 'it''s'",
        "b = 'NaN'::double",
    ],
)
def test_filters_come_back_as_they_were(session, condition):
    pushed = filters(session, condition)
    assert pushed
    found = to_conjuncts(pushed, {"t"}, SCHEMA)
    assert [conjunct.text for conjunct in found] == [to_sql(expression) for expression in pushed]
    assert all(conjunct.columns for conjunct in found)


def test_a_filter_without_a_rule_is_left_out(session):
    pushed = filters(session, "c LIKE 'x!%' ESCAPE '!' AND a > 5")
    texts = [to_sql(expression) for expression in pushed]
    assert texts.count(None) <= 1
    found = to_conjuncts(pushed, {"t"}, SCHEMA)
    assert any(conjunct.columns == ("a",) for conjunct in found)


def test_columns_are_those_that_a_filter_names(session):
    (conjunct,) = to_conjuncts(filters(session, "a + 1 > b"), {"t"}, SCHEMA)
    assert set(conjunct.columns) == {"a", "b"}
