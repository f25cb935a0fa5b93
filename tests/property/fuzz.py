"""The long-running mode of the differential test.

    python -m tests.property.fuzz --cases 20000
    python -m tests.property.fuzz --seed 123456 --cases 1     # replays one case

    python -m tests.property.fuzz --statements --cases 5000   # SQL statements, on every path
    python -m tests.property.fuzz --orders --cases 5000       # reverse scans, first rows
    python -m tests.property.fuzz --text --cases 20000        # conditions on text

Case i of a run has the seed `--seed` + i; a failure prints the seed that replays it.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import multiprocessing
import os
import random
import sys
import time
import traceback
from typing import TYPE_CHECKING

from tests.property.cases import run_case
from tests.property.limits import run_limit
from tests.property.orders import run_order_case
from tests.property.statements import run_statement
from tests.property.text_conditions import run_text_case

if TYPE_CHECKING:
    from collections.abc import Callable

    import lm_datafusion as lm

# What a run must have met to mean something; summed up and printed at the end.
SEEN = (
    "row_groups_pruned_statistics",
    "row_groups_pruned_bloom_filter",
    "row_groups_pruned_dictionary",
    "row_groups_fully_matched",
    "pages_pruned",
    "dictionary_evaluations",
    "chunks_by_kernels",
    "chunks_by_splice",
    "chunks_fallback",
    "predicate_evaluation_errors",
    "rows_selected",
    "pages_pruned_early_stop",
    "row_groups_pruned_early_stop",
)


def run_seed(seed: int) -> tuple[str | None, dict[str, int]]:
    """The failure of one case, or None; and what its scan met."""
    return _run(run_case, seed)


def run_order_seed(seed: int) -> tuple[str | None, dict[str, int]]:
    """As `run_seed`, for a reverse scan and first rows."""
    return _run(run_order_case, seed)


def run_text_seed(seed: int) -> tuple[str | None, dict[str, int]]:
    """As `run_seed`, for conditions on text."""
    return _run(run_text_case, seed)


def _run(
    run: Callable[[random.Random], lm.ScanReport | None], seed: int
) -> tuple[str | None, dict[str, int]]:
    try:
        report = run(random.Random(seed))
    except BaseException:  # noqa: BLE001 reported with its seed
        return traceback.format_exc(), {}
    return None, {} if report is None else {name: getattr(report, name) for name in SEEN}


def run_statement_seed(seed: int) -> tuple[str | None, dict[str, int]]:
    """As `run_seed`, for a statement; one in eight has a limit and no order."""
    run = run_limit if seed % 8 == 0 else run_statement
    try:
        return None, run(random.Random(seed))
    except BaseException:  # noqa: BLE001 reported with its seed
        return traceback.format_exc(), {}


def main() -> int:
    parser = argparse.ArgumentParser(description="Random scans against DataFusion in memory.")
    parser.add_argument("--cases", type=int, default=20_000, help="how many cases to run")
    parser.add_argument("--seed", type=int, help="seed of the first case (default: random)")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--stop-after", type=int, default=5, help="failures to show, then stop")
    parser.add_argument("--statements", action="store_true", help="statements, not scans")
    parser.add_argument("--orders", action="store_true", help="reverse scans and first rows")
    parser.add_argument("--text", action="store_true", help="conditions on text")
    arguments = parser.parse_args()
    run = run_order_seed if arguments.orders else run_seed
    run = run_text_seed if arguments.text else run
    run = run_statement_seed if arguments.statements else run
    seed = random.SystemRandom().randrange(1 << 31) if arguments.seed is None else arguments.seed
    print(f"seed {seed}, {arguments.cases} cases", flush=True)  # noqa: T201
    failures, started = 0, time.monotonic()
    seen: collections.Counter[str] = collections.Counter()
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(arguments.workers, mp_context=context) as pool:
        seeds = range(seed, seed + arguments.cases)
        for done, (case, (failure, counts)) in enumerate(
            zip(seeds, pool.map(run, seeds, chunksize=20), strict=True), start=1
        ):
            seen.update(counts)
            if failure is not None:
                failures += 1
                print(f"--- seed {case} failed\n{failure}", flush=True)  # noqa: T201
                if failures >= arguments.stop_after:
                    pool.shutdown(cancel_futures=True)
                    break
            if done % 1000 == 0:
                rate = done / (time.monotonic() - started)
                print(f"{done} cases, {failures} failures, {rate:.0f}/s", flush=True)  # noqa: T201
    for name in sorted(seen) if arguments.statements else SEEN:
        print(f"{seen[name]:>10,} {name}")  # noqa: T201
    print(f"{failures} failures in {done} cases from seed {seed}")  # noqa: T201
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
