"""What a repeated statement on the late path costs besides its scan.

    python -m tests.benchmark.bench_statement --data DIR [--queries 1,7,19,36-42] [--repeats 40]

DIR holds ClickBench's files (`python -m clickbench generate`). Out, per query: milliseconds of CPU
for the statement with a scan that gives no rows, and for DataFusion to plan the statement over its
own reader; the least of all runs. They take turns.
"""

from __future__ import annotations

import argparse
import os
import pathlib
from unittest import mock

import datafusion

from clickbench.queries import load_queries, load_view, parse_choice
from tests.benchmark.bench_gil import make_session
from tests.benchmark.timing import interleave

WARM_UPS = 4
THREADS = 2


class NoScan:
    """Stands for `ScanRun`."""

    def __init__(self, *_: object) -> None:
        pass

    def batches(self) -> object:
        """No row."""
        return (nothing for nothing in ())


def main() -> None:
    parser = argparse.ArgumentParser(description="What a statement costs besides its scan.")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="ClickBench's files")
    parser.add_argument("--queries", default="1,7,19,36-42", help="as 5 or 20-26, comma-separated")
    parser.add_argument("--repeats", type=int, default=40)
    arguments = parser.parse_args()
    late = make_session(str(arguments.data), "late", THREADS)
    plain = datafusion.SessionContext(
        datafusion.SessionConfig(
            {
                "datafusion.execution.target_partitions": str(THREADS),
                "datafusion.execution.parquet.binary_as_string": "true",
            }
        )
    )
    plain.register_parquet("hits_raw", os.path.join(arguments.data, ""))
    plain.sql(load_view())
    for query in load_queries(parse_choice(arguments.queries)):
        sql = query.sql.rstrip("; \n")
        for _ in range(WARM_UPS):
            late.sql(sql).collect()
        contenders = {
            "late": lambda sql=sql: late.sql(sql).collect(),
            "plain": lambda sql=sql: plain.sql(sql).execution_plan(),
        }
        with mock.patch("lm_datafusion.dataset.scanner.ScanRun", NoScan):
            times = interleave(contenders, arguments.repeats)
        ours, theirs = (min(times[name].cpu) * 1e3 for name in ("late", "plain"))
        print(
            f"{query.name}  besides the scan {ours:5.2f} ms, DataFusion's planning {theirs:5.2f} ms"
        )


if __name__ == "__main__":
    main()
