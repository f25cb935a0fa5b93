"""Files that the commands are run on, and a process that can be interrupted."""

from __future__ import annotations

import signal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.fixture
def people(tmp_path):
    """Three rows in a file."""
    path = tmp_path / "people.parquet"
    table = pa.table(
        {"id": [1, 2, 3], "name": ["Ada", None, "it's; me"], "score": [1.5, 2.5, None]}
    )
    pq.write_table(table, path)
    return path


@pytest.fixture(scope="session")
def many_rows(tmp_path_factory):
    """Enough rows to fill any pipe, in 10 row groups."""
    path = tmp_path_factory.mktemp("cli") / "many.parquet"
    count = 400_000
    table = pa.table({"id": np.arange(count), "text": np.arange(count).astype(str)})
    pq.write_table(table, path, row_group_size=count // 10, write_page_index=True)
    return path


@pytest.fixture
def listening():
    """A process that was started in the background may ignore interrupts."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)
