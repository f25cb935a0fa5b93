"""A point lookup in a table of many files: how long until it is known what to read.

    python -m tests.benchmark.bench_many_files [--files 100] [--rows 100000] [--repeats 9]

Two lookups, warm (footers and bloom filters were read before): by `key`, which is sorted by file,
so that statistics leave one file; and by `token`, which is not, so that every file's bounds hold
the value, and bloom filters have to say where it is.

Planning is what `to_batches` does before it reads; pruning what is left is the scan itself,
columns and all: it bounds pruning from above. The condition cache is off: it would answer the
second run.

Files opened are counted where they are opened. Those that could match are counted with the bloom
filters themselves, file by file: false positives of the filters are among them.
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile
import time
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lm_datafusion as lm
from lm_datafusion.storage import LocalStorage
from tests.benchmark.timing import interleave

THREADS = 2


def write_files(folder: pathlib.Path, files: int, rows: int) -> None:
    rng = np.random.default_rng(5)
    for number in range(files):
        columns = {
            "key": np.arange(number * rows, (number + 1) * rows),
            "token": rng.integers(0, 1 << 40, rows),
            "value": rng.random(rows),
        }
        pq.write_table(
            pa.table(columns),
            folder / f"part_{number:03}.parquet",
            bloom_filter_options={"token": {"ndv": rows, "fpp": 0.001}},
            use_dictionary=False,
        )


def count_opened(dataset: lm.LateDataset, condition: str) -> tuple[int, int]:
    """Files that a lookup opens, and rows that it finds."""
    paths: set[str] = set()
    opening = LocalStorage.open

    def counted(storage: LocalStorage, version: object) -> object:
        paths.add(version.path)
        return opening(storage, version)

    with mock.patch.object(LocalStorage, "open", counted):
        rows = dataset.to_table(filter=condition).num_rows
    return len(paths), rows


def count_possible(dataset: lm.LateDataset, condition: str) -> int:
    """Files that statistics and bloom filters leave, each asked on its own."""
    count = 0
    for path in dataset.files:
        alone = lm.dataset(path, options=dataset.options)
        alone.to_table(filter=condition)
        report = alone.scan_reports()[-1]
        pruned = report.row_groups_pruned_statistics + report.row_groups_pruned_bloom_filter
        count += pruned < report.row_groups_total
    return count


def lookup(name: str, dataset: lm.LateDataset, condition: str, repeats: int) -> None:
    dataset.to_table(filter=condition)
    opened, rows = count_opened(dataset, condition)
    times = interleave(
        {
            "plan": lambda: dataset.scanner(filter=condition).to_batches(),
            "plan, prune and read": lambda: dataset.to_table(filter=condition),
        },
        repeats,
    )
    print(f"\n{name}: {condition} ({rows} rows)")
    for what, taken in times.items():
        print(f"  {what:24}{taken.wall_ms:8.1f} ms wall{taken.cpu_ms:8.1f} ms cpu")
    print(f"  files opened {opened}, that could match {count_possible(dataset, condition)}")


def main() -> None:
    parser = argparse.ArgumentParser(description="A point lookup in a table of many files.")
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lm-bench-") as name:
        folder = pathlib.Path(name)
        write_files(folder, arguments.files, arguments.rows)
        started = time.perf_counter()
        options = lm.ScanOptions(threads=THREADS, condition_cache_bytes=0)
        dataset = lm.dataset(folder, options=options)
        print(f"{arguments.files} files of {arguments.rows:,} rows")
        print(f"opening the dataset, cold: {(time.perf_counter() - started) * 1e3:.0f} ms")
        middle = arguments.files * arguments.rows // 2 + 7
        token = pq.read_table(dataset.files[len(dataset.files) // 3], columns=["token"])
        lookup("sorted by file", dataset, f"key = {middle}", arguments.repeats)
        lookup("bloom filters", dataset, f"token = {token[0][11].as_py()}", arguments.repeats)


if __name__ == "__main__":
    main()
