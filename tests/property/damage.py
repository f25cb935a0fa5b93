"""Damaged Parquet files: an error of ours, or an answer that another reader gives as well.

    python -m tests.property.damage --cases 20000
    python -m tests.property.damage --seed 123456 --cases 1     # repeats one case

In: a number of cases, and the seed of the first; case i has the seed `--seed` + i. Out: failures
with the seed that repeats each, and how often each outcome was met.

1. A watched process scans the damaged file; one case in seven without kernels. An error has to be a
   `LateError`. A crash, more than ten seconds or more than a gigabyte is a failure, and the process
   is started again.
2. An answer that is that of the undamaged file is right.
3. Any other answer has to be that of DataFusion, PyArrow or DuckDB over the same damaged file. They
   may crash and hang, too, so they have a watched process of their own.
4. If it is none of theirs, the file is scanned without pruning. If that gives the undamaged answer
   or theirs, then statistics that are wrong and look right misled pruning: nobody can notice that.
5. If a condition was asked, and ours refuses the file when it has to read the columns whole, then
   the damage is in pages that hold no row of the answer: those are never read.
6. Levels that are damaged move the rows of a list or map, up to where a read ends. If ours gives
   the answer of another reader once it reads row groups whole, that is what happened.
7. If it is the answer of another reader over the file without statistics, then only these were
   refused. Else it is a failure.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import json
import os
import queue
import random
import select
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MOST_SECONDS = 10.0
START_SECONDS = 60.0
# Seconds are of processor time. A machine that does other work takes longer by the clock; a process
# that does nothing hangs after so many times as long.
WAITING = 6
MOST_BYTES = 1 << 30
OTHERS = ("datafusion", "pyarrow", "duckdb")
# One in so many cases runs without kernels.
WITHOUT_KERNELS = 7
# Processes are replaced after so many requests: what libraries leak is not a file's doing.
REQUESTS = 5000


class Watched:
    """A worker process that answers requests, one at a time; it is started when it is needed."""

    def __init__(self, *, has_kernels: bool = True) -> None:
        self._environment = os.environ | ({} if has_kernels else {"LM_DATAFUSION_KERNELS": "off"})
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: Any = None
        self._served = 0

    def ask(self, reader: str, seed: int) -> dict[str, Any]:
        """What the worker says, or how it ended: `crash`, `hang` or `memory`."""
        if self._served >= REQUESTS:
            self.stop()
        if self._process is None:
            self._start()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        self._served += 1
        try:
            process.stdin.write(json.dumps({"reader": reader, "seed": seed}).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            return self._ended("crash")
        found = self._wait(MOST_SECONDS)
        if found.get("peak_bytes", 0) > MOST_BYTES:
            self.stop()
            return {"outcome": "memory", "text": f"{found['peak_bytes'] >> 20} MiB: {found}"}
        return found

    def stop(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._errors.close()
            self._process = None

    def _start(self) -> None:
        command = [sys.executable, *(["-P"] if sys.flags.safe_path else [])]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 closed when the process ends
        self._process = subprocess.Popen(
            [*command, "-m", "tests.property.damage_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=self._environment,
            cwd=ROOT,
        )
        self._served = 0
        ready = self._wait(START_SECONDS)
        if ready["outcome"] != "ready":
            raise RuntimeError(f"the worker does not start: {ready}")

    def _wait(self, seconds: float) -> dict[str, Any]:
        """The next line of the worker."""
        process, line = self._process, b""
        assert process is not None
        assert process.stdout is not None
        descriptor, until = process.stdout.fileno(), time.monotonic() + seconds * WAITING
        since = _processor_seconds(process.pid)
        while not line.endswith(b"\n"):
            if time.monotonic() > until or _processor_seconds(process.pid) > since + seconds:
                return self._ended("hang")
            if _resident_bytes(process.pid) > MOST_BYTES:
                return self._ended("memory")
            if select.select([descriptor], [], [], 0.1)[0]:
                piece = os.read(descriptor, 1 << 16)
                if not piece:
                    process.wait()
                    return self._ended("crash")
                line += piece
        found: dict[str, Any] = json.loads(line)
        return found

    def _ended(self, outcome: str) -> dict[str, Any]:
        assert self._process is not None
        code = self._process.poll()
        self._errors.seek(0)
        text = self._errors.read().decode(errors="replace")[-3000:]
        self.stop()
        return {"outcome": outcome, "text": f"{outcome}, exit code {code}\n{text}"}


def _processor_seconds(process_id: int) -> float:
    try:
        with open(f"/proc/{process_id}/stat") as file:
            user, system = file.read().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return 0.0


def _resident_bytes(process_id: int) -> int:
    try:
        with open(f"/proc/{process_id}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What came of a case; `failure` says what is wrong, if something is."""

    outcome: str
    failure: str | None = None


class Lane:
    """Processes that look at one case after the other: ours with and without kernels, others'."""

    def __init__(self) -> None:
        self._ours = Watched()
        self._splices = Watched(has_kernels=False)
        self._others = Watched()

    def stop(self) -> None:
        for worker in (self._ours, self._splices, self._others):
            worker.stop()

    def judge(self, seed: int) -> Verdict:
        """Runs a case."""
        worker = self._splices if seed % WITHOUT_KERNELS == 0 else self._ours
        ours = worker.ask("ours", seed)
        outcome = ours["outcome"]
        if outcome in ("failure", "crash", "hang", "memory"):
            return Verdict(outcome=outcome, failure=ours["text"])
        if outcome == "error":
            return Verdict(outcome=f"error: {ours['error']}")
        if outcome != "values":
            return Verdict(outcome=outcome)
        return self._compare(seed, worker, ours)

    def _compare(self, seed: int, worker: Watched, ours: dict[str, Any]) -> Verdict:
        others = {}
        for reader in OTHERS:
            others[reader] = found = self._others.ask(reader, seed)
            if found.get("digest") == ours["digest"]:
                return Verdict(outcome=f"values, as {reader}")
        right = {found.get("digest") for found in others.values()} - {None}
        unpruned = worker.ask("unpruned", seed)
        if unpruned.get("digest") in right | {ours["expected"]}:
            return Verdict(outcome="values, by misleading statistics")
        whole = worker.ask("whole", seed)
        if ours["has_condition"] and whole["outcome"] == "error":
            return Verdict(outcome="values, of pages without damage")
        if ours["is_repeated"] and whole.get("digest") in right:
            return Verdict(outcome="values, as others read whole row groups")
        for reader in OTHERS:
            name = f"{reader}, repaired"
            others[name] = found = self._others.ask(name, seed)
            if found.get("digest") in (ours["digest"], unpruned.get("digest")):
                return Verdict(outcome=f"values, as {reader} without statistics")
        name = "values that nobody else gives" if right else "values that others refuse"
        shown = "\n".join(f"{reader}: {found}" for reader, found in others.items())
        return Verdict(outcome=name, failure=f"{name}\nours: {ours}\nunpruned: {unpruned}\n{shown}")


def run_cases(seed: int, cases: int, workers: int) -> Iterator[tuple[int, Verdict]]:
    """The verdict of each case, as they come."""
    lanes: queue.SimpleQueue[Lane] = queue.SimpleQueue()
    for _ in range(workers):
        lanes.put(Lane())

    def run(case: int) -> tuple[int, Verdict]:
        lane = lanes.get()
        try:
            return case, lane.judge(case)
        finally:
            lanes.put(lane)

    try:
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            try:
                yield from pool.map(run, range(seed, seed + cases))
            finally:
                pool.shutdown(cancel_futures=True)
    finally:
        for _ in range(workers):
            lanes.get().stop()


def main() -> int:
    parser = argparse.ArgumentParser(description="Damaged Parquet files, scanned.")
    parser.add_argument("--cases", type=int, default=20_000, help="how many cases to run")
    parser.add_argument("--seed", type=int, help="seed of the first case (default: random)")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="cases at a time")
    parser.add_argument("--stop-after", type=int, default=20, help="failures to show, then stop")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 31) if arguments.seed is None else arguments.seed
    print(f"seed {seed}, {arguments.cases} cases", flush=True)  # noqa: T201
    outcomes: collections.Counter[str] = collections.Counter()
    failures, started = 0, time.monotonic()
    for case, verdict in run_cases(seed, arguments.cases, arguments.workers):
        outcomes[verdict.outcome] += 1
        if verdict.failure is not None:
            failures += 1
            print(  # noqa: T201
                f"--- seed {case} failed; to repeat it:"
                f" python -m tests.property.damage --seed {case} --cases 1\n{verdict.failure}",
                flush=True,
            )
            if failures >= arguments.stop_after:
                break
        if outcomes.total() % 1000 == 0:
            rate = outcomes.total() / (time.monotonic() - started)
            print(f"{outcomes.total()} cases, {failures} failures, {rate:.0f}/s", flush=True)  # noqa: T201
    for name, count in sorted(outcomes.items()):
        print(f"{count:>10,} {name}")  # noqa: T201
    print(f"{failures} failures in {outcomes.total()} cases from seed {seed}")  # noqa: T201
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
