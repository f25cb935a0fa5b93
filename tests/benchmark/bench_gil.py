"""The share of time that a late scan holds Python's lock, the GIL.

    python -m tests.benchmark.bench_gil --data DIR [--queries 10,12,21,30] [--threads 2]
        [--seconds 5]

What holds the lock runs on one core, however many there are: the share bounds how far a scan
scales. DIR holds ClickBench's files (`python -m clickbench generate`).

How it is measured: one process runs a query again and again; another looks into
its memory every half millisecond (`/proc/PID/mem`) to see whether the lock is taken. Nothing is
added to the process that is measured, and threads that wait for a core do not count as waiting
for the lock, as they would if one counted what a Python thread loses beside the query.

Where the lock is: among the words of CPython's state (`_PyRuntime`), the one that is never zero
while Python code runs and always zero while all threads sleep. It is looked for each time, by
these two states.

Every look counts. To leave out those between which the clock of the process stood still would be
wrong: that clock seems to move mostly when threads change, which is when the lock changes hands.
(One scan thread held the lock 29 % of the time by that count, 14 % by this one; `py-spy --gil` saw
no more of it than in the same scan without threads.) Other work on the machine makes shares larger:
a thread may lose its core while it has the lock. On a busy machine, `--threads 1` is the steadier
number; of n threads the share is at most n times that.

Linux only. The condition cache is off: with it, these queries would evaluate nothing.
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import os
import pathlib
import time
from typing import TYPE_CHECKING

import numpy as np

import lm_datafusion as lm
from clickbench.queries import load_queries, load_view, parse_choice

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

STATE_BYTES = 256 * 1024
PAUSE_S = 0.0005
CALIBRATION_S = 0.4


class Memory:
    """The memory of another process, and in it the word that says whether the lock is taken."""

    def __init__(self, pid: int, address: int) -> None:
        self._handle = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
        self._address = address

    def words(self) -> np.ndarray:
        data = os.pread(self._handle, STATE_BYTES, self._address)
        return np.frombuffer(data[: len(data) // 8 * 8], dtype=np.uint64)

    def narrow_to(self, word: int) -> None:
        self._address += 8 * word

    def is_taken(self) -> bool:
        return os.pread(self._handle, 8, self._address) != bytes(8)


def worker(pipe: Connection, data: str, path: str, threads: int) -> None:
    """Does what the pipe says until the next word comes: spins, sleeps, or runs a query."""
    context = make_session(data, path, threads)
    runtime = ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime")
    pipe.send(ctypes.addressof(runtime))
    while (task := pipe.recv()) is not None:
        kind, seconds = task
        if kind not in ("spin", "sleep"):
            context.sql(kind).collect()
        pipe.send("begin")
        runs, stop = 0, time.perf_counter() + seconds
        started = time.perf_counter()
        if kind == "sleep":
            time.sleep(seconds)
        while time.perf_counter() < stop:
            if kind != "spin":
                context.sql(kind).collect()
                runs += 1
        pipe.send((runs, time.perf_counter() - started))


def make_session(data: str, path: str, threads: int) -> lm.SessionContext:
    import datafusion

    config = datafusion.SessionConfig(
        {
            "datafusion.execution.target_partitions": str(threads),
            "datafusion.execution.parquet.binary_as_string": "true",
        }
    )
    options = lm.ScanOptions(path=path, threads=threads, condition_cache_bytes=0)
    context = lm.SessionContext(config, options=options)
    context.register_parquet("hits_raw", os.path.join(data, ""))
    context.sql(load_view())
    return context


def find_lock(pipe: Connection, memory: Memory) -> None:
    """Narrows the memory to the word that is not zero in one state and zero in the other."""
    fits = np.ones(STATE_BYTES // 8, dtype=np.bool_)
    for kind in ("spin", "sleep") * 3:
        pipe.send((kind, CALIBRATION_S))
        pipe.recv()
        time.sleep(0.05)
        for _ in range(50):
            words = memory.words() != 0
            fits[: len(words)] &= words if kind == "spin" else ~words
            fits[len(words) :] = False
            time.sleep(0.002)
        pipe.recv()
    (found,) = np.nonzero(fits)
    if not len(found):
        raise SystemExit("no word of this Python's state follows its lock")
    memory.narrow_to(int(found[0]))


def taken_share(pipe: Connection, memory: Memory, task: str, seconds: float) -> tuple[float, float]:
    """The share of looks that found the lock taken, and seconds per run of the query."""
    pipe.send((task, seconds))
    pipe.recv()
    taken = looks = 0
    while not pipe.poll():
        taken += memory.is_taken()
        looks += 1
        time.sleep(PAUSE_S)
    runs, elapsed_s = pipe.recv()
    return taken / max(looks, 1), elapsed_s / max(runs, 1)


def measure(
    data: str, path: str, numbers: tuple[int, ...], *, threads: int, seconds: float
) -> None:
    mine, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=worker, args=(theirs, data, path, threads)
    )
    process.start()
    try:
        memory = Memory(process.pid, mine.recv())
        find_lock(mine, memory)
        checked = [taken_share(mine, memory, kind, 0.5)[0] for kind in ("spin", "sleep")]
        check = f"spinning {checked[0]:.1%}, sleeping {checked[1]:.1%}"
        print(f"\n{data}, {path}, {threads} threads (check: {check})")
        for query in load_queries(numbers):
            share, each_s = taken_share(mine, memory, query.sql.rstrip("; \n"), seconds)
            print(f"  {query.name}  {share:6.1%} of the time, {each_s * 1e3:7.1f} ms a run")
    finally:
        mine.send(None)
        process.join()


def main() -> None:
    parser = argparse.ArgumentParser(description="The share of time a scan holds the GIL.")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="ClickBench's files")
    parser.add_argument("--queries", default="10,12,21,30", help="as 5 or 20-26, comma-separated")
    parser.add_argument("--seconds", type=float, default=5.0, help="per query")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--paths", default="late", help="paths of ours, comma-separated")
    arguments = parser.parse_args()
    numbers = parse_choice(arguments.queries)
    for path in arguments.paths.split(","):
        measure(
            str(arguments.data),
            path,
            numbers,
            threads=arguments.threads,
            seconds=arguments.seconds,
        )


if __name__ == "__main__":
    main()
