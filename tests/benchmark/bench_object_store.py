"""Queries over an object store 40 ms away, against DataFusion's own reader.

    python -m tests.benchmark.bench_object_store [--turns 7] [--latency-ms 40] [--queries a,b]
        [--bandwidth 100e6] [--partitions 2,32]

SeaweedFS behind the tests' proxy, which adds latency, limits the bandwidth of all connections
together if asked to, and counts requests and bytes. Every run begins with cold metadata: ours
forgets its caches, DataFusion gets a new session. Contenders take turns; the median counts. "best"
is the fastest setting of DataFusion. The numbers of rows are compared.

The log has 500,000 rows: a sorted time, status, url, user, two texts and four numbers; row groups
of 100,000 rows in one file, and the same rows in 20 files.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import statistics
import tempfile
import time

import numpy as np
import obstore
import pyarrow as pa
import pyarrow.parquet as pq
from datafusion import SessionConfig, SessionContext
from datafusion.object_store import AmazonS3

import lm_datafusion as lm
from lm_datafusion.formats.cache import FACTS
from lm_datafusion.scan.memory.footer_answers import ANSWERS
from lm_datafusion.scan.memory.stage_outcomes import OUTCOMES
from lm_datafusion.scan.memory.step_history import STEPS
from lm_datafusion.storage.kept_tails import TAILS
from tests.store_proxy import running_proxy
from tests.store_servers import BUCKET, free_port, running_seaweedfs, s3_settings, s3_store

ROWS = 500_000
USER = 77_777
DAY_MS = 86_400_000
NARROW = ["event_time", "status", "url", "user_id", "payload"]
ERRORS = "status = 503 AND url LIKE '%/checkout/%'"
TIME = (
    "event_time >= TIMESTAMP '2024-01-20T00:00:00' AND event_time < TIMESTAMP '2024-01-20T12:00:00'"
)
# Name: where, columns, condition, whether it is selective.
QUERIES = {
    "one file, status and url": ("log.parquet", NARROW, ERRORS, True),
    "one file, time": ("log.parquet", NARROW, TIME, True),
    "20 files, status and url": ("many/", NARROW, ERRORS, True),
    "20 files, time": ("many/", NARROW, TIME, True),
    "20 files, one user": ("many/", NARROW, f"user_id = {USER}", True),
    "20 files, half of two": ("many/", ["bytes_sent", "took_ms"], "status = 200", False),
    "one file, agent": ("log.parquet", ["url", "agent", "payload"], "agent LIKE '%bot 7%'", True),
}


def log_table() -> pa.Table:
    rng = np.random.default_rng(11)
    start = np.datetime64("2024-01-01T00:00:00", "ms").astype(np.int64)
    times = np.sort(rng.integers(0, 60 * DAY_MS, ROWS)) + start
    pages = np.array([f"/shop/{a}/item/{b}" for a in range(50) for b in range(40)])
    urls = pages[rng.integers(0, len(pages), ROWS)]
    paid = rng.random(ROWS) < 0.02
    urls = np.where(paid, np.char.add("/checkout/", rng.integers(0, 10**6, ROWS).astype(str)), urls)
    payload = [value.hex() for value in np.split(np.frombuffer(rng.bytes(8 * ROWS), "S8"), 1)[0]]
    agents = np.array([f"agent {a} {'bot' if a % 9 == 0 else 'user'} {a % 80}" for a in range(400)])
    return pa.table(
        {
            "event_time": pa.array(times, pa.timestamp("ms")),
            "status": rng.choice([200, 301, 404, 503], ROWS, p=[0.5, 0.3, 0.18, 0.02]),
            "url": urls,
            "user_id": rng.integers(0, 200_000, ROWS),
            "agent": agents[rng.integers(0, len(agents), ROWS)],
            "payload": payload,
            "bytes_sent": rng.integers(0, 10**6, ROWS),
            "took_ms": rng.random(ROWS),
            "score": rng.random(ROWS),
            "shard": rng.integers(0, 64, ROWS),
        }
    )


def upload(store) -> None:
    table = log_table()
    put(store, "log.parquet", table)
    for number in range(20):
        put(store, f"many/part-{number:02d}.parquet", table.slice(number * ROWS // 20, ROWS // 20))


def put(store, key: str, table: pa.Table) -> None:
    target = io.BytesIO()
    pq.write_table(
        table, target, row_group_size=100_000, write_page_index=True, data_page_size=64 << 10
    )
    print(f"{key}: {len(target.getvalue()) / 1e6:.1f} MB") if "00" in key or "log" in key else None
    obstore.put(store, key, target.getvalue())


def forget() -> None:
    for cache in (FACTS, TAILS, OUTCOMES, STEPS, ANSWERS):
        cache.clear()


def ours(port: int, where: str, columns: list[str], condition: str) -> pa.Table:
    forget()
    options = lm.ScanOptions(condition_cache_bytes=0, threads=2)
    # A new store each time, as a new process would have.
    table = lm.dataset(f"s3://{BUCKET}/{where}", storage=s3_store(port), options=options)
    return table.to_table(columns=columns, filter=condition)


def datafusions(port: int, partitions: int, pushdown: bool):
    def run(where: str, columns: list[str], condition: str) -> pa.Table:
        flag = str(pushdown).lower()
        context = SessionContext(
            SessionConfig(
                {
                    "datafusion.execution.parquet.pushdown_filters": flag,
                    "datafusion.execution.parquet.reorder_filters": flag,
                    "datafusion.execution.target_partitions": str(partitions),
                }
            )
        )
        settings = s3_settings(port)
        del settings["virtual_hosted_style_request"]
        store = AmazonS3(bucket_name=BUCKET, allow_http=True, **settings)
        context.register_object_store("s3://", store, BUCKET)
        context.register_parquet("t", f"s3://{BUCKET}/{where}")
        return context.sql(f"SELECT {', '.join(columns)} FROM t WHERE {condition}").to_arrow_table()

    return run


def measure(queries, contenders, proxy, turns: int, bandwidth: float) -> None:
    label = f"{bandwidth / 1e6:.0f} MB/s in all" if bandwidth else "no limit"
    print(f"\n{label}; ms / requests / MB")
    for name, (where, columns, condition, _) in queries.items():
        times = {contender: [] for contender in contenders}
        seen = {}
        rows = set()
        for turn in range(turns + 1):
            for contender, run in contenders.items():
                proxy.log()
                started = time.perf_counter()
                table = run(where, columns, condition)
                took = time.perf_counter() - started
                logged = proxy.log()
                seen[contender] = logged["requests"], logged["bytes"]
                rows.add(table.num_rows)
                if turn:
                    times[contender].append(took)
        assert len(rows) == 1, (name, rows)
        medians = {contender: statistics.median(found) for contender, found in times.items()}
        best = min((c for c in contenders if c != "ours"), key=medians.__getitem__)
        print(f"{name} ({rows.pop():,} rows)")
        for contender in contenders:
            requests, size = seen[contender]
            mark = f"  {medians['ours'] / medians[best]:.2f} of best" if contender == "ours" else ""
            mark = "  best" if contender == best else mark
            print(
                f"    {contender:20s} {medians[contender] * 1e3:6.0f}"
                f" / {requests:4d} / {size / 1e6:6.2f}{mark}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--latency-ms", type=float, default=40)
    parser.add_argument("--bandwidth", default="0,100e6")
    parser.add_argument("--partitions", default="2,32")
    parser.add_argument("--queries", default="")
    given = parser.parse_args()
    wanted = [name for name in given.queries.split(";") if name]
    queries = {name: QUERIES[name] for name in wanted or QUERIES}
    with contextlib.ExitStack() as opened:
        folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="lm_store_"))
        upstream = opened.enter_context(running_seaweedfs(folder))
        proxy = opened.enter_context(running_proxy(free_port(), upstream))
        upload(s3_store(upstream))
        proxy.set(latency_ms=given.latency_ms)
        contenders = {
            f"DataFusion {word}, {count}": datafusions(proxy.port, int(count), word == "on")
            for word in ("off", "on")
            for count in given.partitions.split(",")
        }
        contenders["ours"] = lambda *query: ours(proxy.port, *query)
        for bandwidth in map(float, given.bandwidth.split(",")):
            proxy.set(bandwidth=bandwidth)
            measure(queries, contenders, proxy, given.turns, bandwidth)


if __name__ == "__main__":
    main()
