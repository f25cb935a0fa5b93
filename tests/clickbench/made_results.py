"""Results files for tests of the report, with times that were made up."""

from __future__ import annotations

import numpy as np

PRUNED = {
    "reader": "late",
    "row_groups_total": 40,
    "row_groups_pruned_statistics": 11,
    "row_groups_pruned_bloom_filter": 5,
    "row_groups_pruned_dictionary": 7,
    "pages_total": 1700,
    "pages_pruned": 1461,
    "rows_total": 2_000_000,
    "rows_selected": 19,
    "bytes_scanned": 3_213_094,
}
ENGINES = ["datafusion", "datafusion-pushdown", "lm", "duckdb", "polars", "spark"]
# lm's time over datafusion's: q01 is faster, q02 slower, q00 the same, and so on.
RATIOS = [1.0, 0.5, 1.6]


def make_results(query_count=43):
    """Six engines on some queries, five runs each."""
    random = np.random.default_rng(3)
    queries = {}
    for number in range(query_count):
        base = 0.002 * 1.2**number
        factors = [1.0, 1.1, RATIOS[number % 3], 0.7, 0.9, 12.0]
        queries[f"q{number:02}"] = {
            "sql": "SELECT 1",
            "engines": {
                word: {"state": "ok", "runs": _runs(base * factor, random), "pruned": {}}
                for word, factor in zip(ENGINES, factors, strict=True)
            },
            "answers": {"d": [[1]]},
            "faults": {"d": None},
        }
        engines = queries[f"q{number:02}"]["engines"]
        engines["lm"]["pruned"] = dict(PRUNED)
        if factors[2] == 1.0:
            engines["lm"]["runs"] = engines["datafusion"]["runs"][::-1]
    return {
        "format": 1,
        "settings": {
            "engines": ENGINES,
            "threads": 2,
            "repeat": 5,
            "cold": False,
            "versions": {"datafusion": "55.0.0"},
        },
        "settings_hash": "x",
        "machine": {
            "processor": "A Processor",
            "cores": 2,
            "memory_bytes": 24 << 30,
            "python": "3.11.7",
            "files": 4,
            "bytes": 282_558_185,
            "rows": 2_000_000,
            "row_groups": 40,
        },
        "queries": queries,
    }


def _runs(seconds, random):
    return [
        {
            "wall_s": seconds * float(np.exp(random.normal(0, 0.02))),
            "cpu_s": seconds * 1.8,
            "peak_bytes": 300_000_000,
            "digest": "d",
        }
        for _ in range(5)
    ]
