"""A script may end while a scan is under way: the process ends as scripts do.

DataFusion's threads run our Python code; one that does so while the interpreter is finalizing takes
the process down with SIGABRT.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROWS = 400_000
RUNS = 4
PREAMBLE = """
    import sys, threading
    import datafusion
    import lm_datafusion as lm

    path = sys.argv[1]
    session = lm.SessionContext(options=lm.ScanOptions(path="late"))
    session.register_parquet("t", path)
    condition = "number > 3 AND text LIKE '%more%'"
"""
# By name: a script, and what it exits with.
SCRIPTS = {
    "after a batch": (
        """
        stream = session.sql(f"SELECT * FROM t WHERE {condition}").execute_stream()
        next(stream)
        """,
        0,
    ),
    "before the first batch": (
        """
        stream = session.sql(f"SELECT * FROM t WHERE {condition}").execute_stream()
        """,
        0,
    ),
    "after an error": (
        """
        session.sql(f"SELECT 1 / (id - 5), text, part FROM t WHERE {condition}").collect()
        """,
        1,
    ),
    "dataset in a session of DataFusion": (
        """
        plain = datafusion.SessionContext()
        plain.register_dataset("t", lm.dataset(path))
        stream = plain.sql(f"SELECT * FROM t WHERE {condition}").execute_stream()
        next(stream)
        """,
        0,
    ),
    "threads of a scan": (
        """
        dataset = lm.dataset(path)
        rows = dataset.to_batches(filter=condition)
        next(rows)
        for options in {}, {"limit": 1000, "order_by": "part"}:
            batches = dataset.to_batches(filter=condition, **options)
            threading.Thread(target=lambda: list(batches), daemon=True).start()
        """,
        0,
    ),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("exit") / "t.parquet"
    numbers = np.arange(ROWS)
    table = pa.table(
        {
            "id": numbers,
            "number": numbers * 7919 % 100,
            "text": [f"text {i % 5000} and some more {i}" for i in range(ROWS)],
            "part": numbers * 31 % 1009 / 1009,
        }
    )
    pq.write_table(table, path, row_group_size=20_000, data_page_size=1 << 16)
    return path


def run_script(script, path):
    program = textwrap.dedent(PREAMBLE) + textwrap.dedent(script)
    return subprocess.run(
        [sys.executable, "-c", program, str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_ends_with_its_exit_code(path, name):
    script, expected = SCRIPTS[name]
    runs = [run_script(script, path) for _ in range(RUNS)]
    assert [run.returncode for run in runs] == [expected] * RUNS, runs[-1].stderr
    assert not any("FATAL" in run.stderr for run in runs)


def test_a_handler_may_scan_after_scans_were_stopped(path):
    """`atexit` runs the last handler first: this one runs after the package's."""
    program = """
        import atexit, sys

        @atexit.register
        def last():
            print(lm.dataset(path).count_rows("number = 3"))
            try:
                print(sum(batch.num_rows for batch in stream))
            except lm.LateError as error:
                print(type(error).__name__)

        import lm_datafusion as lm
        path = sys.argv[1]
        stream = lm.dataset(path).to_batches(filter="number > 3")
        next(stream)
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert run.stdout.split() == [str(ROWS // 100), "ScanStoppedError"], run.stderr
