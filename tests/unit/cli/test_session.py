from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lm_datafusion.cli.session import CommandSession
from lm_datafusion.errors import FileMissingError, OptionError, SqlError
from lm_datafusion.options import ScanOptions
from tests.orc_files import write as write_orc


@pytest.fixture
def session(tmp_path, monkeypatch):
    """In a folder with a file `data.parquet` and a folder `data`, one row each."""
    monkeypatch.chdir(tmp_path)
    os.mkdir("data")
    pq.write_table(pa.table({"a": [1]}), "data.parquet")
    pq.write_table(pa.table({"a": [2]}), "data/part.parquet")
    return CommandSession([], ScanOptions())


def answer(session, statement):
    schema, batches = session.run(session.with_tables(statement), "")
    return pa.Table.from_batches(batches, schema).to_pylist()


def test_a_statement_without_paths_is_left_as_it_is(session):
    text = "SELECT 'data.parquet' AS x, \"y\" FROM t -- 'data.parquet'"
    assert session.with_tables(text) == text


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT a FROM 'data.parquet'", 1),
        ('SELECT a FROM "data.parquet"', 1),
        ("SELECT data.a FROM 'data.parquet'", 1),
        ("SELECT d.a FROM 'data.parquet' d", 1),
        ("SELECT d.a FROM 'data.parquet' AS d WHERE d.a = 1", 1),
        ("SELECT a FROM 'data'", 2),
        ("SELECT a FROM 'data/'", 2),
        ("SELECT a FROM 'data/*.parquet'", 2),
        ("SELECT part.a FROM 'data/part.parquet' LIMIT 1", 2),
        ("SELECT x.a FROM 'data.parquet', 'data/part.parquet' x", 2),
        ("SELECT data_2.a FROM 'data.parquet', 'data'", 2),
        ("WITH data AS (SELECT 3 AS a) SELECT a FROM data", 3),
        ("WITH data AS (SELECT 3 AS a) SELECT a FROM 'data.parquet'", 1),
        ('WITH "data" AS (SELECT 3 AS a) SELECT a FROM "data"', 3),
        ("WITH data AS (SELECT a + 10 AS a FROM 'data.parquet') SELECT a FROM data", 11),
    ],
)
def test_names_and_paths(session, statement, expected):
    assert answer(session, statement) == [{"a": expected}]


def test_a_view_is_not_hidden_by_a_file(session):
    session.context.sql("CREATE VIEW data AS SELECT 4 AS a").collect()
    session.context.sql('CREATE VIEW "data.parquet" AS SELECT 5 AS a').collect()
    assert answer(session, 'SELECT a FROM "data"') == [{"a": 4}]
    assert answer(session, "SELECT a FROM 'data'") == [{"a": 4}]
    assert answer(session, 'SELECT a FROM "data.parquet"') == [{"a": 5}]
    assert answer(session, "SELECT data.a FROM 'data/part.parquet' data") == [{"a": 2}]


def test_a_path_is_registered_once(session):
    first = session.with_tables("SELECT * FROM 'data.parquet' x JOIN 'data.parquet' y USING (a)")
    assert first.count("__file_1") == 2
    assert "__file_2" in session.with_tables("SELECT * FROM 'data'")


def test_a_name_that_leads_nowhere_is_left_to_datafusion(session):
    with pytest.raises(SqlError, match=r"nowhere\.parquet"):
        answer(session, "SELECT * FROM 'nowhere.parquet'")


def test_names_of_tables():
    with pytest.raises(OptionError, match="one word"):
        CommandSession([("a-b", "x")], ScanOptions())
    with pytest.raises(FileMissingError, match="no file at x"):
        CommandSession([("a", "x")], ScanOptions())


def test_orc_files(session):
    write_orc("some.orc", {"a": [3]})
    write_orc("nameless", {"a": [4]})
    os.mkdir("year=2024")
    write_orc("year=2024/part.orc", {"a": [5]})
    assert answer(session, "SELECT a FROM 'some.orc' WHERE some.a > 2") == [{"a": 3}]
    assert answer(session, "SELECT a FROM 'nameless'") == [{"a": 4}]
    assert answer(session, "SELECT a FROM 'year=*/*.orc'") == [{"a": 5}]
    known = CommandSession([("t", "some.orc")], ScanOptions())
    assert answer(known, "SELECT a FROM t") == [{"a": 3}]


def test_a_folder_of_both_formats(session):
    write_orc("data/more.orc", {"a": [3]})
    with pytest.raises(OptionError, match=r"more\.orc \(ORC\) and .*part\.parquet \(Parquet\)"):
        session.with_tables("SELECT a FROM 'data'")
