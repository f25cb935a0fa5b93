"""What runs instead of a frame is the same query: its functions, its tables, its schema."""

from __future__ import annotations

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import col, lit

import lm_datafusion as lm
from tests.eager import eager
from tests.side_by_side import assert_same, two_sessions

PATHS = ("auto", "late")
F = datafusion.functions
# What Substrait, or DataFusion's reader of it, forgets.
FORGOTTEN = {
    "ignore_nulls": "first_value(x ORDER BY id) IGNORE NULLS AS y FROM a GROUP BY grp",
    "window_ignores_nulls": (
        "max(id) OVER (PARTITION BY grp) AS m,"
        " last_value(x) IGNORE NULLS OVER (PARTITION BY grp ORDER BY id, name, x) AS y FROM a"
    ),
    "window_filter": "count(*) FILTER (WHERE id > 9) OVER (PARTITION BY grp) AS y FROM a",
    "window_distinct": "count(DISTINCT name) OVER (PARTITION BY grp) AS y FROM a",
    "window_range": (
        "sum(id) OVER (PARTITION BY grp ORDER BY id RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS y"
        " FROM a"
    ),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", FORGOTTEN)
def test_what_substrait_forgets_is_left_to_datafusion(name, path):
    query = f"SELECT grp, {FORGOTTEN[name]}"
    with eager():
        assert_same(
            path,
            lambda s, f: s.sql(query).filter(col("grp") == lit(3)).sort(col("y")),
            lambda s, f: s.sql(f"CREATE VIEW v AS {query}"),
            lambda s, f: s.sql("SELECT * FROM v WHERE grp = 3 ORDER BY y"),
            lambda s, f: s.table("v").filter(col("grp") == lit(3)).sort(col("y")),
        )


@pytest.mark.parametrize("path", PATHS)
def test_a_function_is_not_mistaken_for_one_of_the_users_by_its_name(path):
    mine = datafusion.udf(
        lambda x: pa.array([7.0] * len(x)), [pa.float64()], pa.float64(), "immutable", name="abs"
    )
    with eager():
        assert_same(
            path,
            lambda s, f: s.register_udf(mine),
            lambda s, f: s.table("a").filter(col("x") > lit(8.0)).select(F.abs(col("x"))),
        )


def _replaced(name, table):
    def step(session, folder):
        session.deregister_table(name)
        pq.write_table(table, folder / "new.parquet")
        session.register_parquet(name, str(folder / "new.parquet"))

    return step


@pytest.mark.parametrize("path", PATHS)
def test_a_view_in_a_frame_is_over_the_tables_it_was_made_over(path):
    def filtered(session, name):
        return session.table(name).filter(col("id") > lit(5)).select("id", "x")

    with two_sessions(path) as (_, (_, folder)):
        other = pq.read_table(folder / "b.parquet")
    with eager():
        assert_same(
            path,
            lambda s, f: s.sql("CREATE VIEW v AS SELECT * FROM a"),
            lambda s, f: s.sql("CREATE VIEW w AS SELECT * FROM m"),
            lambda s, f: s.register_view("file", s.read_parquet(str(f / "a.parquet"))),
            _replaced("a", other),
            lambda s, f: s.deregister_table("m"),
            lambda s, f: s.from_pydict({"id": [7, 8], "tag": ["new", "new"]}, name="m") and None,
            lambda s, f: filtered(s, "v"),
            lambda s, f: filtered(s, "v").union(filtered(s, "a")),
            lambda s, f: filtered(s, "a").join(s.table("w"), on="id"),
            lambda s, f: (
                s.read_parquet(str(f / "b.parquet"))
                .filter(col("id") > lit(5))
                .select("id", "x")
                .union(filtered(s, "file"))
            ),
        )


@pytest.mark.parametrize("path", PATHS)
def test_a_text_that_looks_like_a_condition_is_no_condition(path, tmp_path):
    odd = 'a") OR t.s = Utf8View("c'
    pq.write_table(pa.table({"k": range(200), "s": ["a", "b", odd, "c"] * 50}), tmp_path / "t")
    one, other = f"s = '{odd}'", "s = 'a' OR s = 'c'"
    with eager():
        assert_same(
            path,
            lambda s, f: s.register_parquet("t", str(tmp_path / "t"), file_extension=""),
            *(
                lambda s, f, first=first, last=last: s.sql(
                    f"SELECT 1, k FROM t WHERE {first} UNION ALL SELECT 2, k FROM t WHERE {last}"
                )
                for first, last in ((one, other), (other, one))
            ),
        )


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "query",
    [
        (
            "SELECT s, k FROM (SELECT DISTINCT ON (s) s, k, n FROM t {} ORDER BY s, k) AS u"
            " ORDER BY u.s, u.k"
        ),
        "SELECT k FROM t {} UNION ALL SELECT n FROM t {} ORDER BY k DESC LIMIT 5",
    ],
)
def test_a_plan_that_is_kept_gives_the_schema_of_the_first_run(query, path, tmp_path):
    schema = pa.schema(
        [
            pa.field("k", pa.uint64(), nullable=False),
            pa.field("n", pa.int16(), nullable=False),
            pa.field("s", pa.string(), nullable=False),
        ]
    )
    columns = {"k": range(200), "n": range(200), "s": [str(i % 3) for i in range(200)]}
    pq.write_table(pa.table(columns, schema), tmp_path / "t.parquet", row_group_size=50)

    def ran(where):
        text = query.replace("{}", where)
        return lambda s, f: s.sql(text).to_arrow_table().schema.to_string()

    with eager():
        assert_same(
            path,
            lambda s, f: s.register_parquet("t", str(tmp_path / "t.parquet")),
            *[ran("")] * 3,
            # Without a row the schema is the plan's, with one it is that of a batch.
            *[ran("WHERE k > 500")] * 3,
            *[ran("WHERE k < 9")] * 3,
        )


@pytest.mark.parametrize("path", ["late", "auto"])
def test_zeros_of_both_signs_in_an_order(tmp_path, path):
    zeros = [0.0 if i % 3 else -0.0 for i in range(200)]
    pq.write_table(pa.table({"k": range(200), "f": zeros}), tmp_path / "t.parquet")
    plain, ours = datafusion.SessionContext(), lm.SessionContext(options=lm.ScanOptions(path=path))
    for session in (plain, ours):
        session.register_parquet("t", str(tmp_path / "t.parquet"))
    for query in (
        "SELECT k, f FROM t WHERE f = 0 ORDER BY f, k DESC LIMIT 40",
        "SELECT k, row_number() OVER (ORDER BY f, k DESC) AS n FROM t WHERE f = 0",
    ):
        with eager():
            found = ours.sql(query).to_pylist()
        assert sorted(map(repr, found)) == sorted(map(repr, plain.sql(query).to_pylist()))
