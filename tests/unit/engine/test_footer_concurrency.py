from __future__ import annotations

import os

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import SessionConfig, udf

import lm_datafusion as lm
from lm_datafusion.engine.catalog import SessionCatalog
from lm_datafusion.engine.footer_concurrency import with_footer_concurrency

AT_A_TIME = "datafusion.execution.meta_fetch_concurrency"


@pytest.fixture
def folder(tmp_path):
    for number in range(3):
        pq.write_table(pa.table({"a": [number]}), tmp_path / f"{number}.parquet")
    return tmp_path


@pytest.fixture(autouse=True)
def cores(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 3)


def session(made=datafusion.SessionContext, at_a_time=32):
    return made(SessionConfig({AT_A_TIME: str(at_a_time)}).with_target_partitions(1))


def at_a_time(context):
    copy = datafusion.SessionContext(context.copied_config().with_information_schema())
    return int(copy.sql(f"SHOW {AT_A_TIME}").to_pylist()[0]["value"])


@pytest.mark.parametrize("form", ["{}", "{}/", "{}/*.parquet", "file://{}/"])
def test_no_more_at_a_time_than_cores(folder, form):
    context = session()
    other = with_footer_concurrency(SessionCatalog(context), form.format(folder))
    assert at_a_time(other) == 3
    assert at_a_time(context) == 32
    other.register_parquet("t", form.format(folder))
    assert context.sql("SELECT sum(a) AS n FROM t").to_pydict() == {"n": [3]}


def test_fewer_stay_fewer(folder):
    context = session(at_a_time=2)
    assert with_footer_concurrency(SessionCatalog(context), folder) is context


@pytest.mark.parametrize("url", ["s3://bucket/data/", "https://host/data/"])
def test_files_elsewhere_are_read_many_at_a_time(url):
    context = session()
    assert with_footer_concurrency(SessionCatalog(context), url) is context


def test_one_file_needs_no_care(folder):
    context = session()
    assert with_footer_concurrency(SessionCatalog(context), folder / "0.parquet") is context


@pytest.mark.parametrize("method", ["register_parquet", "register_listing_table"])
def test_methods_that_look_into_files(folder, method, monkeypatch):
    seen = []
    original = getattr(datafusion.SessionContext, method)

    def watched(self, *arguments, **settings):
        seen.append(at_a_time(self))
        return original(self, *arguments, **settings)

    monkeypatch.setattr(datafusion.SessionContext, method, watched)
    context = session(lm.SessionContext)
    getattr(context, method)("t", folder)
    getattr(context, method)(name="u", path=str(folder))
    query = "SELECT t.a FROM t JOIN u ON t.a = u.a ORDER BY 1"
    assert context.sql(query).to_pydict() == {"a": [0, 1, 2]}
    assert seen == [3, 3]
    assert at_a_time(context) == 32


def test_functions_of_the_session_stay(folder):
    # DataFusion makes `now` again in a session where a setting changes.
    context = session(lm.SessionContext)
    clock = udf(lambda: pa.array([1]), [], pa.int64(), "stable", name="now")
    context.register_udf(clock)
    context.register_parquet("t", folder)
    assert context.sql("SELECT count(*) AS n FROM t WHERE a < now()").to_pydict() == {"n": [1]}
    context.deregister_udf("now")
    context.register_parquet("u", folder)
    with pytest.raises(Exception, match="now"):
        context.sql("SELECT now()")


@pytest.mark.parametrize("made", [datafusion.SessionContext, lm.SessionContext])
def test_what_a_table_needs_of_its_session(folder, made):
    context = session(made)
    context.sql("CREATE SCHEMA other")
    context.sql("SET datafusion.catalog.default_schema = 'other'")
    context.register_parquet("t", folder)
    assert context.sql("SELECT count(*) AS n FROM datafusion.other.t").to_pydict() == {"n": [3]}
    with pytest.raises(Exception, match="already exists"):
        context.register_parquet("t", folder)
    with pytest.raises(Exception, match="nowhere"):
        context.register_parquet("v", folder / "nowhere.parquet")


@pytest.mark.parametrize("made", [datafusion.SessionContext, lm.SessionContext])
def test_a_default_catalog_that_is_missing_stays_missing(folder, made):
    context = session(made)
    context.sql("SET datafusion.catalog.default_catalog = 'nowhere'")
    context.register_parquet("datafusion.public.t", folder)
    with pytest.raises(Exception, match="nowhere"):
        context.register_parquet("u", folder)
    assert context.catalog_names() == {"datafusion"}
