"""ORC beside PyArrow, in turns, processor time.

    python -m tests.benchmark.bench_orc [--rows 4000000] [--repeats 5] [--codecs zstd,zlib]

`dataset`: `lm.dataset` beside `pyarrow.dataset`: one row, 1 % in one place and 1 % strewn by a
filter, and all rows, of four columns; for one row also the bytes read. The condition cache is off,
so that every scan evaluates the filter; metadata is cached, as it is for a table that is asked
again; the first scan of a file, which reads it, is `one row, cold`.

`reader`: `lm.orc_reader` beside `pyarrow.orc`: given rows of all columns. PyArrow reads whole
stripes, then takes rows.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import orc

import lm_datafusion as lm
from lm_datafusion.formats.cache import FACTS
from tests.orc_files import write

CODECS = ("uncompressed", "zlib", "zstd")
COLUMNS = ["time", "user", "url", "price"]
OPTIONS = lm.ScanOptions(condition_cache_bytes=0)


def table(row_count: int) -> pa.Table:
    chance = np.random.default_rng(1)
    words = np.array([f"/path/{n}/page" for n in range(50_000)])
    return pa.table(
        {
            "time": np.arange(row_count) * 7 + chance.integers(0, 7, row_count),
            "user": chance.integers(0, 2**40, row_count),
            "price": chance.random(row_count),
            "status": chance.integers(0, 1000, row_count).astype(np.int16),
            "url": words[chance.integers(0, len(words), row_count)],
            "flag": chance.random(row_count) < 0.1,
        }
    )


def filters(source: pa.Table) -> dict[str, tuple[str | None, pc.Expression | None]]:
    """The same conditions as SQL and for PyArrow."""
    times = source["time"]
    middle, share = source.num_rows // 2, source.num_rows // 100
    low, high = times[middle].as_py(), times[middle + share].as_py()
    moment = pc.field("time")
    return {
        "one row": (f"time = {low}", moment == low),
        "1 % in one place": (
            f"time >= {low} AND time < {high}",
            (moment >= low) & (moment < high),
        ),
        "1 % strewn": ("status < 10", pc.field("status") < 10),
        "all rows": (None, None),
    }


def bench_dataset(path: str, codec: str, source: pa.Table, repeats: int) -> None:
    late, stock = lm.dataset(path, options=OPTIONS), ds.dataset(path, format="orc")

    def cold(condition: str | None) -> pa.Table:
        FACTS.clear()
        return lm.dataset(path, options=OPTIONS).to_table(COLUMNS, condition)

    for name, (text, expression) in filters(source).items():
        readers = [
            lambda e=expression: stock.to_table(columns=COLUMNS, filter=e),
            lambda t=text: late.to_table(COLUMNS, t),
        ]
        show(f"dataset {codec:13} {name}", readers, repeats)
        if name == "one row":
            report = late.scan_reports()[-1]
            show(f"dataset {codec:13} {name}, cold", [readers[0], lambda t=text: cold(t)], repeats)
            whole = report.bytes_scanned + report.bytes_metadata
            print(f"{'':40} {whole:,} of {report.bytes_total:,} bytes read")


def bench_reader(path: str, codec: str, row_count: int, repeats: int) -> None:
    selections = {
        "one row": np.array([row_count // 2]),
        "1 % in one place": np.arange(row_count // 2, row_count // 2 + row_count // 100),
        "10 % in one place": np.arange(row_count // 2, row_count // 2 + row_count // 10),
        "1 % strewn": np.arange(0, row_count, 100),
        "all rows": np.arange(row_count),
    }
    for name, rows in selections.items():
        readers = [
            lambda r=rows: orc.ORCFile(path).read().take(pa.array(r)),
            lambda r=rows: (
                lm.orc_reader(path)
                .with_row_selection(lm.RowSelection.from_indices(r, row_count))
                .to_table()
            ),
        ]
        show(f"reader  {codec:13} {name}", readers, repeats)


def show(name: str, readers: list, repeats: int) -> None:
    """Compares answers, then times; prints medians and their ratio."""
    theirs, ours = (read() for read in readers)
    assert ours.combine_chunks().equals(theirs.combine_chunks())
    del theirs, ours
    times = [[measured(read) for read in readers] for _ in range(repeats)]
    theirs, ours = (statistics.median(side) for side in zip(*times, strict=True))
    print(f"{name:40} {theirs:9.1f} {ours:9.1f} {theirs / ours:7.2f}x", flush=True)


def measured(read) -> float:
    started = time.process_time()
    read()
    return (time.process_time() - started) * 1000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--codecs", default=",".join(CODECS))
    given = parser.parse_args()
    source = table(given.rows)
    print("processor ms, medians; PyArrow, ours, factor")
    for codec in given.codecs.split(","):
        with tempfile.TemporaryDirectory() as folder:
            path = write(os.path.join(folder, "f.orc"), source, compression=codec)
            bench_dataset(path, codec, source, given.repeats)
            bench_reader(path, codec, given.rows, max(1, given.repeats // 2))


if __name__ == "__main__":
    main()
