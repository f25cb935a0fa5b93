"""Frames that are put together by methods are scanned late, and give what DataFusion gives."""

from __future__ import annotations

import datafusion
import pytest
from datafusion import col, lit

from tests.side_by_side import PATHS, outcome, two_sessions

F = datafusion.functions


def _b_renamed(session):
    return session.table("b").filter(col("x") > lit(0.0)).select(col("id").alias("b_id"), "name")


def _view(session, query):
    session.sql(f"CREATE OR REPLACE VIEW v AS {query}")
    return session.table("v")


def _tables(session):
    return session.table("a").filter(col("x") > lit(3.0))


# Frames that filter a: the late path scans it late.
LATE = {
    "filter": lambda s, f: _tables(s),
    "filter_as_text": lambda s, f: s.table("a").filter("x > 3 AND name LIKE '%n%'"),
    "filter_after_select": lambda s, f: s.table("a").select("id", "x").filter(col("id") > lit(9)),
    "select": lambda s, f: _tables(s).select("id", (col("x") * lit(2)).alias("y")),
    "quoted_column": lambda s, f: s.table("a").filter(col('"Day"') > lit("1970-01-20")),
    "columns_by_name": lambda s, f: _tables(s)["id", "name"],
    "with_column": lambda s, f: _tables(s).with_column("y", col("x") + lit(1.0)),
    "renamed": lambda s, f: _tables(s).with_column_renamed("x", "y").filter(col("y") < lit(7.0)),
    "aggregate": lambda s, f: _tables(s).aggregate([col("grp")], [F.sum(col("id")).alias("s")]),
    "aggregate_all": lambda s, f: _tables(s).aggregate([], [F.count_star(), F.max(col("name"))]),
    "having": lambda s, f: (
        _tables(s).aggregate([col("grp")], [F.count_star().alias("n")]).filter(col("n") > lit(10))
    ),
    "sort_and_limit": lambda s, f: _tables(s).sort(col("x"), col("id")).limit(5, 2),
    "distinct": lambda s, f: _tables(s).select("name").distinct(),
    "join_on": lambda s, f: _tables(s).join(_b_renamed(s), left_on="id", right_on="b_id"),
    "left_join": lambda s, f: _tables(s).join(
        _b_renamed(s), left_on="id", right_on="b_id", how="left"
    ),
    "semi_join": lambda s, f: _tables(s).join(
        _b_renamed(s), left_on="id", right_on="b_id", how="semi"
    ),
    "join_with_memory": lambda s, f: _tables(s).join(s.table("m"), on="id"),
    "union": lambda s, f: _tables(s).select("id").union(_b_renamed(s).select("b_id")),
    "except_all": lambda s, f: (
        _tables(s).select("id").except_all(s.table("b").filter(col("x") > lit(5.0)).select("id"))
    ),
    "window": lambda s, f: _tables(s).select(
        "id", F.rank(order_by=[col("x")], partition_by=[col("grp")]).alias("r")
    ),
    "of_a_file": lambda s, f: s.read_parquet(str(f / "a.parquet")).filter(col("x") > lit(3.0)),
    "of_a_file_aggregated": lambda s, f: (
        s.read_parquet(str(f / "a.parquet"))
        .filter(col("x") > lit(3.0))
        .aggregate([col("grp")], [F.count_star().alias("n")])
    ),
    "of_a_folder": lambda s, f: s.read_parquet(str(f)).filter(col("x") > lit(3.0)).select("id"),
    "of_a_file_and_a_table": lambda s, f: (
        s.read_parquet(str(f / "c.parquet"))
        .filter(col("x") > lit(3.0))
        .select(col("id").alias("c_id"))
        .join(_tables(s), left_on="c_id", right_on="id")
    ),
    "of_sql": lambda s, f: s.sql("SELECT id, x FROM a WHERE x > 3").filter(col("id") > lit(5)),
    "of_sql_aggregated": lambda s, f: s.sql(
        "SELECT grp, count(*) AS n FROM a WHERE x > 3 GROUP BY grp"
    ).filter(col("n") > lit(5)),
    "of_a_view": lambda s, f: _view(s, "SELECT id, x * 2 AS y FROM a").filter(col("id") > lit(9)),
    "of_a_filtering_view": lambda s, f: _view(s, "SELECT id, x FROM a WHERE x > 3").select("id"),
    "tail": lambda s, f: s.table("a").sort(*every_column(s.table("a"))).tail(5),
    "read_batch_by_batch": lambda s, f: _tables(s).repartition(3).select("id"),
}


def every_column(frame):
    return [col(f'"{name}"') for name in frame.schema().names]


# Frames that DataFusion's reader serves, whatever the path.
NATIVE = {
    "no_filter": lambda s, f: s.table("a").select("id"),
    "limit_under_the_filter": lambda s, f: s.table("c").limit(40).filter(col("x") > lit(0.0)),
    "memory": lambda s, f: s.table("m").filter(col("id") > lit(7)),
    "cached": lambda s, f: s.table("a").cache().filter(col("x") > lit(3.0)),
    # Two sources of one name: only what both filter by would be applied early.
    "with_itself": lambda s, f: (
        _tables(s).select("id").union(s.table("a").filter(col("x") < lit(-8.0)).select("id"))
    ),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", [*LATE, *NATIVE])
def test_a_frame_gives_what_datafusion_gives(name, path):
    made = (LATE | NATIVE)[name]
    with two_sessions(path) as (plain, ours):
        expected, found = outcome(made, *plain), outcome(made, *ours)
        assert found == expected
        assert isinstance(found, list)
        assert len(found) > 2
        reports = ours[0].scan_reports()
    if path == "late" and name in LATE:
        assert "late" in {report.path for report in reports}
        assert sum(report.rows_total for report in reports) > 0
    else:
        assert "late" not in {report.path for report in reports}


def test_the_late_path_reads_only_rows_that_pass():
    with two_sessions("late") as (_, (session, _)):
        frame = session.table("a").filter(col("id") == lit(3)).aggregate([], [F.count_star()])
        assert session.scan_reports() == []
        frame.collect()
        (report,) = session.scan_reports()
        assert [step.predicate for step in report.steps] == ['("id" = (3))']
        assert report.rows_selected < report.rows_total == 300


def test_lists_given_to_a_method_may_change_afterwards():
    with two_sessions("late") as ((plain, _), (session, _)):
        results = []
        for context in (plain, session):
            keys = [col("grp")]
            frame = _tables(context).aggregate(keys, [F.count_star().alias("n")])
            keys[0] = col("name")
            results.append(sorted(map(repr, frame.to_pylist())))
        assert results[1] == results[0]


def test_a_frame_of_thousands_of_parts_runs():
    with two_sessions("late") as ((plain, _), (session, _)):
        counts = []
        for context in (plain, session):
            frame = _tables(context).select("id")
            for _ in range(9):
                frame = frame.union(frame, distinct=True)
            counts.append(frame.count())
        assert counts[1] == counts[0]
