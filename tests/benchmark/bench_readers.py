"""What it gives that a session's footers are read by few threads.

    python -m tests.benchmark.bench_readers --data DIR [--queries 3,8,20,27] [--rounds 3] [--runs 8]
        [--path native] [--sql TEXT]

DIR holds ClickBench's files (`python -m clickbench generate`). Each query runs some times in a new
process of plain DataFusion, then in one of `lm.SessionContext(options=ScanOptions(path="native"))`,
which differs from it only in that; and so on, in turns. With `--path auto`, `lm` is the session as
it comes: query 23 then shows what tables made for filter pushdown take. `--sql` is run instead of
ClickBench's queries; the table is `hits`. Shown are, for each round:
the median wall and CPU time of the later half of the runs, in milliseconds, the peak memory of the
process, and its threads at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

from clickbench.queries import load_queries, load_view, parse_choice


def measure(kind: str, data: str, sql: str, runs: int, path: str) -> dict[str, float]:
    """One process's part."""
    import datafusion

    import lm_datafusion as lm

    config = datafusion.SessionConfig(
        {"datafusion.execution.parquet.binary_as_string": "true"}
    ).with_target_partitions(os.cpu_count() or 1)
    context = (
        datafusion.SessionContext(config)
        if kind == "datafusion"
        else lm.SessionContext(config, options=lm.ScanOptions(path=path, condition_cache_bytes=0))
    )
    context.register_parquet("hits_raw", os.path.join(data, ""))
    context.sql(load_view())
    times = []
    for _ in range(runs):
        wall, cpu = time.perf_counter(), time.process_time()
        context.sql(sql).collect()
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    later = times[runs // 2 :]
    return {
        "wall_ms": 1e3 * statistics.median(wall for wall, _ in later),
        "cpu_ms": 1e3 * statistics.median(cpu for _, cpu in later),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        "threads": len(os.listdir("/proc/self/task")),
    }


def in_a_new_process(kind: str, data: str, sql: str, runs: int, path: str) -> dict[str, float]:
    words = [kind, data, sql, str(runs), path]
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmark.bench_readers", "--one", *words],
        check=True,
        capture_output=True,
        text=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        kind, data, sql, runs, path = sys.argv[2:]
        print(json.dumps(measure(kind, data, sql, int(runs), path)))
        return
    parser = argparse.ArgumentParser(description="DataFusion's reads by few threads or many.")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="ClickBench's files")
    parser.add_argument("--queries", default="3,8,20,27", help="as 5 or 20-26, comma-separated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=8, help="of a query in each process")
    parser.add_argument("--path", default="native", help="of lm's session, as auto")
    parser.add_argument("--sql", help="a query over hits, instead of ClickBench's")
    arguments = parser.parse_args()
    queries = {query.name: query.sql for query in load_queries(parse_choice(arguments.queries))}
    if arguments.sql is not None:
        queries = {"sql": arguments.sql}
    print(f"{'':6}{'':12}{'wall ms':>9}{'CPU ms':>9}{'peak MB':>9}{'threads':>9}")
    for name, sql in queries.items():
        for _ in range(arguments.rounds):
            for kind in ("datafusion", "lm"):
                found = in_a_new_process(
                    kind, str(arguments.data), sql, arguments.runs, arguments.path
                )
                shown = "".join(f"{value:9.0f}" for value in found.values())
                print(f"{name:6}{kind:12}{shown}", flush=True)


if __name__ == "__main__":
    main()
