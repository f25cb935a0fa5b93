"""Random files, random predicates: the scan's rows are exactly DataFusion's in-memory rows.

The long-running mode of the same test is `make fuzz`.
"""

from __future__ import annotations

import random
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.property.cases import run_case


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.randoms(use_true_random=False))
def test_scan_gives_the_rows_datafusion_gives(rng):
    run_case(rng)


@pytest.mark.parametrize("seed", range(300))
def test_scan_gives_the_rows_datafusion_gives_for_seed(seed):
    run_case(random.Random(1_000_000 + seed))


# A dictionary's value beside text in views; lists that DataFusion itself loses.
@pytest.mark.parametrize("seed", [20_269_214, 30_005_250])
def test_seeds_that_failed_before(seed):
    run_case(random.Random(seed))


def test_the_long_running_mode_needs_no_compiled_kernels():
    names = [f"lm_datafusion.kernels.{module}" for module in ("pages", "columns")]
    code = f"import sys; sys.modules |= dict.fromkeys({names}); import tests.property.fuzz"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
