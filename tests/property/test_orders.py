"""Random files: reverse scans, limits and first rows give the rows that sorting all would give."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.property.orders import run_order_case


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.randoms(use_true_random=False))
def test_rows_in_order_are_those_datafusion_gives(rng):
    run_order_case(rng)


@pytest.mark.parametrize("seed", range(120))
def test_rows_in_order_are_those_datafusion_gives_for_seed(seed):
    run_order_case(random.Random(2_000_000 + seed))
