from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.kernels import VARIABLE, KernelInfo

# Two scans; every warning is printed, in one line each.
TWO_SCANS = """
import sys, warnings
{before}
import lm_datafusion as lm
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    rows = [lm.dataset(sys.argv[1]).count_rows(filter="id > 7") for _ in range(2)]
print(rows, lm.kernel_info().is_active, *(w.category.__name__ for w in caught))
"""
NOT_COMPILED = "sys.modules['lm_datafusion.kernels.columns'] = None"


@pytest.fixture
def run_two_scans(tmp_path):
    """Runs two scans in a process of their own, and gives what it printed."""
    path = tmp_path / "ids.parquet"
    pq.write_table(pa.table({"id": range(10)}), path)

    def run(*, before: str = "", **environment: str) -> str:
        ran = subprocess.run(
            [sys.executable, "-c", TWO_SCANS.format(before=before), path],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.strip()

    return run


@pytest.mark.parametrize("value", ["off", "OFF", "0", "false", "no"])
def test_a_variable_turns_kernels_off_without_a_warning(run_two_scans, value):
    assert run_two_scans(**{VARIABLE: value}) == "[2, 2] False"


def test_a_package_without_kernels_warns_once_per_process(run_two_scans):
    output = run_two_scans(before=NOT_COMPILED, **{VARIABLE: ""})
    assert output == "[2, 2] False KernelWarning"


def test_kernels_that_are_turned_off_are_not_missed(run_two_scans):
    assert run_two_scans(before=NOT_COMPILED, **{VARIABLE: "off"}) == "[2, 2] False"


def test_kernels_are_compiled_where_they_can_be():
    compiler = os.environ.get("CC", "cc").split()[0]
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    if not shutil.which(compiler) or not headers.exists():
        pytest.skip("no C compiler, or no headers of Python")
    if os.environ.get(VARIABLE):
        pytest.skip(f"{VARIABLE} is set")
    assert lm.kernel_info().is_active, lm.kernel_info()


def test_info_reads_well():
    assert str(KernelInfo(is_active=True, simd="neon")) == "kernels: on (neon)"
    assert str(KernelInfo(is_active=False, reason="because")) == "kernels: off (because)"
