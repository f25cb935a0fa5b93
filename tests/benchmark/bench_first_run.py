"""The first query of a new process, against DataFusion.

    python -m tests.benchmark.bench_first_run --data data/tuned_10m --repeats 3

In: a folder of ClickBench's `hits`. Out: per query the milliseconds of its first run, DataFusion's
and ours, and the difference; then the median difference, and what importing the package and making
a session take.

Every run is a process of its own, with the table registered and the view made before the clock
starts. The contenders take turns; the smallest of the repeats counts. Files are in the page cache.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

from clickbench.queries import QUERY_COUNT, load_queries, load_view

CONTENDERS = ("datafusion", "lm_datafusion")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder with hits as Parquet files")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--queries", help="comma-separated numbers; all by default")
    parser.add_argument("--worker", nargs=2, metavar=("PACKAGE", "QUERY"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(_run(arguments.worker[0], int(arguments.worker[1]), arguments.data)))
        return
    chosen = [int(n) for n in (arguments.queries or "").split(",") if n] or range(QUERY_COUNT)
    differences, starts = [], {name: [] for name in CONTENDERS}
    print(f"{'query':>5} {'DataFusion ms':>14} {'ours ms':>9} {'more ms':>8}  path")
    for number in chosen:
        best = {}
        for _ in range(arguments.repeats):
            for name in CONTENDERS:
                found = _measure(name, number, arguments.data)
                starts[name].append(found["start_ms"])
                if name not in best or found["query_ms"] < best[name]["query_ms"]:
                    best[name] = found
        plain, ours = (best[name]["query_ms"] for name in CONTENDERS)
        differences.append(ours - plain)
        path = best["lm_datafusion"]["path"]
        print(f"{number:5} {plain:14.1f} {ours:9.1f} {ours - plain:8.1f}  {path}", flush=True)
    print(f"median {statistics.median(differences):.1f} ms more")
    medians = {name: statistics.median(times) for name, times in starts.items()}
    print(", ".join(f"{name}: import and session {ms:.0f} ms" for name, ms in medians.items()))


def _measure(package: str, number: int, data: str) -> dict:
    command = [sys.executable, "-m", __spec__.name, "--data", data]
    # Modules are compiled once, as in an installed package.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [*command, "--worker", package, str(number)],
        stdout=subprocess.PIPE,
        env=environment,
        check=True,
    )
    return json.loads(done.stdout)


def _run(package: str, number: int, data: str) -> dict:
    start = time.perf_counter()
    module = __import__(package)
    import datafusion

    config = datafusion.SessionConfig().with_target_partitions(2)
    context = module.SessionContext(config)
    started = time.perf_counter()
    context.register_parquet("hits_raw", data)
    context.sql(load_view()).collect()
    (query,) = load_queries((number,))
    before = time.perf_counter()
    context.sql(query.sql).collect()
    after = time.perf_counter()
    reports = context.scan_reports() if package == "lm_datafusion" else []
    return {
        "start_ms": (started - start) * 1e3,
        "query_ms": (after - before) * 1e3,
        "path": ", ".join(sorted({report.path for report in reports})),
    }


if __name__ == "__main__":
    main()
