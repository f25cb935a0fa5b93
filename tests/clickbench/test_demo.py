"""`make demo` on few rows: data, runs, a report; and again, which does nothing twice."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def make(*words):
    """Runs make with this Python instead of the environment that it would set up."""
    if shutil.which("make") is None:
        pytest.skip("needs make")
    done = subprocess.run(
        ["make", "-o", ".venv/.installed", f"RUN={sys.executable}", *words],
        cwd=ROOT, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_the_demo_and_the_demo_again(tmp_path):
    pytest.importorskip("pyspark", reason="needs the extra `spark`")
    target = tmp_path / "demo"
    words = ["demo", f"DEMO={target}", "ROWS=10k", "ARGS=--queries 0,20 --repeat 1 --threads 1"]
    status, text = make(*words)
    assert status == 0, text
    assert "10,000 rows in 1 files" in text
    assert "[1/2] q00  datafusion" in text
    assert "Total Time (lm)" in text
    assert "Answers: equal on all 2 queries and 2 engines." in text
    assert f"page written to {target}.html" in text
    assert {"demo", "demo.html", "demo.json"} <= set(os.listdir(tmp_path))

    status, text = make(*words)
    assert status == 0, text
    assert "[2/2] q20  was there already" in text


def test_help_has_the_demo():
    status, text = make("help")
    assert status == 0
    assert "demo " in text
    assert "ROWS=1m" in text
