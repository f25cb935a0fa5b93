"""Polars over Parquet files, asked through its SQLContext.

In: Parquet files, SQL. Out: Arrow tables. Its number of threads is fixed when it is imported: the
worker sets POLARS_MAX_THREADS before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from clickbench.dialects import translate
from clickbench.engines.engine import EngineError, refuse_orc

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa


class Polars:
    """A lazy frame over the files, under the name `hits`."""

    def __init__(self) -> None:
        self._context: pl.SQLContext[pl.LazyFrame] | None = None

    def open(self, files: Sequence[str], threads: int) -> None:
        """Makes the lazy frame.

        Raises:
            EngineError: Polars was imported with another number of threads, or the files are ORC.
        """
        refuse_orc(files, "Polars")
        if pl.thread_pool_size() != threads:
            raise EngineError(
                f"polars has {pl.thread_pool_size()} threads, not {threads};"
                " POLARS_MAX_THREADS is read when it is imported"
            )
        raw = pl.scan_parquet(list(files))
        schema = raw.collect_schema()
        columns = [
            pl.col(name).cast(pl.String) if kind == pl.Binary else pl.col(name)
            for name, kind in schema.items()
            if name != "EventDate"
        ]
        date = pl.col("EventDate").cast(pl.Int32).cast(pl.Date)
        self._context = pl.SQLContext(hits=raw.select(*columns, date))

    def run(self, sql: str) -> pa.Table:
        """The answer."""
        assert self._context is not None, "not open"
        return self._context.execute(translate(sql, "polars")).collect().to_arrow()

    def pruned(self, sql: str) -> dict[str, Any]:  # noqa: ARG002 - the protocol's
        """Polars does not tell."""
        return {}

    def close(self) -> None:
        """Drops the frame."""
        self._context = None
