"""The newest rows that match: `WHERE code = 7 ORDER BY ts DESC LIMIT n` on a file sorted by `ts`.

    python -m tests.benchmark.bench_reverse [--rows 10000000] [--repeats 5] [--counts 10,1000]

Contenders: DataFusion's own Parquet reader with filter pushdown off and on, DuckDB, and this
package: as SQL, where it chooses how to read, and as a dataset, `reverse` with a limit, which
trusts that the file is sorted, and `order_by`, which goes by bounds and would be right on any
file. All on two threads, file in the page cache, answers compared before anything is timed. They
take turns.

For each: time, time until the first batch, bytes read (from the process's own counter; what an
engine reads on the way is its to decide), and by how much a new process grows while it answers
(the largest of three). Row groups of 1,000,000 rows, pages of 20,000, a page index; one row in a
hundred passes the filter. The file is made in a temporary folder and removed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import pathlib
import tempfile
import time
from typing import TYPE_CHECKING, TypeAlias

import duckdb
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from datafusion import SessionConfig, SessionContext

import lm_datafusion as lm
from clickbench.usage import Meter
from tests.benchmark.timing import interleave, show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

THREADS = 2
GROUP_ROWS = 1_000_000
CONDITION = "code = 7"
COLUMNS = ["ts", "code", "user_id", "url", "amount", "share"]
DATAFUSION = "DataFusion"
NAMES = (DATAFUSION, "DataFusion pushdown", "DuckDB", "lm SQL", "lm reverse", "lm order_by")
Stream: TypeAlias = "Callable[[], Iterator[pa.RecordBatch]]"


def write_file(path: str, rows: int) -> None:
    rng = np.random.default_rng(11)
    writer = None
    for start in range(0, rows, GROUP_ROWS):
        count = min(GROUP_ROWS, rows - start)
        moments = np.arange(start, start + count) * 1000 + rng.integers(0, 1000, count)
        table = pa.table(
            {
                "ts": pa.array(moments).cast(pa.timestamp("us")),
                "code": rng.integers(0, 100, count).astype(np.int32),
                "user_id": rng.integers(0, 1 << 40, count),
                "url": np.char.add(
                    "https://shop/item/", rng.integers(0, 50_000, count).astype(str)
                ),
                "amount": rng.random(count),
                "share": rng.random(count),
            }
        )
        writer = writer or pq.ParquetWriter(
            path, table.schema, write_page_index=True, max_rows_per_page=20_000
        )
        writer.write_table(table, row_group_size=GROUP_ROWS)
    writer.close()


def through_session(context: SessionContext, path: str, count: int) -> Stream:
    context.register_parquet("t", path)
    sql = f"SELECT {', '.join(COLUMNS)} FROM t {first_rows(count)}"

    def stream() -> Iterator[pa.RecordBatch]:
        for batch in context.sql(sql).execute_stream():
            yield batch.to_pyarrow()

    return stream


def first_rows(count: int) -> str:
    return f"WHERE {CONDITION} ORDER BY ts DESC LIMIT {count}"


def make_stream(name: str, path: str, count: int) -> Stream:
    """A contender as a stream of batches."""
    config = SessionConfig().with_target_partitions(THREADS)
    options = lm.ScanOptions(threads=THREADS, condition_cache_bytes=0)
    match name:
        case "DataFusion":
            return through_session(SessionContext(config), path, count)
        case "DataFusion pushdown":
            for word in ("pushdown_filters", "reorder_filters"):
                config = config.set(f"datafusion.execution.parquet.{word}", "true")
            return through_session(SessionContext(config), path, count)
        case "lm SQL":
            return through_session(lm.SessionContext(config, options=options), path, count)
        case "DuckDB":
            duck = duckdb.connect(config={"threads": THREADS})
            query = f"SELECT {', '.join(COLUMNS)} FROM read_parquet('{path}') {first_rows(count)}"
            return lambda: iter(duck.sql(query).to_arrow_reader(131_072))
    late = lm.dataset(path, options=options)
    how = {"reverse": True} if name == "lm reverse" else {"order_by": [("ts", "descending")]}
    return lambda: late.to_batches(columns=COLUMNS, filter=CONDITION, limit=count, **how)


def first_batch(stream: Stream) -> None:
    next(iter(stream()))


def grown_bytes(name: str, path: str, small: str, count: int) -> int:
    """By how much a process grows at most while it answers for the first time.

    Over a small file it has answered before, so that libraries are loaded.
    """
    pa.set_cpu_count(THREADS)
    for _ in make_stream(name, small, count)():
        pass
    stream = make_stream(name, path, count)
    meter, before = Meter(), psutil.Process().memory_info().rss
    meter.start()
    for _ in stream():
        pass
    return meter.stop().peak_bytes - before


def show_growth(path: str, small: str, count: int) -> None:
    print(f"\n{count:,} rows, growth of a new process")
    for name in NAMES:
        with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
            grown = max(pool.apply(grown_bytes, (name, path, small, count)) for _ in range(3))
        print(f"  {name:24}{grown / 1e6:10.1f} MB")


def bytes_read(stream: Stream) -> int:
    before = _read_counter()
    for _ in stream():
        pass
    return _read_counter() - before


def _read_counter() -> int:
    with open("/proc/self/io") as file:
        return int(file.readline().split()[1])


def check(runs: dict[str, Stream]) -> None:
    answers = {
        name: pa.Table.from_batches(run())["ts"].cast(pa.int64()).to_pylist()
        for name, run in runs.items()
    }
    assert len({tuple(answer) for answer in answers.values()}) == 1, "the answers differ"


def main() -> None:
    parser = argparse.ArgumentParser(description="The newest rows that match.")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--counts", default="10,1000,10000,50000", help="rows, comma-separated")
    arguments = parser.parse_args()
    pa.set_cpu_count(THREADS)
    with tempfile.TemporaryDirectory(prefix="lm-bench-") as folder:
        path = str(pathlib.Path(folder) / "events.parquet")
        started = time.perf_counter()
        write_file(path, arguments.rows)
        small = str(pathlib.Path(folder) / "small.parquet")
        write_file(small, 1_000)
        size = pathlib.Path(path).stat().st_size
        made = time.perf_counter() - started
        print(f"{arguments.rows:,} rows, {size / 1e6:.0f} MB, made in {made:.0f} s")
        for count in map(int, arguments.counts.split(",")):
            runs = {name: make_stream(name, path, count) for name in NAMES}
            check(runs)
            whole = {name: (lambda run=run: list(run())) for name, run in runs.items()}
            show(f"{count:,} rows, all of them", interleave(whole, arguments.repeats), DATAFUSION)
            soon = {name: (lambda run=run: first_batch(run)) for name, run in runs.items()}
            title = f"{count:,} rows, until the first batch"
            show(title, interleave(soon, arguments.repeats), DATAFUSION)
            print(f"\n{count:,} rows, bytes read")
            for name, run in runs.items():
                read = bytes_read(run)
                print(f"  {name:24}{read:14,}{read / size:10.1%} of the file")
            show_growth(path, small, count)


if __name__ == "__main__":
    main()
