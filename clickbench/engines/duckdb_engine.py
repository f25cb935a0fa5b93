"""DuckDB over Parquet files, or over ORC files as PyArrow reads them.

In: files, SQL. Out: Arrow tables. The view is that of ClickBench's entry for DuckDB, with
`EventDate` moved to the end, where every engine has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.dataset as ds

from clickbench.dialects import translate
from clickbench.engines.engine import is_orc

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa


class DuckDB:
    """An in-memory database with one view."""

    def __init__(self) -> None:
        self._connection: duckdb.DuckDBPyConnection | None = None

    def open(self, files: Sequence[str], threads: int) -> None:
        """Makes the database and the view."""
        self._connection = duckdb.connect(config={"threads": threads})
        names = ", ".join(f"'{name.replace(chr(39), chr(39) * 2)}'" for name in files)
        source = f"read_parquet([{names}], binary_as_string = true)"
        if is_orc(files):
            source = "hits_files"
            self._connection.register(source, ds.dataset(list(files), format="orc"))
        self._connection.execute(
            'CREATE TEMP VIEW hits AS SELECT * EXCLUDE ("EventDate"),'
            ' make_date(CAST("EventDate" AS INTEGER)) AS "EventDate"'
            f" FROM {source}"
        )

    def run(self, sql: str) -> pa.Table:
        """The answer."""
        return self.connection.sql(translate(sql, "duckdb")).to_arrow_table()

    def pruned(self, sql: str) -> dict[str, Any]:  # noqa: ARG002 - the protocol's
        """DuckDB does not tell."""
        return {}

    def close(self) -> None:
        """Closes the database."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The open database."""
        assert self._connection is not None, "not open"
        return self._connection
