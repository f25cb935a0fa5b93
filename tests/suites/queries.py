"""Queries over a folder of Parquet tables, on plain DataFusion and on ours: TPC-H, TPC-DS.

    python -m tests.suites.queries --data DIR --queries DIR
    python -m tests.suites.queries --data DIR --queries DIR --paths late --match '13.sql'

A table is a file `NAME.parquet` in the folder of data; a query, or several, is a file `*.sql`. The
folders can also be given by SUITE_DATA and SUITE_QUERIES. Prints what `tests.suites.slt` prints.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import sys
import tempfile
import time

from tests.suites.records import Record
from tests.suites.side_by_side import PATHS, compare, reproduction
from tests.suites.slt import FileResult, report

_COMMENT = re.compile(r"--[^\n]*")


def parse_queries(path: pathlib.Path) -> list[Record]:
    """The statements of a file, which semicolons part."""
    text = _COMMENT.sub("", path.read_text())
    return [Record(part.strip(), path.name, 1) for part in text.split(";") if part.strip()]


def run_queries(
    data: pathlib.Path, files: list[pathlib.Path], paths: tuple[str, ...], out: pathlib.Path
) -> list[FileResult]:
    """Runs files of queries, each in sessions of its own."""
    tables = [
        Record(
            f"CREATE EXTERNAL TABLE {table.stem} STORED AS PARQUET LOCATION '{table}'", "data", 0
        )
        for table in sorted(data.glob("*.parquet"))
    ]
    results = []
    for file in files:
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            result = compare([*tables, *parse_queries(file)], lambda _: pathlib.Path(folder), paths)
        scripts = [
            reproduction(difference, out / file.stem / str(number), out)
            for number, difference in enumerate(result.differences)
        ]
        elapsed_s = time.monotonic() - started
        results.append(FileResult(file.name, result, scripts, elapsed_s=elapsed_s))
        words = f"{len(result.differences)} differences, {elapsed_s:.1f} s"
        print(f"{file.name}: {words}", file=sys.stderr, flush=True)
    return results


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", default=os.environ.get("SUITE_DATA"))
    parser.add_argument("--queries", default=os.environ.get("SUITE_QUERIES"))
    parser.add_argument("--paths", default=",".join(PATHS))
    parser.add_argument("--match", default="*.sql", help="a glob of file names")
    parser.add_argument("--out", default="build/suites", help="where scripts and their data go")
    options = parser.parse_args()
    if not options.data or not options.queries:
        parser.error("--data and --queries, or SUITE_DATA and SUITE_QUERIES, name two folders")
    files = sorted(pathlib.Path(options.queries).glob(options.match))
    paths, data = tuple(options.paths.split(",")), pathlib.Path(options.data).resolve()
    results = run_queries(data, files, paths, pathlib.Path(options.out).resolve())
    return 0 if report(results, paths) else 1


if __name__ == "__main__":
    sys.exit(main())
