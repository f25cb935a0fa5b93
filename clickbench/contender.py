"""The runner's side of an engine's process.

In: queries. Out: replies of the worker, or why there is none.

A process is started when it is first needed, and again after it was ended. One that exceeds the
cap is ended with all its children, and so is one that cannot be talked to any more.

Invariant: after any call, the process is idle or gone.
"""

from __future__ import annotations

import multiprocessing
from typing import TYPE_CHECKING, Any

import psutil

from clickbench.worker import serve

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

_START_S = 300.0
_FAREWELL_S = 30.0
_ERROR_LENGTH = 400


class CapError(Exception):
    """A query took longer than the cap."""


class ContenderError(Exception):
    """An engine refused a query, or its process died."""


class Contender:
    """An engine, by its word, in a process that is started when needed.

    Args:
        word: As `datafusion` or `lm:late`.
        files: The Parquet files of `hits`.
        threads: Threads and cores the engine may use.
        cap_s: Longest time of a request; None for no limit.
        log: File that gets what the engine prints.
    """

    def __init__(
        self, word: str, files: tuple[str, ...], threads: int, *, cap_s: float | None, log: str
    ) -> None:
        self.word = word
        self._log = log
        self._files = files
        self._threads = threads
        self._cap_s = cap_s
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None

    def run(self, sql: str) -> dict[str, Any]:
        """Runs a query; the worker's reply.

        Raises:
            CapError: It took longer than the cap; the process is gone.
            ContenderError: It failed, or the process died.
        """
        return self._ask({"do": "run", "sql": sql}, self._cap_s)

    def pruned(self, sql: str) -> dict[str, Any]:
        """What reading for the query that has just run skipped.

        Raises:
            CapError: As for `run`.
            ContenderError: As for `run`.
        """
        return dict(self._ask({"do": "pruned", "sql": sql}, self._cap_s)["pruned"])

    def reopen(self) -> None:
        """Makes the engine forget what it cached.

        Raises:
            ContenderError: As for `run`.
        """
        self._ask({"do": "reopen"}, _START_S)

    def close(self) -> None:
        """Lets the process close its engine and end; ends it where it does not."""
        if self._process is not None and self._connection is not None:
            self._connection.close()
            self._process.join(_FAREWELL_S)
            self.kill()

    def kill(self) -> None:
        """Ends the process and its children at once."""
        if self._process is not None and self._connection is not None:
            self._connection.close()
            _end(self._process)
            self._process = self._connection = None

    def _ask(self, request: dict[str, Any], patience_s: float | None) -> dict[str, Any]:
        if self._process is None:
            self._start()
        return self._talk(request, patience_s)

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=serve, args=(theirs, self.word, self._files, self._threads, self._log)
        )
        self._process.start()
        theirs.close()
        try:
            self._talk({"do": "open"}, _START_S)
        except ContenderError:
            self.kill()
            raise

    def _talk(self, request: dict[str, Any], patience_s: float | None) -> dict[str, Any]:
        assert self._connection is not None
        try:
            self._connection.send(request)
            if not self._connection.poll(patience_s):
                self.kill()
                raise CapError(f"{self.word} took longer than {patience_s:g} s")
            reply = dict(self._connection.recv())
        except (EOFError, OSError) as error:
            self.kill()
            raise ContenderError(f"the process of {self.word} died") from error
        if not reply["ok"]:
            raise ContenderError(_first_line(reply["error"]))
        return reply


def _first_line(text: str) -> str:
    """What went wrong, without the stack of a JVM."""
    line = " ".join(text.split("\n\tat ", maxsplit=1)[0].split())
    return line if len(line) <= _ERROR_LENGTH else f"{line[:_ERROR_LENGTH]} ..."


def _end(process: BaseProcess) -> None:
    """Ends a process and all its children, by their ids."""
    try:
        family = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        family = []
    process.kill()
    for child in family:
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue
    process.join()
    psutil.wait_procs(family, timeout=10)
