"""Tables made so that every guess of the session is wrong, against DataFusion without pushdown.

    python -m tests.benchmark.bench_misguided

In: tables whose statistics promise what the data refuse. Out: per case and run, our time as a
ratio to DataFusion's: for a statement that the session has not seen, and for one that it has.

* promised: minima and maxima make an equality look rare, and nearly every row has the value;
* flips: the filter drops all but one row in a thousand of each file's first half, and none after;
* misled: the pages with the best bounds hold no row that passes, and all others look alike;
* groups: each of the first groups turns out to be a tenth of the table;
* ties: the first rows of the order tie with all others.

The contenders take turns; each first run has a session of its own.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from typing import TYPE_CHECKING

import datafusion
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lm_datafusion as lm

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 3_000_000
REPEATS = 7
PAGE = 10_000
WIDE = 8
_SUMS = ", ".join(f"sum(w{i})" for i in range(WIDE))
CASES = {
    "promised": f"SELECT {_SUMS}, min(s) FROM t WHERE promised = 7",
    "flips": f"SELECT {_SUMS}, min(s) FROM t WHERE flips = 7",
    "misled": "SELECT * FROM t WHERE level = 1 ORDER BY misled LIMIT 10",
    "groups": "SELECT groups, count(*), min(s) FROM t GROUP BY groups LIMIT 10",
    "ties": "SELECT * FROM t WHERE promised = 7 ORDER BY ties, n LIMIT 10",
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "t.parquet")
        _write(path)
        print(f"{'case':10} {'path of the first run':24} {'first':>16} {'repeated':>16}")
        for name, query in CASES.items():
            _compare(name, query, path)


def _write(path: str) -> None:
    rng = np.random.default_rng(5)
    row = np.arange(ROWS)
    promised = np.full(ROWS, 7, dtype=np.int32)
    promised[row % PAGE == 0], promised[row % PAGE == 1] = 0, 1_000_000
    flips = np.where((row < ROWS // 2) & (row % 1_000 > 0), 3, 7).astype(np.int32)
    flips[row % PAGE == 1] = 1_000_000
    misled = rng.integers(10**6 + 1, 10**9, ROWS)
    misled[row % PAGE == 0] = 10**6
    misled[: 2 * PAGE] = np.arange(2 * PAGE)
    groups = np.where(row < 70_000, row, row % 10)
    table = pa.table(
        {
            "n": row,
            "promised": promised,
            "flips": flips,
            "misled": misled,
            "level": np.where(misled <= 10**6, 5, row % 2).astype(np.int32),
            "groups": groups,
            "ties": np.zeros(ROWS, dtype=np.int32),
            "s": pa.array([f"text {i % 50_000}" for i in range(ROWS)]),
            **{f"w{i}": rng.random(ROWS) for i in range(WIDE)},
        }
    )
    pq.write_table(
        table,
        path,
        row_group_size=500_000,
        max_rows_per_page=PAGE,
        data_page_size=1 << 30,
        write_page_index=True,
    )


def _compare(name: str, query: str, path: str) -> None:
    plain, known = _session(datafusion.SessionContext, path), _session(lm.SessionContext, path)
    for context in (plain, known):
        for _ in range(4):
            context.sql(query).collect()
    first: list[tuple[float, float]] = []
    repeated: list[tuple[float, float]] = []
    paths = set()
    for _ in range(REPEATS):
        base = _timed(plain, query)
        fresh = _session(lm.SessionContext, path)
        first.append(_ratios(_timed(fresh, query), base))
        paths |= {report.path for report in fresh.scan_reports()}
        repeated.append(_ratios(_timed(known, query), base))
    shown = ", ".join(sorted(paths))
    print(f"{name:10} {shown:24} {_median(first):>16} {_median(repeated):>16}")


def _session(
    make: Callable[[datafusion.SessionConfig], datafusion.SessionContext], path: str
) -> datafusion.SessionContext:
    context = make(datafusion.SessionConfig().with_target_partitions(2))
    context.register_parquet("t", path)
    context.sql("SELECT count(*) FROM t").collect()
    return context


def _timed(context: datafusion.SessionContext, query: str) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    context.sql(query).collect()
    return time.perf_counter() - wall, time.process_time() - cpu


def _ratios(ours: tuple[float, float], base: tuple[float, float]) -> tuple[float, float]:
    return ours[0] / base[0], ours[1] / base[1]


def _median(ratios: list[tuple[float, float]]) -> str:
    wall, cpu = (statistics.median(column) for column in zip(*ratios, strict=True))
    return f"{wall:.2f} (CPU {cpu:.2f})"


if __name__ == "__main__":
    main()
