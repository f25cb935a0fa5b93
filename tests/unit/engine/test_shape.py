"""What an optimized plan asks of its tables."""

from __future__ import annotations

import pyarrow as pa
import pytest
from datafusion import SessionContext

from lm_datafusion.engine.shape import QueryShape, column_below, limit_of


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("shapes")
    table = pa.table({"a": [1, 2, 3], "b": [1.0, 2.0, 3.0], "c": ["x", "y", "z"]})
    made = SessionContext()
    for name in ("t", "u"):
        pq.write_table(table, folder / f"{name}.parquet")
        made.register_parquet(name, str(folder / f"{name}.parquet"))
    return made


@pytest.fixture
def shape_of(session):
    def make(query):
        frame = session.sql(query)
        return QueryShape.of(frame)

    return make


def filters(shape, name):
    return sorted(map(str, shape.filters_of((name,))))


def test_filters_and_columns_of_a_scan(shape_of):
    shape = shape_of("SELECT c FROM t WHERE a > 1 AND c LIKE '%y%'")
    assert list(shape.scans) == [("t",)]
    assert len(filters(shape, "t")) == 2
    assert set(shape.columns_of(("t",))) == {"a", "c"}


def test_a_table_that_is_scanned_twice_is_filtered_by_what_both_scans_share(shape_of):
    shape = shape_of(
        "SELECT * FROM t x JOIN t y ON x.a = y.a WHERE x.b > 1 AND y.b > 1 AND x.c = 'x'"
    )
    assert len(shape.scans[("t",)]) == 2
    assert all("b >" in text for text in filters(shape, "t"))
    assert not any("'x'" in text for text in filters(shape, "t"))


def test_a_literal_that_looks_like_a_condition_is_not_taken_for_one(shape_of):
    shape = shape_of(
        "SELECT * FROM t x JOIN t y ON x.a = y.a WHERE x.c = 'a' AND y.c = 'a\" = ''a'"
    )
    assert filters(shape, "t") == []


def test_the_preserved_side_of_an_outer_join_keeps_its_rows(shape_of):
    shape = shape_of("SELECT * FROM t LEFT JOIN u ON t.a = u.a AND t.b > 2 AND u.b > 2")
    assert filters(shape, "t") == []
    assert len(filters(shape, "u")) >= 1


def test_plans_with_branches_have_no_nodes_in_a_row(shape_of):
    assert shape_of("SELECT a FROM t UNION ALL SELECT a FROM u").nodes == []
    shape = shape_of("SELECT a FROM t WHERE b > 1 ORDER BY c LIMIT 2")
    assert shape.kinds[-1] == "TableScan"
    assert "Sort" in shape.kinds


def test_limits_count_what_an_offset_skips(shape_of):
    shape = shape_of("SELECT a FROM t WHERE b > 1 LIMIT 5 OFFSET 3")
    (limit,) = [n for n, kind in zip(shape.nodes, shape.kinds, strict=True) if kind == "Limit"]
    assert limit_of(limit) == 8


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT a FROM t WHERE b > 1 ORDER BY c LIMIT 2", "c"),
        ("SELECT a AS k FROM t WHERE b > 1 ORDER BY k LIMIT 2", "a"),
        ("SELECT a + 1 AS k FROM t WHERE b > 1 ORDER BY k LIMIT 2", None),
    ],
)
def test_sort_keys_are_columns_of_the_table_or_nothing(shape_of, query, expected):
    shape = shape_of(query)
    index = shape.kinds.index("Sort")
    key = shape.nodes[index].sort_exprs()[0].expr()
    assert column_below(key, shape.nodes[index + 1 :]) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT a FROM t WHERE b > 1", False),
        ("SELECT count(*) FROM t WHERE b > 1 GROUP BY a ORDER BY 1 LIMIT 3", False),
        ("SELECT a FROM t WHERE b > 1 ORDER BY a LIMIT 3", True),
        ("SELECT t.a FROM t JOIN u ON t.a = u.a", True),
    ],
)
def test_joins_and_top_k_narrow_scans_while_they_run(shape_of, query, expected):
    assert shape_of(query).has_dynamic_filters is expected


def test_a_subquery_in_an_expression_hides_its_scan(session):
    frame = session.sql("SELECT a FROM t WHERE b > (SELECT avg(b) FROM u WHERE a > 1)")
    # Before the optimizer turns it into a join, Python cannot see the scan of `u`.
    shape = QueryShape(frame.logical_plan(), frame.logical_plan())
    assert shape.scans == {}


@pytest.mark.parametrize(
    ("query", "is_repeatable", "asks_for_time"),
    [
        ("SELECT a FROM t", True, False),
        ("SELECT a, now() FROM t", False, True),
        ("SELECT a FROM t WHERE random() < 0.5", False, False),
    ],
)
def test_what_changes_from_run_to_run(shape_of, query, is_repeatable, asks_for_time):
    shape = shape_of(query)
    assert shape.is_repeatable is is_repeatable
    assert shape.asks_for_time is asks_for_time


def test_aliases_are_those_of_the_query(shape_of):
    assert shape_of("SELECT x.a FROM t x").alias_of(("t",)) == "x"
    assert shape_of("SELECT a FROM t").alias_of(("t",)) == "t"
    assert shape_of("SELECT x.a FROM t x JOIN t y ON x.a = y.a").alias_of(("t",)) == "t"
