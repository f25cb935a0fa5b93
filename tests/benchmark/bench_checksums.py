"""What it costs to verify the checksums of pages.

    python -m tests.benchmark.bench_checksums [--rows 1000000] [--repeats 15]

A file per codec, of whole numbers and of text, written with checksums. Every value of a column is
read by one thread with and without `verify_checksums`; a list of numbers stands for columns that
are spliced. Contenders take turns; shown are minima of processor time. The last table is the
checksum alone, beside that of zlib.
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile
import time
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lm_datafusion as lm
from lm_datafusion.kernels import kernel_info
from tests.benchmark.timing import interleave

if TYPE_CHECKING:
    from collections.abc import Callable

CODECS = ("NONE", "SNAPPY", "ZSTD")


def make_table(rows: int) -> pa.Table:
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 1 << 40, rows)
    urls = [f"http://example.com/{a}/page?q={b}" for a, b in rng.integers(0, 9999, (rows, 2))]
    offsets = pa.array(np.arange(0, rows + 1, 2, dtype=np.int32))
    lists = pa.ListArray.from_arrays(offsets, pa.array(numbers[: int(offsets[-1].as_py())]))
    lists = pa.concat_arrays([lists, lists])[:rows]
    return pa.table({"number": numbers, "text": urls, "list": lists})


def measure(path: str, repeats: int) -> None:
    """Prints the processor time of both for each column, and the difference."""
    plain = lm.ScanOptions(threads=1, condition_cache_bytes=0)
    datasets = {
        verify: lm.dataset(path, options=plain.with_changes(verify_checksums=verify))
        for verify in (False, True)
    }
    for column in datasets[False].schema.names:
        runs: dict[str, Callable[[], object]] = {
            str(verify): (lambda d=data, c=column: d.to_table(columns=[c]))
            for verify, data in datasets.items()
        }
        times = interleave(runs, repeats)
        off, on = (min(times[name].cpu) * 1e3 for name in ("False", "True"))
        size = pq.read_metadata(path).row_group(0)
        stored = next(
            size.column(i).total_compressed_size / 1e6
            for i in range(size.num_columns)
            if size.column(i).path_in_schema.split(".")[0] == column
        )
        print(f"  {column:8}{stored:8.1f} MB{off:9.1f} ms off{on:9.1f} ms on{(on / off - 1):+8.1%}")


def measure_alone() -> None:
    """Prints gigabytes per second, by the size of a page."""
    sums: dict[str, Callable[[bytes], int]] = {"zlib": zlib.crc32}
    if kernel_info().is_active:
        from lm_datafusion.kernels.pages import crc32

        sums["kernel"] = crc32
    for size in (1 << 10, 1 << 14, 1 << 20):
        page, shown = bytes(size), []
        for name, checksum in sums.items():
            runs = max(10, (1 << 25) // size)
            best = 1e9
            for _ in range(5):
                start = time.process_time()
                for _ in range(runs):
                    checksum(page)
                best = min(best, time.process_time() - start)
            shown.append(f"{name} {size * runs / best / 1e9:5.1f} GB/s")
        print(f"  {size:8} bytes: {', '.join(shown)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    table = make_table(arguments.rows)
    with tempfile.TemporaryDirectory() as folder:
        for codec in CODECS:
            path = str(pathlib.Path(folder) / f"{codec}.parquet")
            options = {"compression": codec, "use_dictionary": False, "write_page_checksum": True}
            pq.write_table(table, path, row_group_size=arguments.rows, **options)
            print(codec)
            measure(path, arguments.repeats)
    print("checksum alone")
    measure_alone()


if __name__ == "__main__":
    main()
