"""Statements from many threads while files change, for as long as one likes.

    python -m tests.soak.run --minutes 30 --seed 1

In: minutes and a seed. Out: a line per minute, numbers at the end, exit status 1 if anything was
wrong: an answer, an error without a cause, memory that grows, a thread or handle that is left, a
statement that does not end.

Memory after the warm-up (a third of the run, five minutes at most) may grow by `GROWTH_MIB`. What
is kept on purpose is bounded and full by then, or nearly: footers, conditions, outcomes of
pruning, DataFusion's own caches.

Invariant: the seed decides what is asked and written, not how threads take turns.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import gc
import os
import pathlib
import random
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field

import datafusion

from tests.soak.readers import Reader, new_session
from tests.soak.writer import TABLES, SoakTable

READERS = 8
GROWTH_MIB = 128
LONGEST_STATEMENT_S = 120.0
# Between two changes of files.
PAUSE_S = (0.0, 0.02, 0.1, 0.4)
# Versions that ended so long ago are forgotten.
KEPT_S = 30.0


@dataclass
class Outcome:
    """What a run has met."""

    counts: collections.Counter[str] = field(default_factory=collections.Counter)
    failures: list[str] = field(default_factory=list)
    rss_mib: list[float] = field(default_factory=list)


class Soak:
    """One run in a folder."""

    def __init__(self, home: pathlib.Path, seed: int) -> None:
        self._home = home
        self._seed = seed
        self._tables = [SoakTable(name, home, seed) for name in TABLES]
        self._session = new_session(self._tables)
        self._readers = [Reader(n, seed, self._session, self._tables) for n in range(READERS)]
        self._changes: collections.Counter[str] = collections.Counter()
        self._is_over = threading.Event()

    def run(self, seconds: float, *, report_every_s: float = 60.0) -> Outcome:
        """Runs for so long; prints a line now and then."""
        threads_before = {thread.name for thread in threading.enumerate()}
        threads = [threading.Thread(target=self._write, name="soak-writer", daemon=True)]
        threads += [
            threading.Thread(
                target=reader.run, args=(self._is_over,), name="soak-reader", daemon=True
            )
            for reader in self._readers
        ]
        outcome = Outcome()
        started_s = time.monotonic()
        for thread in threads:
            thread.start()
        try:
            self._watch(outcome, started_s, seconds, report_every_s)
        finally:
            self._is_over.set()
        for thread in threads:
            thread.join(LONGEST_STATEMENT_S)
        outcome.counts = self._counts()
        outcome.failures += [*self._failures(), *self._left(threads_before)]
        return outcome

    def _watch(
        self, outcome: Outcome, started_s: float, seconds: float, report_every_s: float
    ) -> None:
        next_s = started_s + report_every_s
        while time.monotonic() < started_s + seconds and not self._failures():
            time.sleep(0.2)
            now_s = time.monotonic()
            slow = [
                r.busy for r in self._readers if r.busy and now_s - r.busy[0] > LONGEST_STATEMENT_S
            ]
            if slow:
                faulthandler.dump_traceback()
                outcome.failures += [f"does not end: {statement}" for _, statement in slow]
                return
            if now_s >= next_s:
                next_s += report_every_s
                outcome.rss_mib.append(rss_mib())
                self._print_line(now_s - started_s, outcome.rss_mib[-1])

    def _write(self) -> None:
        rng = random.Random(f"{self._seed} writer")
        while not self._is_over.is_set():
            table = rng.choice(self._tables)
            self._changes[table.change(rng, self._is_over)] += 1
            if rng.random() < 0.02:
                table.ledger.forget(KEPT_S)
            self._is_over.wait(rng.choice(PAUSE_S))

    def _counts(self) -> collections.Counter[str]:
        total = collections.Counter({f"files {how}": n for how, n in self._changes.items()})
        for reader in self._readers:
            total.update(reader.counts)
        return total

    def _failures(self) -> list[str]:
        return [failure for reader in self._readers for failure in list(reader.failures)]

    def _left(self, threads_before: set[str]) -> list[str]:
        """Threads and handles that are still there some time after the session is gone.

        A session keeps the last run of each thread, and of one that failed the error, whose
        traceback holds the stream.
        """
        del self._session
        self._readers.clear()
        deadline_s = time.monotonic() + 20
        while True:
            gc.collect()
            # DataFusion puts off some of what a dropped stream leaves to do to its next call.
            datafusion.SessionContext().sql("SELECT 1").collect()
            # Threads of DataFusion's that have called Python are dummies to it, for ever.
            threads = {
                thread.name
                for thread in threading.enumerate()
                if not isinstance(thread, threading._DummyThread)
            } - threads_before
            files = open_files(self._home)
            if not threads and not files:
                return []
            if time.monotonic() > deadline_s:
                return [f"left behind: threads {sorted(threads)}, files {files}"]
            time.sleep(0.05)

    def _print_line(self, elapsed_s: float, rss: float) -> None:
        counts = self._counts()
        shown = ("right", "right while files changed", "file changed", "file missing")
        changes = sum(self._changes.values())
        print(
            f"{elapsed_s / 60:6.1f} min  {counts['statements']:>8,} statements"
            f"  {changes:>7,} changes  "
            + "  ".join(f"{name} {counts[name]:,}" for name in shown)
            + f"  RSS {rss:.0f} MiB  {threading.active_count()} threads"
            f"  {len(os.listdir('/proc/self/fd'))} handles",
            flush=True,
        )


def rss_mib() -> float:
    """Memory of this process that is resident."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def open_files(folder: pathlib.Path) -> list[str]:
    """Files of a folder that this process has open."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{name}")
        except OSError:  # closed since it was listed
            continue
        if path.startswith(str(folder)):
            found.append(path)
    return found


def growth_mib(rss: list[float]) -> float:
    """How much memory grew after the warm-up: the last of the run less what it was then."""
    warm_up = min(5, len(rss) // 3)
    return rss[-1] - rss[warm_up] if rss else 0.0


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Statements while files change.")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, help="(default: random)")
    parser.add_argument("--growth", type=float, default=GROWTH_MIB, help="MiB that memory may grow")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 31) if arguments.seed is None else arguments.seed
    print(f"seed {seed}, {arguments.minutes:g} minutes, {READERS} readers", flush=True)
    with tempfile.TemporaryDirectory() as home:
        outcome = Soak(pathlib.Path(home), seed).run(60 * arguments.minutes)
    for failure in outcome.failures:
        print(f"--- seed {seed}\n{failure}")
    for name, count in sorted(outcome.counts.items()):
        print(f"{count:>10,} {name}")
    grown = growth_mib(outcome.rss_mib)
    print(f"memory grew by {grown:.0f} MiB after the warm-up; {arguments.growth:.0f} are allowed")
    print(f"{len(outcome.failures)} failures from seed {seed}")
    return 1 if outcome.failures or grown > arguments.growth else 0


if __name__ == "__main__":
    sys.exit(main())
