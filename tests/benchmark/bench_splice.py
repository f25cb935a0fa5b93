"""What a page splice costs per column, against pyarrow's own read of the same column.

    python -m tests.benchmark.bench_splice [--rows 500000] [--repeats 15]

Per kind of column: pyarrow reads the whole column chunk from the file; we read it whole through a
splice; we read one page of it; we read one page in ten. And the fixed cost: many columns of one
page each, in one splice.
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lm_datafusion.formats.parquet.decode import ColumnRequest, RowGroupDecoder
from lm_datafusion.metrics import ScanMetrics
from lm_datafusion.options import ScanOptions
from lm_datafusion.scan import load_facts
from lm_datafusion.selection import RowSelection
from lm_datafusion.storage import LocalStorage
from tests.benchmark.timing import interleave, show

PAGE_ROWS = 20_000


def columns(rows: int) -> dict[str, pa.Array]:
    rng = np.random.default_rng(1)
    small = rng.integers(0, 1000, rows)
    return {
        "int64 dictionary": pa.array(small),
        "int64 plain": pa.array(rng.integers(0, 1 << 62, rows)),
        "double": pa.array(rng.random(rows)),
        "double, nulls": pa.array(rng.random(rows), mask=rng.random(rows) < 0.3),
        "string dictionary": pa.array([f"value {n}" for n in small]),
        "string plain": pa.array([f"unique value {n}" for n in range(rows)]),
        "list<int64>": pa.ListArray.from_arrays(
            pa.array(np.arange(0, 2 * rows + 1, 2, dtype=np.int32)), pa.array(np.arange(2 * rows))
        ),
        "struct": pa.StructArray.from_arrays(
            [pa.array(small), pa.array(rng.random(rows))], ["x", "y"]
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="The cost of a page splice.")
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    rows = arguments.rows
    with tempfile.TemporaryDirectory(prefix="lm-bench-") as folder:
        path = str(pathlib.Path(folder) / "columns.parquet")
        table = pa.table(columns(rows))
        pq.write_table(
            table, path, row_group_size=rows, write_page_index=True, max_rows_per_page=PAGE_ROWS
        )
        facts = load_facts(LocalStorage(), path, ScanOptions())
        plain = pq.ParquetFile(path, pre_buffer=False)
        everything = RowSelection.all(rows)
        one = RowSelection.from_consecutive_ranges([(rows // 2, rows // 2 + 1)], rows)
        tenth = RowSelection.from_indices(np.arange(5, rows, 10 * PAGE_ROWS), rows)
        with LocalStorage().open(facts.version) as file:
            decoder = RowGroupDecoder(facts, (0,), file, file, ScanMetrics())

            def splice(selection: RowSelection, *wanted: int) -> None:
                for _ in decoder.decode([ColumnRequest(column=c, rows=selection) for c in wanted]):
                    pass

            for index, name in enumerate(table.schema.names):
                runs = {
                    "pyarrow, whole": lambda n=name: plain.read_row_group(0, [n]),
                    "splice, whole": lambda i=index: splice(everything, i),
                    "splice, page in ten": lambda i=index: splice(tenth, i),
                    "splice, one page": lambda i=index: splice(one, i),
                }
                show(name, interleave(runs, arguments.repeats), "pyarrow, whole")
            flat = range(6)
            runs = {
                "six splices": lambda: [splice(one, index) for index in flat],
                "one splice of six": lambda: splice(one, *flat),
            }
            show("one page of six columns", interleave(runs, arguments.repeats), "six splices")


if __name__ == "__main__":
    main()
