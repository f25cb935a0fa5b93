"""The condition cache: the first run of a query, the second, and without it.

    python -m tests.benchmark.bench_condition_cache [--rows 2000000] [--repeats 7]
        [--queries needle,like]

The file and the queries are those of `bench_scan`. Contenders take turns: "off" never asks the
cache; "first" finds it empty and fills it, so that its time over "off" is what filling costs;
"second" finds the answers of a first run. Answers are compared before anything is timed. Behind
each query: bytes read by the first and the second run, and what the cache holds for it.
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile
from typing import TYPE_CHECKING

import pyarrow as pa

import lm_datafusion as lm
from tests.benchmark.bench_scan import QUERIES, THREADS, write_file
from tests.benchmark.timing import interleave, show

if TYPE_CHECKING:
    from collections.abc import Callable


def contenders(path: str, name: str) -> dict[str, Callable[[], pa.Table]]:
    columns, condition, _ = QUERIES[name]
    names = None if columns == ["*"] else columns
    without = lm.dataset(path, options=lm.ScanOptions(threads=THREADS, condition_cache_bytes=0))
    cached = lm.dataset(path, options=lm.ScanOptions(threads=THREADS))

    def first() -> pa.Table:
        lm.clear_condition_cache()
        return cached.to_table(columns=names, filter=condition)

    return {
        "off": lambda: without.to_table(columns=names, filter=condition),
        "first": first,
        # Takes its turn behind "first" or "off", which leave the answers of a first run there.
        "second": lambda: cached.to_table(columns=names, filter=condition),
    }


def bytes_read(path: str, name: str) -> tuple[int, int]:
    columns, condition, _ = QUERIES[name]
    dataset = lm.dataset(path, options=lm.ScanOptions(threads=THREADS))
    lm.clear_condition_cache()
    for _ in range(2):
        dataset.to_table(columns=None if columns == ["*"] else columns, filter=condition)
    first, second = (report.bytes_scanned for report in dataset.scan_reports())
    return first, second


def main() -> None:
    parser = argparse.ArgumentParser(description="What the condition cache saves and costs.")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--queries", default=",".join(QUERIES), help="names, comma-separated")
    arguments = parser.parse_args()
    pa.set_cpu_count(THREADS)
    with tempfile.TemporaryDirectory(prefix="lm-bench-") as folder:
        path = str(pathlib.Path(folder) / "events.parquet")
        write_file(path, arguments.rows)
        print(f"{arguments.rows:,} rows, {THREADS} threads")
        for name in arguments.queries.split(","):
            runs = contenders(path, name)
            answers = [run() for run in runs.values()]
            assert all(answer == answers[0] for answer in answers)
            title = f"{name}: {QUERIES[name][1]} ({answers[0].num_rows:,} rows)"
            show(title, interleave(runs, arguments.repeats), "off")
            first, second = bytes_read(path, name)
            held = lm.condition_cache_bytes()
            print(f"  read {first:,} bytes, then {second:,}; the cache holds {held:,} bytes")


if __name__ == "__main__":
    main()
