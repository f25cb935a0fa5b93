"""What an engine is to the runner, and what `hits` means to all of them.

In: Parquet or ORC files, a number of threads. Out: per query an Arrow table, and what was pruned.

Every engine sees the table as ClickBench's entry for DataFusion does: all columns of the files but
`EventDate`, then `EventDate` as a date (the files have days since 1970). `SELECT *` therefore has
the same order of columns everywhere.

Invariant: an engine that is open and not asked anything does nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa


class EngineError(ValueError):
    """An engine that is not known, or cannot be started."""


def is_orc(files: Sequence[str]) -> bool:
    """Whether files are ORC; those of a run are of one format."""
    return files[0].endswith(".orc")


def refuse_orc(files: Sequence[str], name: str) -> None:
    """For engines that read Parquet only.

    Raises:
        EngineError: The files are ORC.
    """
    if is_orc(files):
        raise EngineError(f"{name} does not read ORC; lm, spark, pyarrow and duckdb do")


class Engine(Protocol):
    """One contender: opened once, asked many times."""

    def open(self, files: Sequence[str], threads: int) -> None:
        """Starts the engine and gives it the files as `hits`."""

    def run(self, sql: str) -> pa.Table:
        """The answer to a query in DataFusion's spelling, wholly in memory."""

    def pruned(self, sql: str) -> dict[str, Any]:
        """What reading for a query that has just run skipped; empty where nobody knows."""

    def close(self) -> None:
        """Gives back what `open` took; the engine can be opened again."""
