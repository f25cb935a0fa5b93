"""Tables of a session as Parquet files of small row groups and pages.

In: a session and the statements that run in it. Out: the same session, in which tables that hold
rows in memory, or in CSV or JSON files, are Parquet tables.

Before a statement that changes a table its original comes back; after it, a new file is written.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import datafusion
import pyarrow as pa

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterable

_NAME = r"(?P<name>[A-Za-z_]\w*)(?=[\s(;]|$)"
_CREATE = re.compile(
    rf"\s*CREATE\s+(?:OR\s+REPLACE\s+)?(?P<external>EXTERNAL\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?{_NAME}",
    re.IGNORECASE,
)
_CHANGE = re.compile(
    rf"\s*(?:INSERT\s+(?:INTO|OVERWRITE)(?:\s+TABLE)?|DELETE\s+FROM|UPDATE|TRUNCATE\s+TABLE|MERGE\s+INTO)\s+{_NAME}",
    re.IGNORECASE,
)
_DROP = re.compile(rf"\s*DROP\s+TABLE\s+(?:IF\s+EXISTS\s+)?{_NAME}", re.IGNORECASE)
# Tables that stay what they are: Parquet already, endless, or with an order that is declared.
_LEFT_ALONE = re.compile(r"STORED\s+AS\s+PARQUET|UNBOUNDED|WITH\s+ORDER", re.IGNORECASE)
MOST_ROWS = 300_000


class Replicas:
    """The Parquet files of one session.

    Args:
        session: The session.
        folder: Where files go.
        texts: All statements that are to come.
        files: Files by the rows in them, which sessions share: they need not write them again.
    """

    def __init__(
        self,
        session: datafusion.SessionContext,
        folder: pathlib.Path,
        texts: Iterable[str],
        files: dict[bytes, bytes],
    ) -> None:
        self._session = session
        self._files = files
        self._folder = folder
        self._originals: dict[str, object] = {}
        self._changed = {m["name"].lower() for text in texts if (m := _CHANGE.match(text))}
        self._count = 0
        # What makes the session's state again, for a script.
        self.history: list[tuple[str, str]] = []

    def before(self, text: str) -> None:
        """Lets a statement change a table that has become a file."""
        found = _CHANGE.match(text)
        name = found["name"].lower() if found else ""
        if name in self._originals:
            self._session.deregister_table(name)
            self._session.register_table(name, self._originals.pop(name))

    def after(self, text: str) -> None:
        """Writes the table that a statement has made or changed, if any."""
        dropped = _DROP.match(text)
        if dropped:
            self._originals.pop(dropped["name"].lower(), None)
        found = _CREATE.match(text) or _CHANGE.match(text)
        name = found["name"].lower() if found else ""
        external = _CREATE.match(text) is not None and found["external"]
        is_left = external and (_LEFT_ALONE.search(text) or name in self._changed)
        path = None if not name or is_left else self._replaced(name)
        self.history.append(("sql", text) if path is None else ("parquet", f"{name}={path}"))

    def _replaced(self, name: str) -> str | None:
        try:
            if self._session.table_exist(name):
                rows = self._session.sql(f'SELECT * FROM "{name}"').to_arrow_table()
                return self._write(name, rows)
        except Exception:  # noqa: BLE001 a table that cannot be written stays what it is
            return None
        return None

    def _write(self, name: str, rows: pa.Table) -> str | None:
        if not rows.num_columns or rows.num_rows > MOST_ROWS:
            return None
        self._count += 1
        path = self._folder / f"{name}_{self._count}.parquet"
        self._write_once(rows, path)
        original = self._session.table_provider(name)
        before = self._session.table(name).schema()
        self._session.deregister_table(name)
        try:
            self._session.register_parquet(name, str(path))
            if _without_views(self._session.table(name).schema()) == _without_views(before):
                self._originals[name] = original
                return str(path)
            self._session.deregister_table(name)
        except Exception:  # noqa: BLE001 a file that DataFusion cannot read
            pass
        self._session.register_table(name, original)
        return None

    def _write_once(self, rows: pa.Table, path: pathlib.Path) -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_table(rows)
        key = sink.getvalue().to_pybytes()
        if key in self._files:
            path.write_bytes(self._files[key])
            return
        write_small(rows, path)
        self._files[key] = path.read_bytes()


def write_small(rows: pa.Table, path: pathlib.Path) -> None:
    """A file of about five row groups, of three pages each."""
    group = min(max(rows.num_rows // 5, 3), 20_000)
    page = max(group // 3, 1)
    writer = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
    options = datafusion.dataframe.ParquetWriterOptions(
        max_row_group_size=group,
        data_page_row_count_limit=page,
        write_batch_size=page,
        bloom_filter_on_write=rows.num_columns % 2 == 0,
        maximum_parallel_row_group_writers=1,
        maximum_buffered_record_batches_per_stream=1,
    )
    writer.from_arrow(rows).write_parquet_with_options(str(path), options)


def _without_views(schema: pa.Schema) -> list[tuple[str, str, bool]]:
    return [(f.name, re.sub(r"_view|large_", "", str(f.type)), f.nullable) for f in schema]
