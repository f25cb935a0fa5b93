"""What reading a row costs DataFusion's reader and ours: the constants of `engine.cost`.

    python -m tests.benchmark.bench_costs --data DIR

In: a folder of ClickBench's files. Out: nanoseconds of processor time per row, on one thread: of
whole columns, with their uncompressed bytes per row; and of a column under filters that keep
different shares of rows. Minima of several runs; both readers run in turns.

A column that is read whole gives value, byte and decompression costs; the difference between the
shares gives what a row that passes costs.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time

import datafusion
import pyarrow.parquet as pq

import lm_datafusion as lm

COLUMNS = (
    "UserID",
    "RegionID",
    "EventTime",
    "CounterID",
    "URL",
    "Title",
    "SearchPhrase",
    "MobilePhoneModel",
    "Referer",
)
FILTERS = ('"RegionID" = 3', '"AdvEngineID" <> 0', '"RegionID" = 229', '"Age" > 20', '"UserID" > 0')
FILTERED = ("UserID", "SearchPhrase", "URL")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="folder of Parquet files")
    parser.add_argument("--files", type=int, default=2, help="how many of them to read")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    names = sorted(name for name in os.listdir(arguments.data) if name.endswith(".parquet"))
    files = [os.path.join(os.path.abspath(arguments.data), n) for n in names[: arguments.files]]
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            os.symlink(file, os.path.join(folder, os.path.basename(file)))
        readers = _readers(folder, files)
        footers = [pq.ParquetFile(file).metadata for file in files]
        rows = sum(footer.num_rows for footer in footers)
        print(f"{rows:,} rows; ns of processor time per row\n")
        print(f"{'column':20} {'bytes/row':>10} {'DataFusion':>11} {'ours':>8}")
        for name in COLUMNS:
            size = _uncompressed(footers, name) / rows
            times = _times(readers, f'SELECT "{name}" FROM t', arguments.repeats, rows)
            print(f"{name:20} {size:10.1f} {times[0]:11.1f} {times[1]:8.1f}", flush=True)
        print(f"\n{'filter':20} {'kept':>7} {'column':14} {'DataFusion':>11} {'ours':>8}")
        for condition in FILTERS:
            kept = readers[0].sql(f"SELECT 1 FROM t WHERE {condition}").count() / rows
            for name in FILTERED:
                query = f'SELECT "{name}" FROM t WHERE {condition}'
                times = _times(readers, query, arguments.repeats, rows)
                row = f"{condition:20} {kept:7.2%} {name:14}"
                print(f"{row} {times[0]:11.1f} {times[1]:8.1f}", flush=True)


def _readers(folder: str, files: list[str]) -> list[datafusion.SessionContext]:
    config = datafusion.SessionConfig().with_target_partitions(1)
    native, late = datafusion.SessionContext(config), datafusion.SessionContext(config)
    native.register_parquet("t", folder)
    options = lm.ScanOptions(threads=1, condition_cache_bytes=0, string_type="string_view")
    late.register_dataset("t", lm.dataset(files, options=options))
    return [native, late]


def _uncompressed(footers: list[pq.FileMetaData], name: str) -> int:
    index = footers[0].schema.names.index(name)
    return sum(
        footer.row_group(group).column(index).total_uncompressed_size
        for footer in footers
        for group in range(footer.num_row_groups)
    )


def _times(
    readers: list[datafusion.SessionContext], query: str, repeats: int, rows: int
) -> list[float]:
    best = [float("inf")] * len(readers)
    for _ in range(repeats):
        for index, reader in enumerate(readers):
            started = time.process_time()
            for _batch in reader.sql(query).execute_stream():
                pass
            best[index] = min(best[index], time.process_time() - started)
    return [seconds / rows * 1e9 for seconds in best]


if __name__ == "__main__":
    main()
