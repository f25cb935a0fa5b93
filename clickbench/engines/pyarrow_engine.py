"""PyArrow's own dataset, asked through DataFusion's SQL.

In: Parquet or ORC files, SQL. Out: Arrow tables. DataFusion hands the dataset columns and those
filters that PyArrow understands; `pyarrow.dataset` reads, and DataFusion does the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import datafusion
import pyarrow as pa
import pyarrow.dataset as ds

from clickbench.engines.engine import is_orc
from clickbench.queries import load_view

if TYPE_CHECKING:
    from collections.abc import Sequence


class PyArrow:
    """A session with a PyArrow dataset."""

    def __init__(self) -> None:
        self._context: datafusion.SessionContext | None = None

    def open(self, files: Sequence[str], threads: int) -> None:
        """Makes the session, the dataset and the view."""
        pa.set_cpu_count(threads)
        pa.set_io_thread_count(threads)
        config = {"datafusion.execution.target_partitions": str(threads)}
        self._context = datafusion.SessionContext(datafusion.SessionConfig(config))
        source = ds.dataset(list(files), format="orc" if is_orc(files) else "parquet")
        self._context.register_dataset("hits_raw", source)
        self._context.sql(load_view())

    def run(self, sql: str) -> pa.Table:
        """The answer."""
        assert self._context is not None, "not open"
        frame = self._context.sql(sql)
        batches = frame.collect()
        return pa.Table.from_batches(batches, schema=None if batches else frame.schema())

    def pruned(self, sql: str) -> dict[str, Any]:  # noqa: ARG002 - the protocol's
        """PyArrow does not tell."""
        return {}

    def close(self) -> None:
        """Drops the session."""
        self._context = None
