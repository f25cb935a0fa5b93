"""A frame sees the tables of the time it was made, and the files of the time it runs.

As in DataFusion: each test does the same steps in a plain session.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import catalog, col, lit, udf

import lm_datafusion as lm
from tests.side_by_side import (
    PATHS,
    assert_same,
    make_table,
    new_session,
    outcome,
    shown,
    two_sessions,
    write_table,
)

QUERY = "SELECT id, name, x FROM a WHERE x > 4 AND name = 'ann'"
WITH_MEMORY = "SELECT a.id, a.x, m.tag FROM a JOIN m ON a.id = m.id WHERE a.x > 0"


def _from_sql(session):
    return session.sql(QUERY)


def _from_methods(session):
    frame = session.table("a").filter(col("x") > lit(4.0), col("name") == lit("ann"))
    return frame.select("id", "name", "x")


def _joined_by_sql(session):
    return session.sql(WITH_MEMORY)


def _joined_by_methods(session):
    frame = session.table("a").filter(col("x") > lit(0.0))
    other = session.table("m").with_column_renamed("id", "m_id")
    return frame.join(other, left_on="id", right_on="m_id")


def _derived_from_sql(session):
    return session.sql(WITH_MEMORY).select("tag", "x", "id")


def _through_a_view(session):
    session.sql("CREATE OR REPLACE VIEW v AS SELECT a.id, x, tag FROM a JOIN m ON a.id = m.id")
    return session.sql("SELECT id, x, tag FROM v WHERE x > 0")


def _through_a_view_of_one_table(session):
    session.sql("CREATE OR REPLACE VIEW v AS SELECT id, x AS y FROM a WHERE grp < 3")
    return session.sql("SELECT * FROM v WHERE y > 0 AND id > 3")


def _through_a_registered_view(session):
    session.deregister_table("seen")
    session.register_view("seen", session.table("a").filter(col("x") > lit(0.0)))
    return session.sql("SELECT id, x FROM seen WHERE id > 3")


def _explained(session):
    return session.sql("EXPLAIN SELECT tag FROM m WHERE id > 3")


FRAMES = {
    made.__name__.strip("_"): made
    for made in (
        _from_sql,
        _from_methods,
        _joined_by_sql,
        _joined_by_methods,
        _derived_from_sql,
        _through_a_view,
        _through_a_view_of_one_table,
        _through_a_registered_view,
        _explained,
    )
}


def _dropped(session, folder):
    session.deregister_table("a")
    session.deregister_table("m")


def _dropped_by_sql(session, folder):
    session.sql("DROP TABLE a")
    session.sql("DROP TABLE m")


def _registered_again(session, folder):
    _dropped(session, folder)
    session.register_parquet("a", str(folder / "b.parquet"))
    session.from_pydict({"id": [7, 8, None], "tag": ["new p", "new q", "new r"]}, name="m")


def _replaced_by_memory(session, folder):
    _dropped(session, folder)
    session.from_arrow(pq.read_table(folder / "b.parquet"), name="a")
    session.from_pydict({"id": [7, 8, None], "tag": ["new p", "new q", "new r"]}, name="m")


def _replaced_by_sql(session, folder):
    location = folder / "b.parquet"
    session.sql(f"CREATE OR REPLACE EXTERNAL TABLE a STORED AS PARQUET LOCATION '{location}'")
    session.sql("CREATE OR REPLACE TABLE m AS SELECT id, 'other' AS tag FROM b")


def _replaced_by_the_catalog(session, folder):
    schema = session.catalog().schema()
    other = session.table_provider("b")
    session.from_pydict({"id": [7, 8, None], "tag": ["new p", "new q", "new r"]}, name="m2")
    memory = session.table_provider("m2")
    for name, table in (("a", other), ("m", memory)):
        schema.deregister_table(name)
        schema.register_table(name, table)


def _a_view_now(session, folder):
    _dropped_by_sql(session, folder)
    session.sql("CREATE VIEW a AS SELECT * FROM b WHERE id > 5")
    session.sql("CREATE VIEW m AS SELECT 7 AS id, 'seen' AS tag")


def _rows_inserted(session, folder):
    session.sql("INSERT INTO m VALUES (9, 's'), (10, 't')").collect()


def _setting(session, folder):
    session.sql("SET datafusion.execution.batch_size = 7")


def _default_schema(session, folder):
    session.sql("CREATE SCHEMA s")
    location = folder / "b.parquet"
    session.sql(f"CREATE EXTERNAL TABLE s.a STORED AS PARQUET LOCATION '{location}'")
    session.sql("CREATE TABLE s.m AS SELECT id, 'other' AS tag FROM b")
    session.sql("SET datafusion.catalog.default_schema = 's'")


def _file_replaced(session, folder):
    write_table(make_table("another", 200), folder / "a.parquet")


def _file_of_another_schema(session, folder):
    table = make_table("another", 200)
    table = table.set_column(0, "id", table["id"].cast(pa.int32())).drop(["grp"])
    write_table(table.append_column("more", pa.nulls(200)), folder / "a.parquet")


CHANGES = {
    made.__name__.strip("_"): made
    for made in (
        _dropped,
        _dropped_by_sql,
        _registered_again,
        _replaced_by_memory,
        _replaced_by_sql,
        _replaced_by_the_catalog,
        _a_view_now,
        _rows_inserted,
        _setting,
        _default_schema,
        _file_replaced,
        _file_of_another_schema,
    )
}


@pytest.mark.parametrize("path", ["late"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_between_a_frame_and_its_runs(change, path):
    for name, made in FRAMES.items():
        with two_sessions(path) as (plain, ours):
            results = []
            for session, folder in (plain, ours):
                early = made(session)
                used = made(session)
                before = outcome(lambda *_, frame=used: frame, session, folder)
                CHANGES[change](session, folder)
                results.append(
                    [
                        before,
                        outcome(lambda *_, frame=early: frame, session, folder),
                        outcome(lambda *_, frame=used: frame, session, folder),
                        outcome(lambda *_, frame=early: frame, session, folder),
                        outcome(lambda s, _, made=made: made(s), session, folder),
                        outcome("SELECT * FROM v WHERE id > 9", session, folder),
                        outcome(QUERY, session, folder),
                    ]
                )
            assert results[1] == results[0], name


@pytest.mark.parametrize("path", PATHS)
def test_a_new_file_in_a_folder(path):
    def register(session, folder):
        (folder / "parts").mkdir()
        write_table(make_table("one", 100), folder / "parts" / "1.parquet")
        session.register_parquet("parts", str(folder / "parts"))

    query = "SELECT id, x FROM parts WHERE x > 3 AND name = 'ann'"

    def step(session, folder):
        frame = session.sql(query)
        by_methods = session.table("parts").filter(col("x") > lit(3.0))
        found = [shown(frame), shown(by_methods)]
        write_table(make_table("two", 100), folder / "parts" / "2.parquet")
        found += [shown(frame), shown(by_methods), shown(session.sql(query))]
        (folder / "parts" / "1.parquet").unlink()
        return [*found, outcome(lambda *_: frame, session, folder)]

    assert_same(path, register, step, query)


def _function(value):
    return udf(
        lambda given: pa.array([value] * len(given), pa.int64()),
        [pa.int64()],
        pa.int64(),
        "immutable",
        "heard",
    )


@pytest.mark.parametrize("path", PATHS)
def test_a_function_registered_again(path):
    def step(session, _):
        session.register_udf(_function(1))
        session.sql("CREATE VIEW v AS SELECT heard(id) AS k, x FROM a")
        frames = [
            session.sql("SELECT heard(id) AS k, x FROM a WHERE x > 5"),
            session.sql("SELECT heard(id) AS k, x FROM a WHERE x > 5").select("k"),
            session.table("a").filter(col("x") > lit(5.0)).select(_function(1)(col("id"))),
            session.sql("SELECT k FROM v WHERE x > 5"),
        ]
        session.register_udf(_function(2))
        return [*map(shown, frames), shown(session.sql("SELECT k FROM v WHERE x > 5"))]

    assert_same(path, step)


class Names(catalog.SchemaProvider):
    """Tables that are what a dictionary says at the time."""

    def __init__(self, tables):
        self.tables = tables

    def table_names(self):
        return set(self.tables)

    def table(self, name):
        return self.tables.get(name)

    def table_exist(self, name):
        return name in self.tables


class Schemas(catalog.CatalogProvider):
    """One schema."""

    def __init__(self, schema):
        self.only = schema

    def schema_names(self):
        return {"s"}

    def schema(self, name):
        return self.only if name == "s" else None


@pytest.mark.parametrize("path", PATHS)
def test_a_catalog_of_the_users_own_changes_without_a_word(path):
    def step(session, folder):
        session.register_parquet("other", str(folder / "b.parquet"))
        tables = {"t": session.table_provider("a")}
        session.register_catalog_provider("own", Schemas(Names(tables)))
        query = "SELECT id, x FROM own.s.t WHERE x > 5"
        frame = session.sql(query)
        found = [shown(frame)]
        tables["t"] = session.table_provider("other")
        return [*found, shown(frame), shown(session.sql(query)), sorted(tables)]

    assert_same(path, step)


def test_a_default_catalog_of_the_users_own_is_left_as_it_is():
    with two_sessions("late") as (_, (_, folder)):
        results = []
        for path in (None, "late"):
            session = new_session(path, folder)
            tables = {"t": session.table_provider("a")}
            session.register_catalog_provider("own", Schemas(Names(tables)))
            session.sql("SET datafusion.catalog.default_catalog = 'own'")
            session.sql("SET datafusion.catalog.default_schema = 's'")
            frame = session.sql("SELECT id, x FROM t WHERE x > 5")
            results.append([shown(frame), sorted(tables)])
        assert results[1] == results[0]


def test_reports_say_native_when_datafusions_own_frame_runs():
    with two_sessions("late") as (_, (session, folder)):
        frame = session.sql(QUERY)
        frame.collect()
        assert [report.path for report in session.scan_reports()] == ["late"]
        _registered_again(session, folder)
        frame.collect()
        assert {report.path for report in session.scan_reports()} <= {"native"}
        session.sql(QUERY, lm.ScanOptions(path="late")).collect()
        assert [report.path for report in session.scan_reports()] == ["late"]
