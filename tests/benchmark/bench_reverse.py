"""The newest rows that match: `WHERE code = 7 ORDER BY ts DESC LIMIT n` on a file sorted by `ts`.

    python -m tests.benchmark.bench_reverse [--rows 10000000] [--repeats 5] [--counts 10,1000]

Contenders: DataFusion's own Parquet reader with filter pushdown off and on, DuckDB, and this
package as a dataset: `reverse` with a limit, which trusts that the file is sorted, and `order_by`,
which goes by bounds and would be right on any file. All on two threads, file in the page cache,
answers compared before anything is timed. They take turns.

For each: time, time until the first batch, and bytes read (from the process's own counter; what
several engines read on the way is theirs to decide). Row groups of 1,000,000 rows, pages of
20,000, a page index; one row in a hundred passes the filter. The file is made in a temporary
folder and removed.
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile
import time
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from datafusion import SessionConfig, SessionContext

import lm_datafusion as lm
from tests.benchmark.timing import interleave, show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

THREADS = 2
GROUP_ROWS = 1_000_000
CONDITION = "code = 7"
COLUMNS = ["ts", "code", "user_id", "url", "amount", "share"]
DATAFUSION, PUSHDOWN = "DataFusion", "DataFusion pushdown"


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


def native(path: str, *, pushdown: bool) -> SessionContext:
    config = SessionConfig().with_target_partitions(THREADS)
    config = config.set("datafusion.execution.parquet.pushdown_filters", str(pushdown).lower())
    config = config.set("datafusion.execution.parquet.reorder_filters", str(pushdown).lower())
    context = SessionContext(config)
    context.register_parquet("t", path)
    return context


def streams(path: str, count: int) -> dict[str, Callable[[], Iterator[pa.RecordBatch]]]:
    """Each contender as a stream of batches."""
    columns = ", ".join(COLUMNS)
    order = f"WHERE {CONDITION} ORDER BY ts DESC LIMIT {count}"
    sql = f"SELECT {columns} FROM t {order}"
    plain, pushed = native(path, pushdown=False), native(path, pushdown=True)
    duck = duckdb.connect(config={"threads": THREADS})
    late = lm.dataset(path, options=lm.ScanOptions(threads=THREADS))
    wanted = {"columns": COLUMNS, "filter": CONDITION, "limit": count}

    def through(context: SessionContext) -> Iterator[pa.RecordBatch]:
        for batch in context.sql(sql).execute_stream():
            yield batch.to_pyarrow()

    def through_duck() -> Iterator[pa.RecordBatch]:
        query = f"SELECT {columns} FROM read_parquet('{path}') {order}"
        yield from duck.sql(query).to_arrow_reader(131_072)

    return {
        DATAFUSION: lambda: through(plain),
        PUSHDOWN: lambda: through(pushed),
        "DuckDB": through_duck,
        "lm reverse": lambda: late.to_batches(**wanted, reverse=True),
        "lm order_by": lambda: late.to_batches(**wanted, order_by=[("ts", "descending")]),
    }


def first_batch(stream: Callable[[], Iterator[pa.RecordBatch]]) -> None:
    next(iter(stream()))


def bytes_read(stream: Callable[[], Iterator[pa.RecordBatch]]) -> int:
    before = _read_counter()
    for _ in stream():
        pass
    return _read_counter() - before


def _read_counter() -> int:
    with open("/proc/self/io") as file:
        return int(file.readline().split()[1])


def check(runs: dict[str, Callable[[], Iterator[pa.RecordBatch]]]) -> None:
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
        size = pathlib.Path(path).stat().st_size
        made = time.perf_counter() - started
        print(f"{arguments.rows:,} rows, {size / 1e6:.0f} MB, made in {made:.0f} s")
        for count in map(int, arguments.counts.split(",")):
            runs = streams(path, count)
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


if __name__ == "__main__":
    main()
