"""Runs the 43 queries of ClickBench on several engines and keeps every measurement.

Each engine lives in a process of its own, with the same number of threads on the same cores. Query
by query the engines take turns, in an order that rotates. Of every run the wall time, the CPU time,
the peak memory and the answer are kept. Answers are compared, and a wrong one makes the exit
status 1. A run that was interrupted goes on where it stopped when it is started again with the
same words.

A process keeps memory for the next query. To compare the peak memory of queries, rather than what
was the most up to then, give each query processes of its own with --restart.

Engines: datafusion; datafusion-pushdown (pushdown_filters and reorder_filters on); lm
(lm_datafusion.SessionContext without a condition cache; lm:late and so on force a path,
lm:remember remembers conditions, lm:dataset registers lm_datafusion.dataset); duckdb; polars;
spark; pyarrow (pyarrow.dataset in DataFusion). Over ORC files: lm, spark, pyarrow and duckdb, which
reads them as PyArrow does.

Example: python -m clickbench run --data data/hits --engines datafusion,lm --queries 20-26
--repeat 9 --out results.json
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from clickbench.queries import QUERY_COUNT, QueryChoiceError, load_queries, parse_choice

if TYPE_CHECKING:
    from clickbench.results import Results

HELP = "run the queries on several engines, compare their answers, keep every measurement"

_ENGINES = "datafusion,datafusion-pushdown,lm,duckdb,polars,spark"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the words of this command."""
    parser.add_argument(
        "--data", required=True, metavar="DIR", help="folder of hits files, Parquet or ORC"
    )
    parser.add_argument(
        "--engines",
        default=_ENGINES,
        metavar="LIST",
        help=f"who takes part, with commas between; default {_ENGINES}",
    )
    parser.add_argument(
        "--queries",
        default=f"0-{QUERY_COUNT - 1}",
        metavar="LIST",
        help="numbers and ranges, as 20-26 or 0,5,40-42; default: all 43",
    )
    parser.add_argument(
        "--repeat",
        type=_positive_int,
        default=5,
        metavar="N",
        help="timed runs of each query and engine; 3 are too few to tell noise, default 5",
    )
    parser.add_argument(
        "--warm-ups",
        type=_positive_int,
        default=3,
        metavar="N",
        help="runs before the timed ones, if hot: an engine may need some to learn; default 3",
    )
    parser.add_argument(
        "--threads",
        type=_positive_int,
        default=_cores(),
        metavar="N",
        help="threads, and cores, of each engine; default: all cores (here %(default)s)",
    )
    parser.add_argument(
        "--cold",
        action="store_true",
        help="before each run, open the engine again and drop the files from the page cache",
    )
    parser.add_argument(
        "--restart",
        action="store_true",
        help="begin each query with new processes: peak memory is then that of the query alone",
    )
    parser.add_argument(
        "--cap",
        type=_cap,
        action="append",
        default=[],
        metavar="[ENGINE=]SECONDS",
        help="longest time for one run; an engine that takes longer is out for that query, and"
        " neither repeated nor compared; as 60, or spark=20, or both",
    )
    parser.add_argument("--out", default="results.json", metavar="FILE", help="default %(default)s")
    parser.add_argument(
        "--fresh", action="store_true", help="replace what --out has instead of going on with it"
    )


def main(arguments: argparse.Namespace) -> int:
    """Runs; 0 if all went well, 1 if an answer is wrong or an engine failed, 2 for bad words."""
    from clickbench.engines import EngineError
    from clickbench.machine import DataError
    from clickbench.results import ResultsError

    try:
        return _run(arguments)
    except (DataError, EngineError, QueryChoiceError, ResultsError) as error:
        print(f"clickbench run: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted; the same command goes on from here", file=sys.stderr)
        return 130


def _run(arguments: argparse.Namespace) -> int:
    from clickbench.contender import Contender
    from clickbench.engines import parse_engines
    from clickbench.machine import check_unchanged, find_files
    from clickbench.referee import Referee
    from clickbench.schedule import Manner, Schedule

    words = parse_engines(arguments.engines)
    caps = _caps(arguments.cap, words)
    queries = load_queries(parse_choice(arguments.queries))
    files = find_files(arguments.data)
    results = _open_results(arguments, caps, files)
    log = f"{os.path.splitext(arguments.out)[0]}.log"
    print(
        f"{len(queries)} queries, {len(words)} engines with {arguments.threads} threads each,"
        f" {arguments.repeat} {'cold' if arguments.cold else 'hot'} runs;"
        f" results in {arguments.out}, what engines print in {log}",
        flush=True,
    )
    contenders = [
        Contender(word, files, arguments.threads, cap_s=caps[word], log=log) for word in words
    ]
    schedule = Schedule(
        results=results,
        contenders=contenders,
        referee=Referee(files, arguments.threads),
        manner=Manner(
            repeats=arguments.repeat,
            warm_ups=arguments.warm_ups,
            cold_files=files if arguments.cold else None,
            restarts=arguments.restart,
        ),
        say=lambda line: print(line, flush=True),
        guard=lambda: check_unchanged(files, results.data["settings"]["data"]),
    )
    # Workers inherit the folder, and what they leave in it (Spark, spilled sorts) goes with it.
    with tempfile.TemporaryDirectory(prefix="clickbench-", ignore_cleanup_errors=True) as folder:
        os.environ["TMPDIR"] = folder
        try:
            schedule.run(queries)
        finally:
            for contender in contenders:
                contender.close()
    return _conclude(results)


def _open_results(
    arguments: argparse.Namespace, caps: dict[str, float | None], files: tuple[str, ...]
) -> Results:
    from clickbench.machine import fingerprint, machine_facts, versions
    from clickbench.results import Results

    settings: dict[str, Any] = {
        "data": fingerprint(files),
        "engines": list(caps),
        "queries": arguments.queries,
        "repeat": arguments.repeat,
        "warm_ups": arguments.warm_ups,
        "threads": arguments.threads,
        "cold": arguments.cold,
        "restart": arguments.restart,
        "caps_s": caps,
        "versions": versions(tuple(caps)),
    }
    if os.path.exists(arguments.out) and not arguments.fresh:
        return Results.resume(arguments.out, settings)
    return Results.begin(arguments.out, settings, machine_facts(files))


def _conclude(results: Results) -> int:
    """Says what went wrong; the exit status."""
    from clickbench.schedule import wrong_engines

    wrong = capped = failed = 0
    for name, part in results.data["queries"].items():
        for word, fault in wrong_engines(part).items():
            wrong += 1
            print(f"{name} {word}: WRONG ANSWER: {fault}")
        for word, engine in part["engines"].items():
            if engine["state"] == "failed":
                failed += 1
                print(f"{name} {word}: failed: {engine['error']}")
            elif engine["state"] == "capped":
                capped += 1
                print(f"{name} {word}: capped: {engine['error']}")
    if not wrong and not failed:
        print("all answers equal" + (f"; {capped} capped and not compared" if capped else ""))
        return 0
    print(f"{wrong} wrong answers, {failed} failures, {capped} capped")
    return 1


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _positive_int(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def _cap(text: str) -> tuple[str, float]:
    """`spark=20` as an engine and seconds; `60` as no engine and seconds."""
    word, _, seconds = text.rpartition("=")
    number = float(seconds)
    if not number > 0:
        raise argparse.ArgumentTypeError(f"{text}: a cap is more than 0 seconds")
    return word, number


def _caps(given: list[tuple[str, float]], words: tuple[str, ...]) -> dict[str, float | None]:
    """Each engine's cap: its own, or that of all."""
    from clickbench.engines import EngineError

    caps = dict(given)
    unknown = caps.keys() - {"", *words}
    if unknown:
        raise EngineError(f"--cap names {', '.join(sorted(unknown))}, which takes no part")
    return {word: caps.get(word, caps.get("")) for word in words}
