"""`lm_datafusion.SessionContext` gives what DataFusion's gives, on every path."""

from __future__ import annotations

import concurrent.futures
import decimal
import random

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm

PATHS = ["native", "late", "auto"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Three tables with NULLs in every column."""
    folder = tmp_path_factory.mktemp("session")
    rng = random.Random(5)

    def maybe(value):
        return None if rng.random() < 0.15 else value

    def table(rows):
        return pa.table(
            {
                "id": pa.array([maybe(rng.randrange(40)) for _ in range(rows)], pa.int64()),
                "grp": pa.array([maybe(rng.randrange(5)) for _ in range(rows)], pa.int32()),
                "name": [maybe(rng.choice(["ann", "bob", "eve", "Zoe", ""])) for _ in range(rows)],
                "x": [maybe(round(rng.uniform(-9, 9), 2)) for _ in range(rows)],
                "Day": pa.array([maybe(rng.randrange(40)) for _ in range(rows)], pa.date32()),
            }
        )

    paths = {}
    for name, rows in [("a", 300), ("b", 120), ("c", 40)]:
        paths[name] = str(folder / f"{name}.parquet")
        pq.write_table(
            table(rows), paths[name], row_group_size=60, max_rows_per_page=20, write_page_index=True
        )
    return paths


def contexts(files, path):
    config = datafusion.SessionConfig().with_target_partitions(2)
    plain = datafusion.SessionContext(config)
    late = lm.SessionContext(config, options=lm.ScanOptions(path=path))
    for context in (plain, late):
        for name, file in files.items():
            context.register_parquet(name, file)
        context.from_pydict({"id": [1, 2, None], "tag": ["p", "q", "r"]}, name="m")
    return plain, late


STATEMENTS = [
    "SELECT * FROM a",
    "SELECT count(*) FROM a WHERE id > 10",
    "SELECT name, x FROM a WHERE id > 10 AND name LIKE '%o%'",
    "SELECT A.NAME FROM a WHERE A.ID = 3",
    'SELECT "Day" FROM a WHERE "Day" > \'1970-01-20\' AND grp <> 2',
    "SELECT t.x FROM a AS t WHERE t.id IN (1, 2, 3, 4, 5, NULL)",
    "SELECT t.x FROM a t WHERE t.id NOT IN (1, 2, 3, 4, 5)",
    "SELECT a.id, b.x FROM a JOIN b ON a.id = b.id WHERE a.name = 'ann' AND b.x > 0",
    "SELECT a.id, b.x FROM a LEFT JOIN b ON a.id = b.id AND b.x > 0 WHERE a.grp = 1",
    "SELECT a.id, b.x FROM a LEFT JOIN b ON a.id = b.id WHERE b.x > 0",
    "SELECT a.id, b.x FROM a LEFT JOIN b ON a.id = b.id WHERE b.x IS NULL",
    "SELECT a.id, b.x FROM a RIGHT JOIN b ON a.id = b.id WHERE a.name LIKE 'a%'",
    "SELECT a.id, b.id FROM a FULL JOIN b ON a.id = b.id AND a.x > 1 WHERE b.grp = 2",
    "SELECT a.id, b.id FROM a FULL JOIN b ON a.id = b.id WHERE a.id > 3 OR b.id IS NULL",
    "SELECT a.id FROM a LEFT SEMI JOIN b ON a.id = b.id AND b.name = 'bob'",
    "SELECT a.id FROM a LEFT ANTI JOIN b ON a.id = b.id AND b.name = 'bob' WHERE a.x < 2",
    "SELECT count(*) FROM a CROSS JOIN c WHERE a.id = 3 AND c.x > 0",
    "SELECT count(*) FROM a NATURAL JOIN c WHERE c.name LIKE '%e'",
    "SELECT s.id FROM a s JOIN a t ON s.id = t.grp WHERE s.name = 'eve' AND t.name <> 'eve'",
    "WITH w AS (SELECT * FROM a WHERE x > 0) SELECT * FROM w WHERE name = 'bob'",
    """WITH w AS (SELECT * FROM a WHERE x > 0)
    SELECT p.id FROM w p JOIN w q ON p.id = q.grp WHERE p.name = 'bob' AND q.name LIKE 'a%'""",
    "WITH a AS (SELECT 1 AS id) SELECT * FROM a WHERE id = 1",
    "SELECT id FROM (SELECT id, x FROM a WHERE grp = 3) t WHERE x > 0",
    "SELECT id FROM (SELECT id, x FROM a ORDER BY x NULLS LAST, id LIMIT 20) t WHERE id > 10",
    "SELECT id FROM a WHERE id IN (SELECT id FROM b WHERE name = 'ann')",
    "SELECT id FROM a WHERE id NOT IN (SELECT id FROM b WHERE id IS NOT NULL AND name = 'ann')",
    "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.id = a.id AND b.x > 3)",
    "SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.id = a.id AND b.x > 3)",
    "SELECT id, x FROM a WHERE x > (SELECT avg(x) FROM b WHERE grp = 1)",
    "SELECT id, (SELECT max(x) FROM b WHERE b.id = a.id) AS m FROM a WHERE a.name = 'ann'",
    "SELECT id FROM a WHERE name = 'ann' UNION ALL SELECT id FROM b WHERE x > 2",
    "SELECT id FROM a WHERE name = 'ann' UNION SELECT id FROM b WHERE x > 2",
    "SELECT id FROM a WHERE x > 0 INTERSECT SELECT id FROM b WHERE x < 0",
    "SELECT id FROM a WHERE x > 0 EXCEPT SELECT id FROM b WHERE name LIKE '%b'",
    "SELECT DISTINCT name FROM a WHERE grp IS NOT DISTINCT FROM NULL",
    "SELECT name, count(*) AS n, sum(x) FROM a WHERE id BETWEEN 5 AND 25 GROUP BY name",
    "SELECT name, count(*) AS n FROM a GROUP BY name HAVING count(*) > 20 AND name <> 'bob'",
    "SELECT id, rank() OVER (PARTITION BY grp ORDER BY x) r FROM a WHERE name = 'ann'",
    """SELECT id FROM (SELECT id, grp, rank() OVER (PARTITION BY grp ORDER BY x) r FROM a)
    WHERE grp = 2 AND r < 5""",
    "SELECT id, x FROM a QUALIFY row_number() OVER (PARTITION BY grp ORDER BY x, id) = 1",
    "SELECT * EXCEPT (x) FROM a WHERE x > 5",
    "SELECT * REPLACE (id + 1 AS id) FROM a WHERE name LIKE 'Z%'",
    "SELECT id, x FROM a ORDER BY x DESC NULLS LAST, id LIMIT 7 OFFSET 3",
    "SELECT a.id, m.tag FROM a JOIN m ON a.id = m.id WHERE a.x > 0 AND m.tag = 'p'",
    "SELECT upper(name) u, count(*) FROM a WHERE length(name) = 3 GROUP BY u",
    "SELECT CASE WHEN x > 0 THEN 'pos' ELSE 'neg' END k, count(*) FROM a WHERE x <> 0 GROUP BY k",
    "SELECT min(id), max(name), avg(x) FROM a WHERE date_part('day', \"Day\") < 10",
    "SELECT id FROM a WHERE id = 3 AND id = 4",
    "SELECT id FROM a WHERE NULL",
    "SELECT id FROM a WHERE random() < 2 AND id = 3",
    "VALUES (1, 2), (3, 4)",
]


def rows(frame):
    """Names and rows in any order; sums of floats depend on the order of rows."""
    table = frame.to_arrow_table()
    plain = [
        tuple(round(v, 9) if isinstance(v, float) else v for v in row.values())
        for row in table.to_pylist()
    ]
    return table.schema.names, sorted(map(repr, plain))


@pytest.mark.parametrize("path", PATHS)
def test_statements_give_what_datafusion_gives(files, path):
    plain, late = contexts(files, path)
    for statement in STATEMENTS:
        expected, served = plain.sql(statement), late.sql(statement)
        assert served.schema() == expected.schema(), statement
        assert rows(served) == rows(expected), statement


def test_the_late_path_scans_late_and_reports_it(files):
    _, late = contexts(files, "late")
    late.sql("SELECT x FROM a WHERE id = 3 AND name LIKE '%n%'").collect()
    reports = late.scan_reports()
    assert reports
    steps = {step.predicate for report in reports for step in report.steps}
    assert "(\"name\" LIKE '%n%')" in steps
    assert '("id" = (3))' in steps


def test_what_datafusion_pushes_once_more_is_evaluated_once(files):
    plain, late = contexts(files, "late")
    # Under a left join the condition stays in the statement, and DataFusion pushes it again.
    query = "SELECT a.x FROM a LEFT JOIN b ON a.id = b.id WHERE a.grp = 3"
    assert rows(late.sql(query)) == rows(plain.sql(query))
    reports = {report.table: report for report in late.scan_reports()}
    (step,) = reports["a"].steps
    assert step.rows_out == reports["a"].rows_selected


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a.id, b.x FROM (a LEFT JOIN b ON a.id = b.id) WHERE b.grp = 2",
        "SELECT a.id, b.x FROM ((a LEFT JOIN b ON a.id = b.id)) WHERE b.grp = 2",
        "SELECT c.id FROM c JOIN (a LEFT JOIN b ON a.id = b.id) ON a.id = c.id WHERE b.grp = 2",
        "SELECT c.id FROM (a LEFT JOIN b ON a.id = b.id), c WHERE b.grp = 2 AND c.grp = 1",
        """SELECT c.id FROM c WHERE EXISTS
        (SELECT 1 FROM (a LEFT JOIN b ON a.id = b.id) WHERE b.grp = 2 AND a.id = c.id)""",
    ],
)
def test_conditions_on_an_outer_join_in_parentheses_stay(files, query):
    plain, late = contexts(files, "late")
    assert rows(late.sql(query)) == rows(plain.sql(query))


def test_decimals_near_zero(tmp_path):
    path = str(tmp_path / "a.parquet")
    values = [decimal.Decimal(i - 5) for i in range(10)]
    table = pa.table({"id": range(10), "d": pa.array(values, pa.decimal128(20, 7))})
    pq.write_table(table, path)
    late = lm.SessionContext(options=lm.ScanOptions(path="late"))
    late.register_parquet("t", path)
    for condition in ("d >= 0", "d >= 0.0000001", "d = 0.0000000"):
        late.sql(f"SELECT id FROM t WHERE id > 2 AND {condition}").collect()
    assert late.sql("SELECT id FROM t WHERE id > 2 AND d >= 0").count() == 5


@pytest.mark.parametrize("path", ["late", "auto"])
def test_texts_and_tables_that_look_like_names_of_ours(files, path):
    _, ours = contexts(files, path)
    ours.sql("SELECT x FROM a WHERE id = 3").collect()
    for number in range(200):
        ours.register_parquet(f"__lm_{number}_0", files["b"])
    ours.sql("CREATE VIEW tagged AS SELECT id, x, '__lm_7_0' AS tag FROM a")
    for _ in range(3):
        ours.sql("SELECT x FROM a WHERE id = 3 ORDER BY id LIMIT 3").collect()
        found = ours.sql("SELECT * FROM tagged WHERE id = 3 ORDER BY id LIMIT 3").to_pydict()
        assert set(found["tag"]) == {"__lm_7_0"}
    assert sum(name.startswith("__lm_") for name in ours.catalog().schema().names()) == 200


def test_a_frame_is_lazy_and_collecting_twice_scans_twice(files):
    _, late = contexts(files, "late")
    frame = late.sql("SELECT x FROM a WHERE id = 3")
    assert late.scan_reports() == []
    found = rows(frame)
    (first,) = late.scan_reports()
    assert rows(frame) == found
    (second,) = late.scan_reports()
    assert first.rows_total == second.rows_total == 300
    assert first.elapsed_s != second.elapsed_s


def test_nothing_is_left_registered(files):
    plain, late = contexts(files, "late")
    late.sql("SELECT count(*) FROM a JOIN b ON a.id = b.id WHERE a.x > 0").collect()
    names = late.catalog().schema().names()
    assert names == plain.catalog().schema().names()


def test_options_per_query(files):
    _, late = contexts(files, "auto")
    late.sql("SELECT x FROM a WHERE id = 3").collect()
    assert [report.path for report in late.scan_reports()] == ["native"]
    late.sql("SELECT x FROM a WHERE id = 3", options=lm.ScanOptions(path="late")).collect()
    assert [report.path for report in late.scan_reports()] == ["late"]


def test_explain_scan_says_what_is_read_in_which_order(files):
    _, late = contexts(files, "late")
    explanation = late.explain_scan("SELECT t.x FROM a t WHERE t.id = 3 AND t.name LIKE '%n%'")
    (plan,) = explanation.to_dict()
    assert plan["table"] == "t"
    assert plan["path"] == "late"
    predicates = {step["predicate"] for step in plan["filters"]}
    assert predicates == {'("id" = (3))', "(\"name\" LIKE '%n%')"}
    assert plan["row_groups_total"] == 5
    # DataFusion evaluates LIKE once more, so name is read for rows that pass.
    assert set(plan["columns"]) == {"name", "x"}
    assert plan["bytes_estimated"] > 0
    assert "filter 1" in str(explanation)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT nothing FROM a",
        "SELECT * FROM missing",
        "SELEC 1",
        "SELECT * FROM a WHERE name > 1 AND",
        "SELECT 1; SELECT 2",
    ],
)
@pytest.mark.parametrize("path", PATHS)
def test_errors_are_datafusions(files, path, statement):
    plain, late = contexts(files, path)
    with pytest.raises(Exception) as expected:  # noqa: PT011 whatever DataFusion raises
        plain.sql(statement)
    with pytest.raises(type(expected.value)) as caught:
        late.sql(statement)
    assert str(caught.value) == str(expected.value)


@pytest.mark.parametrize("path", PATHS)
def test_what_is_not_a_query_passes_through(files, path, tmp_path):
    _, late = contexts(files, path)
    late.sql("CREATE TABLE made AS SELECT id FROM a WHERE id < 5")
    late.sql("INSERT INTO made VALUES (99)").collect()
    assert late.sql("SELECT count(*) AS n FROM made WHERE id = 99").to_pydict() == {"n": [1]}
    late.sql("CREATE VIEW seen AS SELECT id, name FROM a WHERE x > 0")
    plain, _ = contexts(files, path)
    expected = plain.sql("SELECT count(*) AS n FROM a WHERE x > 0 AND name = 'ann'").to_pydict()
    assert late.sql("SELECT count(*) AS n FROM seen WHERE name = 'ann'").to_pydict() == expected
    late.sql("SET datafusion.execution.batch_size = 1000")
    target = tmp_path / "copied.parquet"
    late.sql(f"COPY (SELECT * FROM a WHERE id = 3) TO '{target}' STORED AS PARQUET").collect()
    assert pq.read_table(target).num_rows == late.sql("SELECT * FROM a WHERE id = 3").count()
    assert "logical_plan" in late.sql("EXPLAIN SELECT * FROM a").to_pydict()["plan_type"]
    late.sql("DROP TABLE made")
    late.deregister_table("a")
    with pytest.raises(Exception, match="a"):
        late.sql("SELECT * FROM a")


def test_a_table_registered_again_is_the_new_one(files):
    _, late = contexts(files, "late")
    count = late.sql("SELECT id FROM a").count()
    late.deregister_table("a")
    late.register_parquet("a", files["c"])
    assert late.sql("SELECT id FROM a").count() != count


def test_a_name_that_leads_elsewhere_now_is_not_scanned_late(files):
    _, late = contexts(files, "late")
    late.sql("DROP TABLE a")
    late.from_pydict({"id": [7, 8]}, name="a")
    assert late.sql("SELECT id FROM a WHERE id > 7").to_pydict() == {"id": [8]}
    late.sql("DROP TABLE b")
    late.sql("CREATE VIEW b AS SELECT id + 1000 AS id FROM c WHERE id IS NOT NULL")
    found = late.sql("SELECT id FROM b").to_pydict()["id"]
    assert found
    assert min(found) >= 1000


def test_a_file_that_datafusion_cuts_into_ranges_is_scanned_late(tmp_path):
    path = str(tmp_path / "large.parquet")
    pq.write_table(pa.table({"id": range(1_500_000)}), path, use_dictionary=False)
    config = datafusion.SessionConfig().with_target_partitions(2)
    late = lm.SessionContext(config, options=lm.ScanOptions(path="late"))
    late.register_parquet("large", path)
    assert ".." in late.table("large").execution_plan().display_indent()
    assert late.sql("SELECT id FROM large WHERE id = 77").to_pydict() == {"id": [77]}
    (report,) = late.scan_reports()
    assert report.path == "late"
    assert report.files == 1
    assert report.bytes_scanned < report.bytes_total


def test_a_folder_is_listed_as_datafusion_lists_it(files, tmp_path):
    pq.write_table(pa.table({"id": [1]}), tmp_path / "one.parquet")
    pq.write_table(pa.table({"id": [2]}), tmp_path / "two.pq")
    plain, late = contexts(files, "late")
    for context in (plain, late):
        context.register_parquet("folder", str(tmp_path))
    query = "SELECT id FROM folder WHERE id > 0"
    assert rows(late.sql(query)) == rows(plain.sql(query)) == (["id"], ["(1,)"])
    assert [report.path for report in late.scan_reports()] == ["late"]


def test_threads_share_a_context(files):
    plain, late = contexts(files, "late")
    wanted = {s: rows(plain.sql(s)) for s in STATEMENTS}

    def run(seed):
        rng = random.Random(seed)
        for _ in range(6):
            statement = rng.choice(STATEMENTS)
            assert rows(late.sql(statement)) == wanted[statement], statement

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(16)))


@pytest.mark.parametrize("path", ["late", "auto"])
def test_is_distinct_from_takes_all_that_follows(tmp_path, path):
    """To DataFusion, what is behind an AND too."""
    file = str(tmp_path / "t.parquet")
    pq.write_table(pa.table({"a": [5, 6, 7], "c": [True, True, False]}), file)
    plain, ours = datafusion.SessionContext(), lm.SessionContext(options=lm.ScanOptions(path=path))
    for context in (plain, ours):
        context.register_parquet("t", file)
    query = "SELECT a FROM t WHERE c IS DISTINCT FROM false AND a >= 6 ORDER BY a"
    assert ours.sql(query).to_pylist() == plain.sql(query).to_pylist() == [{"a": 5}, {"a": 6}]


def test_views_of_text_are_read_late(tmp_path):
    file = str(tmp_path / "v.parquet")
    table = pa.table(
        {
            "n": range(40),
            "s": pa.array([f"x{i}" for i in range(40)], pa.string_view()),
            "b": pa.array([b"b%d" % i for i in range(40)], pa.binary_view()),
        }
    )
    pq.write_table(table, file, use_dictionary=False, row_group_size=7)
    plain, ours = (
        datafusion.SessionContext(),
        lm.SessionContext(options=lm.ScanOptions(path="late")),
    )
    for context in (plain, ours):
        context.register_parquet("v", file)
    for query in [
        "SELECT * FROM v WHERE n % 3 = 1 ORDER BY n",
        "SELECT * FROM v WHERE n % 3 = 1 AND s > 'x1' ORDER BY s DESC LIMIT 3",
    ]:
        expected = plain.sql(query).to_arrow_table()
        assert ours.sql(query).to_arrow_table().equals(expected)
    assert lm.dataset(file).take([30, 1, 1])["s"].to_pylist() == ["x30", "x1", "x1"]
