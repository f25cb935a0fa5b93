"""Selected rows of ORC: `lm.orc_reader` beside `pyarrow.orc`, in turns, processor time.

    python -m tests.benchmark.bench_orc

A million rows of six columns. PyArrow reads whole stripes of the wanted columns, then takes rows.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time

import numpy as np
import pyarrow as pa
from pyarrow import orc

import lm_datafusion as lm
from tests.orc_files import write

ROWS = 1_000_000
REPEATS = 7


def table() -> pa.Table:
    chance = np.random.default_rng(1)
    words = np.array([f"/path/{n}/page" for n in range(50_000)])
    return pa.table(
        {
            "time": np.arange(ROWS) * 7 + chance.integers(0, 7, ROWS),
            "user": chance.integers(0, 2**40, ROWS),
            "price": chance.random(ROWS),
            "status": chance.integers(200, 600, ROWS).astype(np.int16),
            "url": words[chance.integers(0, len(words), ROWS)],
            "flag": chance.random(ROWS) < 0.1,
        }
    )


def by_pyarrow(path: str, rows: np.ndarray) -> pa.Table:
    return orc.ORCFile(path).read().take(pa.array(rows))


def by_reader(path: str, rows: np.ndarray) -> pa.Table:
    selection = lm.RowSelection.from_indices(rows, ROWS)
    return lm.orc_reader(path).with_row_selection(selection).to_table()


def measured(read, path: str, rows: np.ndarray) -> float:
    started = time.process_time()
    read(path, rows)
    return (time.process_time() - started) * 1000


def main() -> None:
    source = table()
    selections = {
        "one row": np.array([ROWS // 2]),
        "1 % in one place": np.arange(ROWS // 2, ROWS // 2 + ROWS // 100),
        "10 % in one place": np.arange(ROWS // 2, ROWS // 2 + ROWS // 10),
        "1 % strewn": np.arange(0, ROWS, 100),
        "all rows": np.arange(ROWS),
    }
    print("processor ms, medians; PyArrow, ours, factor")
    for codec in ("uncompressed", "zlib", "zstd"):
        with tempfile.TemporaryDirectory() as folder:
            path = write(os.path.join(folder, "f.orc"), source, compression=codec)
            for name, rows in selections.items():
                assert by_reader(path, rows).equals(by_pyarrow(path, rows))
                times = [
                    [measured(read, path, rows) for read in (by_pyarrow, by_reader)]
                    for _ in range(REPEATS)
                ]
                theirs, ours = (statistics.median(side) for side in zip(*times, strict=True))
                print(f"{codec:13} {name:18} {theirs:8.1f} {ours:8.1f} {theirs / ours:6.1f}x")


if __name__ == "__main__":
    main()
