"""DataFusion's own behaviour is kept: every script gives in our session what it gives in its."""

from __future__ import annotations

import datafusion
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from datafusion import col, lit, udaf, udf, udtf, udwf
from datafusion.user_defined import Accumulator, WindowEvaluator

import lm_datafusion as lm
from tests.side_by_side import PATHS, assert_same, new_session, shown, two_sessions

SCRIPTS = {
    "create_table_as": [
        "CREATE TABLE made AS SELECT id, name FROM a WHERE x > 0",
        "SELECT count(*), max(name) FROM made WHERE id > 3",
        "CREATE TABLE made AS SELECT 1",
        "CREATE TABLE IF NOT EXISTS made AS SELECT 1",
        "CREATE OR REPLACE TABLE made AS SELECT id FROM b WHERE x > 0",
        "SELECT * FROM made WHERE id > 3",
        "SELECT id, x INTO into_made FROM a WHERE x > 3",
        "SELECT * FROM into_made WHERE id > 3",
    ],
    "create_table_with_columns": [
        "CREATE TABLE made (k INT NOT NULL, v VARCHAR DEFAULT 'none')",
        "INSERT INTO made (k) VALUES (1), (2)",
        "INSERT INTO made SELECT grp, name FROM a WHERE x > 5 AND id > 9",
        "SELECT * FROM made",
        "INSERT INTO made VALUES (NULL, 'x')",
        "INSERT INTO made SELECT 1",
        "TRUNCATE TABLE made",
        "DELETE FROM made WHERE k = 1",
        "UPDATE made SET k = 2 WHERE k = 1",
        "SELECT count(*) FROM made",
    ],
    "external_parquet": [
        "CREATE EXTERNAL TABLE e STORED AS PARQUET LOCATION '{folder}/a.parquet'",
        "SELECT id, x FROM e WHERE id > 30 AND name = 'ann'",
        "CREATE EXTERNAL TABLE e STORED AS PARQUET LOCATION '{folder}/b.parquet'",
        "CREATE EXTERNAL TABLE IF NOT EXISTS e STORED AS PARQUET LOCATION '{folder}/b.parquet'",
        "CREATE OR REPLACE EXTERNAL TABLE e STORED AS PARQUET LOCATION '{folder}/b.parquet'",
        "SELECT id, x FROM e WHERE id > 30",
        "CREATE EXTERNAL TABLE bad STORED AS PARQUET LOCATION '{folder}/none.parquet'",
        "SELECT * FROM bad WHERE id > 3",
        "CREATE EXTERNAL TABLE bad STORED AS NONSENSE LOCATION '{folder}/a.parquet'",
        "DROP TABLE e",
        "SELECT * FROM e",
        "DROP TABLE e",
        "DROP TABLE IF EXISTS e",
    ],
    "external_parquet_with_everything": [
        "COPY (SELECT * FROM b ORDER BY id) TO '{folder}/ordered.parquet'",
        (
            "CREATE EXTERNAL TABLE o STORED AS PARQUET WITH ORDER (id ASC) LOCATION"
            " '{folder}/ordered.parquet' OPTIONS ('format.pushdown_filters' 'true')"
        ),
        "SELECT id FROM o WHERE x > 0 ORDER BY id LIMIT 5",
        (
            "CREATE EXTERNAL TABLE two STORED AS PARQUET LOCATION"
            " ('{folder}/a.parquet', '{folder}/b.parquet')"
        ),
        "SELECT name, count(*) FROM two WHERE id > 5 GROUP BY name",
        (
            "CREATE EXTERNAL TABLE bad STORED AS PARQUET LOCATION '{folder}/a.parquet'"
            " OPTIONS ('format.nonsense' '1')"
        ),
        (
            "CREATE EXTERNAL TABLE typed (id BIGINT, x DOUBLE) STORED AS PARQUET LOCATION"
            " '{folder}/a.parquet'"
        ),
        "SELECT * FROM typed WHERE id > 30",
        (
            "CREATE EXTERNAL TABLE other (id VARCHAR, more INT) STORED AS PARQUET LOCATION"
            " '{folder}/a.parquet'"
        ),
        "SELECT * FROM other WHERE id > '30'",
        "SELECT count(*) FROM other WHERE more IS NULL",
    ],
    "partitioned_by": [
        (
            "COPY (SELECT id, x, grp FROM a) TO '{folder}/parts' STORED AS PARQUET"
            " PARTITIONED BY (grp)"
        ),
        (
            "CREATE EXTERNAL TABLE p (id BIGINT, x DOUBLE, grp INT) STORED AS PARQUET"
            " PARTITIONED BY (grp) LOCATION '{folder}/parts/'"
        ),
        "SELECT * FROM p WHERE grp = 2 AND x > 0",
        "SELECT grp, count(*) FROM p WHERE x > 0 GROUP BY grp",
        "CREATE EXTERNAL TABLE q STORED AS PARQUET LOCATION '{folder}/parts/'",
        "SELECT * FROM q WHERE x > 3 AND id < 9",
    ],
    "external_csv_and_json": [
        (
            "COPY (SELECT id, name FROM b) TO '{folder}/b.csv' STORED AS CSV OPTIONS"
            " ('format.has_header' 'true')"
        ),
        (
            "CREATE EXTERNAL TABLE csv STORED AS CSV LOCATION '{folder}/b.csv' OPTIONS"
            " ('format.has_header' 'true')"
        ),
        "SELECT csv.name, a.x FROM csv JOIN a ON csv.id = a.id WHERE a.x > 6 AND csv.id > 20",
        "COPY b TO '{folder}/b.json' STORED AS JSON",
        "CREATE EXTERNAL TABLE json STORED AS JSON LOCATION '{folder}/b.json'",
        "SELECT id, name FROM json WHERE x > 0",
    ],
    "insert_into_files": [
        (
            "CREATE EXTERNAL TABLE sink (id BIGINT, x DOUBLE) STORED AS PARQUET LOCATION"
            " '{folder}/sink/'"
        ),
        "SELECT * FROM sink WHERE id > 3",
        "INSERT INTO sink SELECT id, x FROM a WHERE x > 8",
        "SELECT * FROM sink WHERE id > 3",
        "INSERT INTO sink SELECT id, x FROM b WHERE x > 8",
        "SELECT * FROM sink WHERE id > 3",
    ],
    "copy": [
        *(
            f"COPY (SELECT id, x FROM a WHERE id > 30 AND name = 'ann') TO '{{folder}}/c.{kind}'"
            for kind in ("parquet", "csv", "json", "arrow")
        ),
        "COPY a TO '{folder}/copied' STORED AS PARQUET",
        "COPY missing TO '{folder}/c.csv'",
        "COPY a TO '{folder}/c.nonsense'",
        "CREATE EXTERNAL TABLE back STORED AS PARQUET LOCATION '{folder}/c.parquet'",
        "SELECT * FROM back WHERE x > 0",
    ],
    "views": [
        "CREATE VIEW v AS SELECT id, x * 2 AS y, name FROM a WHERE grp = 3",
        "SELECT * FROM v WHERE y > 3 AND name LIKE '%n%'",
        "CREATE VIEW v AS SELECT 1",
        "CREATE OR REPLACE VIEW v AS SELECT id, -x AS y, name FROM a WHERE grp = 2; ",
        "SELECT * FROM v WHERE y > 3",
        "CREATE VIEW vv AS SELECT y AS z, count(*) AS n FROM v WHERE id > 3 GROUP BY y",
        "SELECT * FROM vv WHERE z < 0",
        "CREATE VIEW named (p, q) AS SELECT id, x FROM b",
        "SELECT q FROM named WHERE p > 30",
        "SELECT v.id, named.q FROM v JOIN named ON v.id = named.p WHERE named.q > 0 AND v.y < 2",
        "WITH a AS (SELECT 1 AS one) SELECT * FROM v, a WHERE v.y > 3",
        "WITH b AS (SELECT 9 AS id) SELECT v.id, b.id FROM v, b WHERE v.y > 3 -- the end",
        "CREATE VIEW limited AS SELECT id, x FROM a ORDER BY x NULLS LAST, id LIMIT 20",
        "SELECT * FROM limited WHERE id > 5",
        'CREATE VIEW "Quoted View" AS SELECT "Day" FROM a',
        'SELECT * FROM "Quoted View" WHERE "Day" > \'1970-01-20\'',
        "CREATE VIEW broken AS SELECT nothing FROM a",
        "CREATE VIEW columns AS SELECT y.c1, y.c4 FROM b AS y(c1, c2, c3, c4, c5)",
        (
            "WITH b AS (SELECT 2 AS id, 2 AS grp, 'q' AS name, 1.5 AS x, NULL AS d)"
            " SELECT columns.* FROM columns JOIN b ON columns.c1 > b.id WHERE columns.c4 > 3"
        ),
        "DROP VIEW v",
        "SELECT * FROM v",
        "SELECT * FROM vv WHERE z < 0",
        "DROP VIEW v",
        "DROP VIEW IF EXISTS v",
    ],
    "settings": [
        "SHOW datafusion.execution.batch_size",
        "SET datafusion.execution.batch_size = 17",
        "SHOW datafusion.execution.batch_size",
        "SELECT id FROM a WHERE x > 5",
        "RESET datafusion.execution.batch_size",
        "SHOW datafusion.execution.batch_size",
        "SET datafusion.nonsense = 1",
        "SHOW datafusion.nonsense",
        "SHOW ALL",
        "SHOW TABLES",
        "SHOW COLUMNS FROM a",
        "SHOW CREATE TABLE a",
        "SHOW FUNCTIONS LIKE 'date_t%'",
        "DESCRIBE a",
        "DESCRIBE SELECT id, x FROM a WHERE x > 0",
        "DESCRIBE missing",
        "SET TIME ZONE = '+05:00'",
        (
            "SELECT id FROM a WHERE to_timestamp(concat('2020-01-01T0', grp, ':00:00')) >"
            " '2019-12-31T21:00:00Z'"
        ),
        "SET datafusion.sql_parser.parse_float_as_decimal = true",
        "SELECT id, 1.5 AS d FROM a WHERE x > 1.5",
        "SET datafusion.execution.parquet.pushdown_filters = true",
        "SELECT id, x FROM a WHERE x > 1.5",
        "SET datafusion.optimizer.max_passes = 0",
        "SELECT id, x FROM a WHERE x > 1.5 AND name = 'ann'",
    ],
    "names_as_they_are_written": [
        "CREATE EXTERNAL TABLE \"A\" STORED AS PARQUET LOCATION '{folder}/b.parquet'",
        'SELECT count(*) FROM "A" WHERE id > 3',
        "SELECT count(*) FROM A WHERE id > 3",
        "SET datafusion.sql_parser.enable_ident_normalization = false",
        "SELECT count(*) FROM A WHERE id > 3",
        "SELECT count(*) FROM A, a WHERE A.id = 3 AND a.id = 4",
        "SELECT count(*) FROM A WHERE Day > '1970-01-20'",
    ],
    "dialect": [
        "SET datafusion.sql_parser.dialect = 'mysql'",
        'SELECT `id` FROM `a` WHERE `x` > 5 AND name = "ann"',
        "SELECT id FROM a WHERE name = 'it\\'s' OR x > 8",
        "SET datafusion.sql_parser.dialect = 'postgres'",
        "SELECT id FROM a WHERE name = 'ann' AND x > 5::float8",
    ],
    "prepared": [
        "PREPARE p(BIGINT) AS SELECT id, x FROM a WHERE id = $1",
        "EXECUTE p(3)",
        "EXECUTE p('x')",
        "EXECUTE p(3, 4)",
        "PREPARE p AS SELECT 1",
        "DEALLOCATE p",
        "EXECUTE p(3)",
        "DEALLOCATE p",
    ],
    "transactions": ["BEGIN", "COMMIT", "ROLLBACK"],
    "information_schema": [
        (
            "SELECT table_schema, table_name, table_type FROM information_schema.tables"
            " WHERE table_schema <> 'information_schema'"
        ),
        "SELECT * FROM information_schema.columns WHERE table_name = 'a'",
        "CREATE VIEW v AS SELECT id FROM a WHERE x > 0",
        "SELECT table_name, definition FROM information_schema.views WHERE table_name = 'v'",
        "SELECT count(*) FROM information_schema.df_settings",
        (
            "SELECT a.id, t.table_name FROM a, information_schema.tables t WHERE a.id = 3 AND"
            " t.table_name = 'b'"
        ),
        "SELECT (SELECT count(*) FROM information_schema.tables) AS n, id FROM a WHERE id = 3",
    ],
    "catalogs_and_schemas": [
        "CREATE SCHEMA s",
        "CREATE SCHEMA s",
        "CREATE EXTERNAL TABLE s.t STORED AS PARQUET LOCATION '{folder}/b.parquet'",
        "SELECT id, x FROM s.t WHERE id > 30",
        "SELECT t.id FROM s.t WHERE t.x > 5",
        "SELECT s.t.id FROM s.t WHERE s.t.x > 5",
        "SELECT a.id FROM datafusion.public.a WHERE a.x > 5",
        "SELECT p.id FROM public.a p JOIN a q ON p.id = q.id WHERE p.x > 5 AND q.x < 0",
        "CREATE EXTERNAL TABLE s.a STORED AS PARQUET LOCATION '{folder}/c.parquet'",
        "SELECT p.id FROM s.a p JOIN a q ON p.id = q.id WHERE p.x > 5 AND q.x < 0",
        "SET datafusion.catalog.default_schema = 's'",
        "SELECT id FROM a WHERE x > 5",
        "SELECT id FROM t WHERE x > 5",
        "SELECT id FROM public.a WHERE x > 5",
        "CREATE VIEW s.v AS SELECT id, x FROM t WHERE x > 0",
        "SET datafusion.catalog.default_schema = 'public'",
        "SELECT id FROM s.v WHERE x > 5",
        "DROP SCHEMA s",
        "DROP SCHEMA s CASCADE",
        "SELECT id FROM s.t WHERE x > 5",
        "SET datafusion.catalog.default_schema = 'nowhere'",
        "SELECT id FROM a WHERE x > 5",
        "SELECT id FROM datafusion.public.a WHERE x > 5",
        "CREATE DATABASE other",
        "CREATE SCHEMA other.s",
        "CREATE EXTERNAL TABLE other.s.t STORED AS PARQUET LOCATION '{folder}/b.parquet'",
        "SELECT id FROM other.s.t WHERE x > 5",
    ],
    "odd_names": [
        *(
            statement.replace("?", name)
            for name in (
                '"Mixed Case"',
                '"with.dot"',
                '"quo""te"',
                '"select"',
                '"günther"',
                "Günther",
                '"😀"',
                '"a-b"',
                '"it\'s"',
                '"__lm_0_0"',
                "first",
            )
            for statement in (
                "CREATE EXTERNAL TABLE ? STORED AS PARQUET LOCATION '{folder}/b.parquet'",
                "SELECT id, x FROM ? WHERE id > 30 AND x > 0",
                "SELECT ?.id FROM ? WHERE ?.x > 6",
                "SELECT /* ? 😀 */ '? é' AS s, t.id FROM ? AS t WHERE t.x > 6 AND t.name <> '😀'",
                "SELECT p.id FROM ? p JOIN ? q ON p.id = q.id WHERE p.x > 6 AND q.name = 'ann'",
            )
        )
    ],
    "unquoted_letters_beyond_z_keep_their_case": [
        "CREATE EXTERNAL TABLE Ä STORED AS PARQUET LOCATION '{folder}/a.parquet'",
        "CREATE EXTERNAL TABLE ä STORED AS PARQUET LOCATION '{folder}/b.parquet'",
        "SELECT count(*) FROM Ä WHERE Ä.id > 10",
        'SELECT count(*) FROM "ä" p, Ä q WHERE p.id = 3 AND q.id = 3',
    ],
    "table_functions": [
        "SELECT a.id, g.value FROM a, generate_series(1, 3) g WHERE a.id = g.value AND a.x > 0",
        "SELECT * FROM range(1, 4) AS r WHERE value > 1",
    ],
    "explain_runs_nothing": [
        "EXPLAIN CREATE TABLE made AS SELECT * FROM a WHERE id > 3",
        "SELECT * FROM made",
        "EXPLAIN DROP TABLE m",
        "EXPLAIN SET datafusion.execution.batch_size = 7",
        "SHOW datafusion.execution.batch_size",
        "EXPLAIN INSERT INTO m VALUES (1, 'new')",
        "SELECT * FROM m",
        "EXPLAIN SELECT nothing FROM a",
        "EXPLAIN",
        "EXPLAIN SELECT 1 AS one",
        "EXPLAIN VALUES (1, 2)",
        "EXPLAIN SELECT * FROM m",
        "EXPLAIN FORMAT nonsense SELECT * FROM m",
    ],
    "rejected": [
        "SELECT nothing FROM a WHERE id > 3",
        "SELECT a.nothing FROM a",
        "SELECT id FROM a JOIN b ON a.id = b.id WHERE a.x > 0",
        "SELECT * FROM missing WHERE id > 3",
        "SELEC 1",
        "SELECT 1; SELECT 2",
        "SELECT * FROM a WHERE x > 0; DROP TABLE a",
        "",
        ";",
        "SELECT sum(name) FROM a WHERE id > 3",
        "SELECT id, count(*) FROM a WHERE x > 3",
        "SELECT id FROM a WHERE x",
        "SELECT id FROM a WHERE count(*) > 3",
        "SELECT nofunction(id) FROM a",
        "SELECT id FROM a UNION SELECT id, x FROM a",
        "SELECT id FROM a WHERE id = (SELECT id FROM b)",
        "SELECT id FROM a WHERE name ~ '(' AND x > 0",
        "SELECT id FROM a ORDER BY 7",
        "SELECT $1 FROM a WHERE id > $2",
        "GRANT ALL ON a TO me",
        "CALL something()",
        "USE nothing",
    ],
    "fails_when_it_runs": [
        "SELECT 10 / (id - id) FROM a WHERE id = 3",
        "SELECT id FROM a WHERE 10 / (grp - grp) > 2",
        "SELECT CAST(concat('q', name) AS INT) FROM a WHERE name = 'ann' AND x > 0",
        "SELECT id FROM a WHERE CAST(concat('q', grp - grp) AS INT) > 2",
        "SELECT CAST(id * 1000000000 AS INT) FROM a WHERE id = 30 AND x > 0",
    ],
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("script", SCRIPTS)
def test_sql_gives_what_datafusion_gives(script, path):
    assert_same(path, *SCRIPTS[script])


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "words", ["EXPLAIN", "EXPLAIN VERBOSE", "EXPLAIN ANALYZE", "explain analyze verbose"]
)
def test_explain_of_parquet_tables_has_one_row_more(words, path):
    statement = f"{words} SELECT name FROM a WHERE id > 30 AND x > 0"
    with two_sessions(path) as ((plain, _), (ours, _)):
        expected, found = plain.sql(statement), ours.sql(statement)
        assert found.schema() == expected.schema()
        expected, found = expected.to_pydict(), found.to_pydict()
    assert found["plan_type"] == [*expected["plan_type"], "parquet_scans"] or "verbose" in words
    assert found["plan_type"][-1] == "parquet_scans"
    assert path != "late" or "late" in found["plan"][-1].partition("\n")[0]
    if path in ("auto", "native") and words == "EXPLAIN":
        assert found["plan"][0] == expected["plan"][0]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", ["indent", "tree", "pgjson", "graphviz"])
def test_explain_in_every_format(kind, path):
    statement = f"EXPLAIN FORMAT {kind} SELECT name FROM a WHERE id > 30 AND x > 0"
    with two_sessions(path) as ((plain, _), (ours, _)):
        expected, found = plain.sql(statement), ours.sql(statement)
        assert found.schema() == expected.schema()
        expected, found = expected.to_pydict()["plan_type"], found.to_pydict()["plan_type"]
    assert found == [*expected, "parquet_scans"]


FORBIDDING = {
    "ddl": datafusion.SQLOptions().with_allow_ddl(False),
    "dml": datafusion.SQLOptions().with_allow_dml(False),
    "statements": datafusion.SQLOptions().with_allow_statements(False),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("forbidden", FORBIDDING)
def test_sql_options_forbid_the_same(forbidden, path):
    options = FORBIDDING[forbidden]
    statements = [
        "CREATE TABLE made AS SELECT 1",
        "INSERT INTO m VALUES (1, 'x')",
        "COPY a TO '/nowhere/x.parquet'",
        "SET datafusion.execution.batch_size = 7",
        "DROP TABLE b",
        "CREATE VIEW v AS SELECT 1",
        "PREPARE p AS SELECT 1",
        "SELECT id FROM a WHERE x > 5",
    ]

    def step(statement):
        return lambda session, _: session.sql_with_options(statement, options).schema().names

    assert_same(
        path,
        *map(step, statements),
        lambda session, _: session.sql("SELECT id FROM a WHERE x > 5", options),
    )


@pytest.mark.parametrize("path", PATHS)
def test_parameters(path):
    assert_same(
        path,
        lambda s, _: s.sql("SELECT id, x FROM a WHERE id = $i", param_values={"i": 3}),
        lambda s, _: s.sql("SELECT id, x FROM a WHERE id = $i", param_values={"i": 4}),
        lambda s, _: s.sql("SELECT id FROM a WHERE id = $i AND x > 0", param_values={"j": 3}),
        lambda s, _: s.sql("SELECT id FROM a WHERE x > $i", param_values={"i": pa.scalar(1.5)}),
        lambda s, _: s.sql("SELECT id FROM a WHERE id = $i AND x > $x", i=3, x="0.5"),
        lambda s, _: s.sql("SELECT id FROM $t WHERE x > 5", t="a"),
        lambda s, _: s.sql("SELECT $c FROM a WHERE x > 5", c="id, name"),
        lambda s, _: s.sql("SELECT id FROM a WHERE name = $n", n="'ann'"),
        lambda s, _: s.sql("SELECT id FROM a WHERE name = $n", param_values={"n": "it's $n"}),
        lambda s, _: s.sql("SELECT t.id FROM $t t WHERE t.x > 5", t=s.table("b")),
        lambda s, _: s.sql("SELECT t.id FROM $t t WHERE t.x > 5", t=s.sql("SELECT * FROM a")),
        lambda s, _: s.sql("SELECT id FROM a WHERE id = $1", param_values={"1": 3}),
        lambda s, _: s.sql("EXPLAIN SELECT tag FROM m WHERE id = $i", param_values={"i": 3}),
    )


class Longest(Accumulator):
    """The length of the longest text."""

    def __init__(self):
        self.longest = 0

    def update(self, values):
        self.longest = max(self.longest, pc.max(pc.utf8_length(values)).as_py() or 0)

    def merge(self, states):
        self.longest = max([self.longest, *(v or 0 for v in states[0].to_pylist())])

    def state(self):
        return [pa.scalar(self.longest, pa.int64())]

    def evaluate(self):
        return pa.scalar(self.longest, pa.int64())


class Countdown(WindowEvaluator):
    """Counts down to 1 in each partition."""

    def evaluate_all(self, values, num_rows):
        return pa.array(range(num_rows, 0, -1), pa.int64())


@pytest.mark.parametrize("path", PATHS)
def test_python_functions(path):
    longest = udaf(Longest, pa.string(), pa.int64(), [pa.int64()], "immutable", "longest")
    countdown = udwf(Countdown, [pa.int64()], pa.int64(), "immutable", "countdown")
    with_length = udf(pc.utf8_length, [pa.string()], pa.int32(), "immutable", "zzqqy")
    assert_same(
        path,
        "SELECT zzqqy(name) FROM a WHERE x > 5",
        lambda s, _: s.register_udf(with_length),
        lambda s, _: s.register_udaf(longest),
        lambda s, _: s.register_udwf(countdown),
        "SELECT zzqqy(name) AS n, id FROM a WHERE x > 5",
        "SELECT id FROM a WHERE zzqqy(name) = 3 AND x > 5",
        "SELECT grp, longest(name) FROM a WHERE x > 0 GROUP BY grp",
        "SELECT grp, countdown(id) OVER (PARTITION BY grp) AS n FROM a WHERE x > 6",
        lambda s, _: s.table("a").filter(col("x") > lit(5.0)).select(with_length(col("name"))),
        "CREATE VIEW v AS SELECT id, zzqqy(name) AS n FROM a WHERE x > 0",
        "SELECT * FROM v WHERE n = 3 AND id > 9",
        lambda s, _: s.deregister_udf("zzqqy"),
        "SELECT zzqqy(name) FROM a WHERE x > 5",
        "SELECT * FROM v WHERE n = 3 AND id > 9",
    )


@pytest.mark.parametrize("path", PATHS)
def test_python_table_functions(path):
    def register(session, _):
        made = session.from_pydict({"n": [1, 2, 3]}, name="of_function")
        assert made is not None
        provider = session.table_provider("of_function")
        session.register_udtf(udtf(lambda: provider, "three"))
        file = session.table_provider("b")
        session.register_udtf(udtf(lambda: file, "file_b"))

    assert_same(
        path,
        register,
        "SELECT a.id, t.n FROM a, three() t WHERE a.id = t.n AND a.x > 0",
        "SELECT id, x FROM file_b() WHERE id > 30",
        "SELECT a.id, t.x FROM a JOIN file_b() t ON a.id = t.id WHERE t.x > 5 AND a.x > 0",
    )


@pytest.mark.parametrize("path", PATHS)
def test_a_function_may_have_the_name_of_one_of_datafusions(path):
    shown_as = udf(
        lambda given: pa.array([1.0] * len(given)), [pa.float64()], pa.float64(), "immutable", "abs"
    )
    assert_same(
        path,
        "SELECT id FROM a WHERE abs(x) = 1",
        lambda s, _: s.register_udf(shown_as),
        "SELECT id FROM a WHERE abs(x) = 1",
        "SELECT id FROM a WHERE id > 30 AND abs(x) = 1",
        lambda s, _: s.table("a").filter(shown_as(col("x")) == lit(1.0)).select(col("id")),
    )


@pytest.mark.parametrize("path", PATHS)
def test_spark_functions(path):
    assert_same(
        path,
        "SELECT id FROM a WHERE length(name) = 3 AND x > 5",
        lambda s, _: s.enable_spark_functions(),
        "SELECT id FROM a WHERE length(name) = 3 AND x > 5",
        "SELECT id FROM a WHERE substring(name, 0, 1) = 'a' AND x > 5",
    )


@pytest.mark.parametrize("path", PATHS)
def test_files_as_tables(path):
    def step(session, folder):
        other = session.enable_url_table()
        return [
            other.sql(f"SELECT id, x FROM '{folder}/b.parquet' WHERE id > 30"),
            other.sql(f"SELECT p.id FROM '{folder}/b.parquet' p JOIN a ON a.id = p.id WHERE a.x>7"),
            other.sql("SELECT id, x FROM a WHERE id > 30"),
        ]

    assert_same(path, step, "SELECT id FROM '{folder}/b.parquet' WHERE id > 30")


def test_another_handle_on_the_session_scans_late_too():
    with two_sessions("late") as (_, (ours, _)):
        handle = ours.with_python_udf_inlining(enabled=False)
        assert isinstance(handle, lm.SessionContext)
        frame = ours.sql("SELECT id FROM a WHERE x > 5")
        found = shown(frame)
        assert [report.path for report in ours.scan_reports()] == ["late"]
        handle.deregister_table("a")
        handle.from_pydict({"id": [1], "x": [9.0]}, name="a")
        assert shown(frame) == found
        assert ours.sql("SELECT id FROM a WHERE x > 5").to_pydict() == {"id": [1]}


def test_the_global_session(tmp_path):
    pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "one.parquet")
    ours = lm.SessionContext.global_ctx()
    plain = datafusion.SessionContext.global_ctx()
    ours.register_parquet("only_here", str(tmp_path / "one.parquet"))
    try:
        late = lm.ScanOptions(path="late")
        frame = ours.sql("SELECT id FROM only_here WHERE id > 1", late)
        assert shown(frame) == shown(plain.sql("SELECT id FROM only_here WHERE id > 1"))
        assert [report.path for report in ours.scan_reports()] == ["late"]
        plain.deregister_table("only_here")
        plain.from_pydict({"id": [7]}, name="only_here")
        assert ours.sql("SELECT id FROM only_here WHERE id > 1", late).to_pydict() == {"id": [7]}
        assert frame.to_pydict() == {"id": [2, 3]}
    finally:
        plain.deregister_table("only_here")


def test_rows_come_in_the_order_of_the_file(tmp_path):
    pq.write_table(pa.table({"id": range(5000)}), tmp_path / "a.parquet", row_group_size=500)
    for name in "bc":
        pq.write_table(pa.table({"id": [1]}), tmp_path / f"{name}.parquet")
    config = datafusion.SessionConfig().with_target_partitions(1)
    session = lm.SessionContext(config, options=lm.ScanOptions(path="late"))
    session.register_parquet("t", str(tmp_path / "a.parquet"))
    found = session.sql("SELECT id FROM t WHERE id % 7 = 3").to_pydict()["id"]
    assert found == [n for n in range(5000) if n % 7 == 3]


@pytest.mark.parametrize("path", PATHS)
def test_metadata_of_fields_is_kept(path, tmp_path):
    schema = pa.schema(
        [pa.field("id", pa.int64(), metadata={"unit": "m"}), pa.field("s", pa.string(), False)],
        metadata={"made": "here"},
    )
    table = pa.table({"id": [1, 2, None], "s": ["x", "y", "z"]}, schema=schema)
    for name in "abc":
        pq.write_table(table, tmp_path / f"{name}.parquet")
    plain, ours = (new_session(which, tmp_path) for which in (None, path))
    query = "SELECT id, s FROM a WHERE id > 1"
    expected, found = (session.sql(query) for session in (plain, ours))
    assert found.schema().equals(expected.schema(), check_metadata=True)
    expected, found = expected.to_arrow_table(), found.to_arrow_table()
    assert found.schema.equals(expected.schema, check_metadata=True)
    assert found == expected
