"""A folder that may not be read: an error, as in PyArrow and DataFusion, never fewer rows."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

PROGRAM = """
    import os, sys
    import datafusion
    import pyarrow.dataset as ds
    import lm_datafusion as lm

    root = sys.argv[1]

    config = datafusion.SessionConfig().set(
        "datafusion.execution.listing_table_ignore_subdirectory", "false"
    )

    def session_rows(session):
        session.register_parquet("t", root + "/")
        return session.sql("SELECT * FROM t").count()

    readers = {
        "pyarrow": lambda: ds.dataset(root).count_rows(),
        "datafusion": lambda: session_rows(datafusion.SessionContext(config)),
        "late": lambda: lm.dataset(root).count_rows(),
        "glob": lambda: lm.dataset(root + "/*/*.parquet").count_rows(),
        "session": lambda: session_rows(lm.SessionContext(config)),
    }
    for name, read in readers.items():
        assert read() == 6, name
    os.chmod(root + "/shut", 0)
    if os.geteuid() == 0:
        os.seteuid(65534)
    for name, read in readers.items():
        try:
            print(name, read())
        except Exception as error:
            print(name, "error", isinstance(error, lm.LateError) and isinstance(error, OSError))
"""


@pytest.fixture
def root():
    # Not below pytest's own folder, which only its owner may enter.
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)
        for name in ("open", "shut"):
            (root / name).mkdir()
            pq.write_table(pa.table({"v": [1, 2, 3]}), root / name / "t.parquet")
        yield root
        (root / "shut").chmod(0o755)


def test_every_reader_says_so(root):
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(root)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert run.stdout.splitlines() == [
        "pyarrow error False",
        "datafusion error False",
        "late error True",
        "glob error True",
        "session error False",
    ], run.stderr
