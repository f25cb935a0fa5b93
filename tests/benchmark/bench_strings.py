"""`string` against `string_view`, handed to DataFusion.

    python -m tests.benchmark.bench_strings [--rows 1000000] [--repeats 7]

The same scan as a table in DataFusion, with either type, for queries that live on strings. The
cast to views is part of the time.
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile

from datafusion import SessionConfig, SessionContext

import lm_datafusion as lm
from tests.benchmark.bench_scan import THREADS, write_file
from tests.benchmark.timing import interleave, show

QUERIES = {
    "group by few": "SELECT agent, count(*) FROM t GROUP BY agent",
    "group by many": "SELECT url, count(*) AS n FROM t GROUP BY url ORDER BY n DESC LIMIT 10",
    "group by unique": "SELECT count(DISTINCT comment) FROM t",
    "like": "SELECT count(*) FROM t WHERE url LIKE '%/cart/9%'",
    "order by": "SELECT url FROM t WHERE i0 = 7 ORDER BY url LIMIT 10",
    "join": "SELECT count(*) FROM t a JOIN t b ON a.comment = b.comment WHERE a.i0 = 3",
    "min max": "SELECT min(url), max(comment) FROM t",
}


def session(path: str, string_type: str) -> SessionContext:
    context = SessionContext(SessionConfig().with_target_partitions(THREADS))
    options = lm.ScanOptions(threads=THREADS, string_type=string_type)
    context.register_dataset("t", lm.dataset(path, options=options))
    return context


def main() -> None:
    parser = argparse.ArgumentParser(description="string against string_view in DataFusion.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lm-bench-") as folder:
        path = str(pathlib.Path(folder) / "events.parquet")
        write_file(path, arguments.rows)
        sessions = {kind: session(path, kind) for kind in ("string", "string_view")}
        for name, sql in QUERIES.items():
            runs = {kind: lambda c=c, q=sql: c.sql(q).collect() for kind, c in sessions.items()}
            show(name, interleave(runs, arguments.repeats), "string")


if __name__ == "__main__":
    main()
