"""A few hundred cases of `tests.property.orc_damage`, in a process of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("seed", [0, 1000])
def test_damaged_files_are_errors_that_name_them(seed):
    command = [sys.executable, "-m", "tests.property.orc_damage", "--cases", "150"]
    command += ["--seed", str(seed)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-1000:]
