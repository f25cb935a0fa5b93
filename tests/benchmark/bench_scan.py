"""A scan against its peers, as ratios in one interleaved run.

    python -m tests.benchmark.bench_scan [--rows 2000000] [--repeats 7] [--queries needle,like]

Contenders: pyarrow.dataset; DataFusion's own Parquet reader with filter pushdown off and on
(filters reordered); this package as a PyArrow dataset; this package as a table in DataFusion. All
on two threads, file in the page cache, answers compared before anything is timed.

The file has 30 columns: a sorted timestamp, low- and high-cardinality strings, integers, doubles;
row groups of 500,000 rows, pages of 20,000 rows, page index, a bloom filter on `user_id`.
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from datafusion import SessionConfig, SessionContext

import lm_datafusion as lm
from tests.benchmark.timing import interleave, show

THREADS = 2
NEEDLE = 10_000_001  # a user with a row of its own, within the bounds of every row group
# Name: columns, condition as SQL, the same for PyArrow.
QUERIES = {
    "needle": (["*"], f"user_id = {NEEDLE}", lambda: pc.field("user_id") == NEEDLE),
    "like": (
        ["url", "ts", "f0", "f1", "i0"],
        "url LIKE '%/cart/99%' AND status = 500",
        lambda: pc.match_substring(pc.field("url"), "/cart/99") & (pc.field("status") == 500),
    ),
    "range": (
        ["ts", "url", "status"],
        "ts >= 1500000 AND ts < 1520000",
        lambda: (pc.field("ts") >= 1500000) & (pc.field("ts") < 1520000),
    ),
    "dictionary": (
        ["url", "i0", "i1", "i2", "f0"],
        "agent LIKE '%bot%'",
        lambda: pc.match_substring(pc.field("agent"), "bot"),
    ),
    "one percent": (["*"], "i0 = 7", lambda: pc.field("i0") == 7),
    "half": (["f0", "f1"], "i0 < 50", lambda: pc.field("i0") < 50),
    "filter only": (["i0"], "i0 = 7", lambda: pc.field("i0") == 7),
}


def write_file(path: str, rows: int) -> None:
    rng = np.random.default_rng(7)
    writer = None
    for start in range(0, rows, 500_000):
        count = min(500_000, rows - start)
        urls = np.char.add("/shop/", rng.integers(0, 50_000, count).astype(str))
        urls = np.where(
            rng.random(count) < 0.02,
            np.char.add("/cart/", rng.integers(0, 1000, count).astype(str)),
            urls,
        )
        agents = np.array([f"browser {n}" for n in range(97)] + ["a bot", "robot", "botnet"])
        columns = {
            "ts": np.arange(start, start + count),
            "user_id": rng.integers(0, 20_000_000, count),
            "status": rng.choice([200, 200, 200, 200, 404, 500], count).astype(np.int32),
            "url": urls,
            "agent": agents[rng.integers(0, 100, count)],
            "comment": np.char.add("comment number ", rng.integers(0, 1 << 40, count).astype(str)),
        }
        if start == rows // 2 // 500_000 * 500_000:
            columns["user_id"][count // 3] = NEEDLE
        columns |= {f"i{n}": rng.integers(0, 100, count) for n in range(12)}
        columns |= {f"f{n}": rng.random(count) for n in range(12)}
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(
            path,
            table.schema,
            write_page_index=True,
            max_rows_per_page=20_000,
            bloom_filter_options={"user_id": {"ndv": 500_000, "fpp": 0.01}},
        )
        writer.write_table(table, row_group_size=500_000)
    writer.close()


def native(path: str, *, pushdown: bool) -> SessionContext:
    config = SessionConfig().with_target_partitions(THREADS)
    config = config.set("datafusion.execution.parquet.pushdown_filters", str(pushdown).lower())
    config = config.set("datafusion.execution.parquet.reorder_filters", str(pushdown).lower())
    context = SessionContext(config)
    context.register_parquet("t", path)
    return context


def contenders(path: str, name: str) -> dict:
    columns, condition, expression = QUERIES[name]
    names = None if columns == ["*"] else columns
    sql = f"SELECT {', '.join(columns)} FROM t WHERE {condition}"
    plain, pushed = native(path, pushdown=False), native(path, pushdown=True)
    late = lm.dataset(path, options=lm.ScanOptions(threads=THREADS))
    hosted = SessionContext(SessionConfig().with_target_partitions(THREADS))
    hosted.register_dataset("t", late)
    arrow, wanted = ds.dataset(path), expression()
    return {
        "pyarrow.dataset": lambda: arrow.to_table(columns=names, filter=wanted),
        "DataFusion": lambda: plain.sql(sql).to_arrow_table(),
        "DataFusion pushdown": lambda: pushed.sql(sql).to_arrow_table(),
        "lm dataset": lambda: late.to_table(columns=names, filter=condition),
        "lm in DataFusion": lambda: hosted.sql(sql).to_arrow_table(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="A scan against its peers.")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--queries", default=",".join(QUERIES), help="names, comma-separated")
    arguments = parser.parse_args()
    pa.set_cpu_count(THREADS)
    with tempfile.TemporaryDirectory(prefix="lm-bench-") as folder:
        path = str(pathlib.Path(folder) / "events.parquet")
        write_file(path, arguments.rows)
        size = pathlib.Path(path).stat().st_size / 1e6
        print(f"{arguments.rows:,} rows, {size:.0f} MB, {THREADS} threads")
        for name in arguments.queries.split(","):
            runs = contenders(path, name)
            counts = {engine: run().num_rows for engine, run in runs.items()}
            assert len(set(counts.values())) == 1, counts
            title = f"{name}: {QUERIES[name][1]} ({next(iter(counts.values())):,} rows)"
            show(title, interleave(runs, arguments.repeats), "DataFusion")


if __name__ == "__main__":
    main()
