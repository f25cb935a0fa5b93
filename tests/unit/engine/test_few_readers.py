from __future__ import annotations

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import SessionConfig

import lm_datafusion as lm
from lm_datafusion.engine.few_readers import few_readers

AT_A_TIME = "datafusion.execution.meta_fetch_concurrency"


@pytest.fixture
def path(tmp_path):
    pq.write_table(pa.table({"a": [1, 2, 3]}), tmp_path / "0.parquet")
    return str(tmp_path / "0.parquet")


def session(made=datafusion.SessionContext, **settings):
    return made(SessionConfig({AT_A_TIME: "32", **settings}).with_target_partitions(3))


def at_a_time(context):
    copy = datafusion.SessionContext(context.copied_config().with_information_schema())
    return int(copy.sql(f"SHOW {AT_A_TIME}").to_pylist()[0]["value"])


@pytest.mark.parametrize("place", ["/data/*.parquet", "data", "file:///data/", "LOCATION 'x'"])
def test_no_more_than_partitions_within_the_block(place):
    context = session()
    with few_readers(context, place):
        assert at_a_time(context) == 3
    assert at_a_time(context) == 32


def test_an_error_leaves_the_setting_as_it_was():
    context = session()
    with pytest.raises(ZeroDivisionError), few_readers(context, "data"):
        raise ZeroDivisionError
    assert at_a_time(context) == 32


def test_fewer_stay_fewer():
    context = session(**{AT_A_TIME: "2"})
    with few_readers(context, "data"):
        assert at_a_time(context) == 2
    assert at_a_time(context) == 2


@pytest.mark.parametrize("place", ["s3://bucket/data/", "LOCATION 'https://host/a.parquet'"])
def test_files_elsewhere_are_read_many_at_a_time(place):
    context = session()
    with few_readers(context, place):
        assert at_a_time(context) == 32


@pytest.mark.parametrize("method", ["register_parquet", "register_listing_table", "read_parquet"])
def test_methods_that_look_into_files(path, method, monkeypatch):
    seen = []
    original = getattr(datafusion.SessionContext, method)

    def watched(self, *arguments, **settings):
        seen.append(at_a_time(self))
        return original(self, *arguments, **settings)

    monkeypatch.setattr(datafusion.SessionContext, method, watched)
    context = session(lm.SessionContext)
    made = getattr(context, method)(*(["t"] if method != "read_parquet" else []), path)
    frame = context.table("t") if made is None else made
    assert frame.to_pydict() == {"a": [1, 2, 3]}
    assert seen == [3]
    assert at_a_time(context) == 32


@pytest.mark.parametrize(
    "words",
    [
        "CREATE EXTERNAL TABLE",
        "create  external table if not exists",
        "\nCREATE OR REPLACE EXTERNAL TABLE",
    ],
)
def test_external_tables(path, words, monkeypatch):
    seen = []
    original = datafusion.SessionContext.sql

    def watched(self, query, *arguments, **settings):
        if "LOCATION" in query:
            seen.append(at_a_time(self))
        return original(self, query, *arguments, **settings)

    context = session(lm.SessionContext)
    monkeypatch.setattr(datafusion.SessionContext, "sql", watched)
    context.sql(f"{words} t STORED AS PARQUET LOCATION '{path}'")
    assert context.sql("SELECT a FROM t").to_pydict() == {"a": [1, 2, 3]}
    assert seen == [3]
    assert at_a_time(context) == 32
