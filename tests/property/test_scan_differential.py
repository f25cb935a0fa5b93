"""Random files, random predicates: the scan's rows are exactly DataFusion's in-memory rows.

The long-running mode of the same test is `make fuzz`.
"""

from __future__ import annotations

import random

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
