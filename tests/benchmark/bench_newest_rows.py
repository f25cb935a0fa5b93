"""The newest rows of a log that no constant was tuned on.

    python -m tests.benchmark.bench_newest_rows [--rows 3000000] [--repeats 7]

In: a file sorted by time, 13 columns, row groups of a million rows, written as PyArrow writes by
default, and the same with a page index. Out: the times of `SELECT * ... WHERE lvl = 7 ORDER BY ts
DESC LIMIT 1000` on DataFusion's own reader and through a session of ours, which chooses a reader.
The contenders take turns; answers are compared first.
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from datafusion import SessionConfig, SessionContext

import lm_datafusion as lm
from tests.benchmark.timing import interleave, show

QUERY = "SELECT * FROM log WHERE lvl = 7 ORDER BY ts DESC LIMIT 1000"
DATAFUSION = "DataFusion"


def make_log(rows: int) -> pa.Table:
    rng = np.random.default_rng(29)
    words = np.array([f"service-{n}" for n in range(40)])
    return pa.table(
        {
            "ts": pa.array(np.arange(rows) * 250 + rng.integers(0, 250, rows)).cast(
                pa.timestamp("ms")
            ),
            "lvl": rng.integers(0, 50, rows).astype(np.int32),
            "host": words[rng.integers(0, 40, rows)],
            "pid": rng.integers(1, 32_768, rows).astype(np.int32),
            "trace": rng.integers(0, 1 << 62, rows),
            "span": rng.integers(0, 1 << 62, rows),
            "status": rng.integers(100, 600, rows).astype(np.int16),
            "took_ms": rng.exponential(40, rows),
            "sent": rng.integers(0, 1 << 20, rows),
            "received": rng.integers(0, 1 << 20, rows),
            "is_cached": rng.random(rows) < 0.3,
            "zone": words[rng.integers(0, 6, rows)],
            "message": np.char.add(
                "request finished in step ", rng.integers(0, rows, rows).astype(str)
            ),
        }
    )


def session(made: SessionContext, path: str) -> SessionContext:
    made.register_parquet("log", path)
    return made


def compare(title: str, path: str, repeats: int) -> None:
    config = SessionConfig().with_target_partitions(2)
    options = lm.ScanOptions(condition_cache_bytes=0)
    contexts = {
        DATAFUSION: session(SessionContext(config), path),
        "lm SQL": session(lm.SessionContext(config, options=options), path),
    }
    answers = [context.sql(QUERY).to_arrow_table() for context in contexts.values()]
    assert answers[0].equals(answers[1]), "the answers differ"
    runs = {name: (lambda c=c: c.sql(QUERY).collect()) for name, c in contexts.items()}
    show(title, interleave(runs, repeats), DATAFUSION)
    print(f"  {contexts['lm SQL'].scan_reports()[0].reason}")


def main() -> None:
    parser = argparse.ArgumentParser(description="The newest rows of a log.")
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    table = make_log(arguments.rows)
    with tempfile.TemporaryDirectory(prefix="lm-bench-") as folder:
        for has_index in (False, True):
            path = str(pathlib.Path(folder) / f"log_{has_index}.parquet")
            pq.write_table(table, path, row_group_size=1_000_000, write_page_index=has_index)
            compare(f"page index: {'yes' if has_index else 'no'}", path, arguments.repeats)


if __name__ == "__main__":
    main()
