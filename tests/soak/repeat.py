"""The same scans again and again: what they leave behind.

    python -m tests.soak.repeat --times 1000

In: how often. Out: by kind of scan, how threads, handles, traced and resident memory have changed
since the warm-up; exit status 1 if one has grown by more than `GROWTH_BYTES` or a handle is left.

Kinds: a scan to its end, one that is closed after its first batch, one that fails in a damaged
page, one that fails in its storage.

Invariant: nothing that a scan leaves on purpose grows with repetitions of it.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import pathlib
import sys
import tempfile
import threading
import tracemalloc
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lm_datafusion as lm
from tests.soak.run import rss_mib

if TYPE_CHECKING:
    from collections.abc import Callable

GROWTH_BYTES = 256 << 10
# A dataset keeps the reports of its last 64 scans.
WARM_UP = 70


@dataclass(frozen=True)
class Change:
    """What has changed since the warm-up."""

    threads: int
    handles: int
    traced_bytes: int
    rss_mib: float

    @property
    def is_leak(self) -> bool:
        """Whether something was left behind."""
        return self.threads > 0 or self.handles > 0 or self.traced_bytes > GROWTH_BYTES


def scans(folder: pathlib.Path) -> dict[str, Callable[[], None]]:
    """The kinds of scans, over files of a folder."""
    table = pa.table({"id": np.arange(3_000), "text": [f"row {number}" for number in range(3_000)]})
    good, bad = folder / "good.parquet", folder / "bad.parquet"
    for path in (good, bad):
        pq.write_table(table, path, row_group_size=500, max_rows_per_page=100)
    chunk = pq.ParquetFile(bad).metadata.row_group(3).column(1)
    with open(bad, "r+b") as file:
        file.seek(chunk.dictionary_page_offset or chunk.data_page_offset)
        file.write(b"\xff" * chunk.total_compressed_size)
    options = lm.ScanOptions(threads=2, batch_rows=50)
    whole, damaged = lm.dataset(good, options=options), lm.dataset(bad, options=options)
    gone = folder / "gone.parquet"
    gone.write_bytes(good.read_bytes())
    missing = lm.dataset(gone, options=options)
    gone.unlink()

    def scan() -> None:
        assert sum(b.num_rows for b in whole.to_batches(filter="text LIKE '%7%'")) > 0

    def closed() -> None:
        batches = whole.to_batches(filter="id > 5")
        next(batches)
        batches.close()

    def first_rows() -> None:
        whole.to_table(filter="id > 5", order_by=[("id", "descending")], limit=5)

    def failing(data: lm.LateDataset) -> None:
        with contextlib.suppress(lm.LateError):
            data.to_table()
            raise AssertionError("no error")

    return {
        "to the end": scan,
        "first rows": first_rows,
        "closed early": closed,
        "damaged page": lambda: failing(damaged),
        "no file": lambda: failing(missing),
    }


def measure(scan: Callable[[], None], times: int) -> Change:
    """Repeats a scan, and says what has changed since the warm-up."""
    tracemalloc.start()
    try:
        for _ in range(WARM_UP):
            scan()
        before = _now()
        for _ in range(times):
            scan()
        after = _now()
    finally:
        tracemalloc.stop()
    changes = [late - early for early, late in zip(before, after, strict=True)]
    return Change(int(changes[0]), int(changes[1]), int(changes[2]), changes[3])


def _now() -> tuple[float, float, float, float]:
    gc.collect()
    handles = len(os.listdir("/proc/self/fd"))
    return threading.active_count(), handles, tracemalloc.get_traced_memory()[0], rss_mib()


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Scans again and again.")
    parser.add_argument("--times", type=int, default=1_000)
    times = parser.parse_args().times
    is_leak = False
    with tempfile.TemporaryDirectory() as folder:
        for name, scan in scans(pathlib.Path(folder)).items():
            change = measure(scan, times)
            is_leak |= change.is_leak
            traced_kib = change.traced_bytes / 1024
            print(
                f"{name:<14} {times:,} times: {change.threads:+} threads,"
                f" {change.handles:+} handles, {traced_kib:+.0f} KiB traced,"
                f" {change.rss_mib:+.1f} MiB resident",
                flush=True,
            )
    return int(is_leak)


if __name__ == "__main__":
    sys.exit(main())
