"""One engine in a process of its own.

In, over a pipe: requests, each a dict with `do`. Out: one reply each, a dict with `ok`.

| do | reply |
|---|---|
| `open` | |
| `reopen` | the engine was closed and opened again: what it cached is gone |
| `run` with `sql` | `wall_s`, `cpu_s`, `peak_bytes`, `start_bytes`, `rows`, `digest` |
| `pruned` with `sql` | `pruned`: what the run before skipped, by level |

A request that fails is answered with `ok` false and `error`. The end of the pipe ends the process.

Why a process each: CPU time and peak memory are a process's, so they are this engine's alone; an
engine that takes too long, or all memory, can be ended without the others.
"""

from __future__ import annotations

import ctypes
import dataclasses
import gc
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from clickbench.engines import Engine
    from clickbench.usage import Meter

_PR_SET_PDEATHSIG = 1


def serve(
    connection: Connection, word: str, files: tuple[str, ...], threads: int, log: str
) -> None:
    """Answers requests until the pipe ends; what the engine prints goes to a file."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the runner gets it, and ends us
    with open(log, "ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    _end_with_parent()
    limit_threads(threads)
    from clickbench.engines import make_engine
    from clickbench.usage import Meter

    engine: Engine | None = None
    meter = Meter()
    while True:
        try:
            request = connection.recv()
        except EOFError:
            if engine is not None:
                engine.close()
            return
        try:
            if request["do"] == "open":
                engine = make_engine(word)
                engine.open(files, threads)
                reply: dict[str, Any] = {}
            else:
                assert engine is not None, "not open"
                reply = _answer(engine, meter, request, files, threads)
            connection.send({"ok": True, **reply})
        except BrokenPipeError:
            return
        # An engine may fail in any way, a Rust panic (BaseException) included.
        except BaseException as error:  # noqa: BLE001
            connection.send({"ok": False, "error": f"{type(error).__name__}: {error}"})


def _answer(
    engine: Engine, meter: Meter, request: dict[str, Any], files: tuple[str, ...], threads: int
) -> dict[str, Any]:
    from clickbench.answers import digest, to_rows

    match request["do"]:
        case "reopen":
            engine.close()
            engine.open(files, threads)
            return {}
        case "pruned":
            return {"pruned": engine.pruned(request["sql"])}
        case "run":
            gc.collect()
            meter.start()
            table = engine.run(request["sql"])
            usage = meter.stop()
            rows = to_rows(table)
            del table
            meter.settle()
            return {**dataclasses.asdict(usage), "rows": rows, "digest": digest(rows)}
    raise ValueError(f"there is no request {request['do']!r}")


def limit_threads(threads: int) -> None:
    """Gives a process as many cores as threads, and tells libraries that ask early."""
    os.environ["POLARS_MAX_THREADS"] = str(threads)
    os.environ["TOKIO_WORKER_THREADS"] = str(threads)
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[:threads])


def _end_with_parent() -> None:
    """On Linux, a runner that is killed takes its workers along."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
