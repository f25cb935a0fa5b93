"""What a session of ours adds to planning a statement that DataFusion's own reader serves.

    python -m tests.benchmark.bench_overhead

In: the 43 ClickBench queries over 105 columns. Out: milliseconds to an execution plan, plain and
ours: for a statement seen for the first time over known tables, and for one seen before.

Time is that of the calling thread, which plans: other work on the machine does not count. The
contenders take turns.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from typing import TYPE_CHECKING

import datafusion
import pyarrow.parquet as pq

import lm_datafusion as lm
from clickbench.model.hits import generate_table
from clickbench.queries import QUERY_COUNT, load_queries, load_view

if TYPE_CHECKING:
    from collections.abc import Callable

REPEATS = 15


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "hits.parquet")
        pq.write_table(generate_table(20_000), path, row_group_size=5_000)
        plain, ours = _session(datafusion.SessionContext(), path), _session(_native(), path)
        added: dict[str, list[float]] = {"new": [], "repeated": []}
        for query in load_queries(tuple(range(QUERY_COUNT))):
            times = _times(plain, ours, query.sql)
            for kind, differences in added.items():
                differences.append(times[kind] - times["plain"])
        for kind, differences in added.items():
            print(
                f"a {kind} statement: {statistics.median(differences):.2f} ms more than plain"
                f" DataFusion (median of {QUERY_COUNT} queries; largest {max(differences):.2f})"
            )


def _native() -> lm.SessionContext:
    return lm.SessionContext(options=lm.ScanOptions(path="native"))


def _session(context: datafusion.SessionContext, path: str) -> datafusion.SessionContext:
    context.register_parquet("hits_raw", path)
    context.sql(load_view())
    return context


def _times(
    plain: datafusion.SessionContext, ours: datafusion.SessionContext, sql: str
) -> dict[str, float]:
    """Medians in milliseconds."""
    numbers = iter(range(10 * REPEATS))
    contenders: dict[str, Callable[[], object]] = {
        "plain": lambda: plain.sql(sql).execution_plan(),
        # A comment makes the text one that was never seen.
        "new": lambda: ours.sql(f"{sql} -- {next(numbers)}").execution_plan(),
        "repeated": lambda: ours.sql(sql).execution_plan(),
    }
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(REPEATS):
        for name, run in contenders.items():
            start = time.thread_time()
            run()
            taken[name].append((time.thread_time() - start) * 1e3)
    return {name: statistics.median(times) for name, times in taken.items()}


if __name__ == "__main__":
    main()
