"""Peak memory of a selective scan over a large file.

    python -m tests.benchmark.bench_memory [--gigabytes 2] [--dir FOLDER]

Writes a file in a process of its own (row groups of a million rows: random integers, doubles and
60-byte strings, hardly compressible), then scans it in another: one row in a thousand, scattered
over every page, all columns. Prints the peak resident memory of the scanning process before and
after. The same scan through pyarrow.dataset runs in a third process, for comparison.
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys
import tempfile

WRITE = """
import sys, numpy as np, pyarrow as pa, pyarrow.parquet as pq
path, limit = sys.argv[1], float(sys.argv[2]) * 1e9
rng, writer, rows, written = np.random.default_rng(0), None, 1_000_000, 0
while written < limit:
    columns = {f"i{n}": rng.integers(0, 1 << 62, rows) for n in range(8)}
    columns |= {f"d{n}": rng.random(rows) for n in range(4)}
    columns["k"] = rng.integers(0, 1000, rows)
    raw = rng.integers(97, 123, rows * 60, dtype=np.uint8).tobytes()
    offsets = np.arange(0, 60 * rows + 1, 60, dtype=np.int32)
    columns["s"] = pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(raw))
    table = pa.table(columns)
    writer = writer or pq.ParquetWriter(path, table.schema, write_page_index=True,
        use_dictionary=["k"], max_rows_per_page=20_000)
    writer.write_table(table, row_group_size=rows)
    written += table.nbytes
writer.close()
"""

SCAN = """
import resource, sys, time
kind, path = sys.argv[1], sys.argv[2]
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
if kind == "lm":
    import lm_datafusion as lm
    dataset, wanted = lm.dataset(path), "k = 7"
    dataset.head(1, filter=wanted)
else:
    import pyarrow.compute as pc, pyarrow.dataset as ds
    dataset, wanted = ds.dataset(path), pc.field("k") == 7
before, started = peak(), time.perf_counter()
rows = sum(batch.num_rows for batch in dataset.to_batches(filter=wanted))
print(f"{kind:8} {rows:,} rows in {time.perf_counter() - started:.2f} s; "
      f"peak {before:.0f} MB before, {peak():.0f} MB after")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Peak memory of a selective scan.")
    parser.add_argument("--gigabytes", type=float, default=2.0, help="size of the file")
    parser.add_argument("--dir", help="folder for the file (default: a temporary one)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lm-bench-", dir=arguments.dir) as folder:
        path = str(pathlib.Path(folder) / "large.parquet")
        _run(WRITE, path, str(arguments.gigabytes))
        size = pathlib.Path(path).stat().st_size
        print(f"file of {size / 1e9:.2f} GB")
        for kind in ("lm", "pyarrow"):
            _run(SCAN, kind, path)


def _run(program: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-c", program, *arguments], check=True)


if __name__ == "__main__":
    main()
