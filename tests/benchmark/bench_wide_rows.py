"""How close the first rows of an order, with all their columns, come to finding them alone.

    python -m tests.benchmark.bench_wide_rows --data DIR [--repeats 9] [--threads 2]

The question is ClickBench's Q23: `SELECT *`, a filter, an order, ten rows. Its limit is what
DataFusion's own reader takes for the same filter, order and number of rows with the column of the
order alone: those have to be read in any case. DIR holds ClickBench's files
(`python -m clickbench generate`).

Contenders take turns, three runs of each before those that count: DataFusion with all columns,
DataFusion with one, this package with all columns, without a condition cache.
"""

from __future__ import annotations

import argparse
import os
import pathlib

import datafusion
import pyarrow as pa

import lm_datafusion as lm
from clickbench.queries import load_queries, load_view
from tests.benchmark.timing import interleave, show

NARROW, WIDE, LATE = "DataFusion, one column", "DataFusion, all", "lm, all"
WARM_UPS = 3


def opened(context: datafusion.SessionContext, data: str) -> datafusion.SessionContext:
    context.register_parquet("hits_raw", os.path.join(data, ""))
    context.sql(load_view())
    return context


def main() -> None:
    parser = argparse.ArgumentParser(description="Q23 of ClickBench against its limit.")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="ClickBench's files")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    config = datafusion.SessionConfig(
        {
            "datafusion.execution.target_partitions": str(arguments.threads),
            "datafusion.execution.parquet.binary_as_string": "true",
        }
    )
    options = lm.ScanOptions(threads=arguments.threads, condition_cache_bytes=0)
    native = opened(datafusion.SessionContext(config), str(arguments.data))
    late = opened(lm.SessionContext(config, options=options), str(arguments.data))
    (query,) = load_queries((23,))
    narrow = query.sql.replace("SELECT *", 'SELECT "EventTime"', 1)
    runs = {
        NARROW: lambda: native.sql(narrow).collect(),
        WIDE: lambda: native.sql(query.sql).collect(),
        LATE: lambda: late.sql(query.sql).collect(),
    }
    moments = {name: pa.Table.from_batches(run())["EventTime"] for name, run in runs.items()}
    assert moments[LATE].equals(moments[NARROW]), "the rows differ"
    for _ in range(WARM_UPS):
        for run in runs.values():
            run()
    show(f"Q23, {arguments.data}", interleave(runs, arguments.repeats), NARROW)


if __name__ == "__main__":
    main()
