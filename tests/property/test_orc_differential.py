"""A few hundred cases of `tests.property.orc_cases`; more of them as a command."""

from __future__ import annotations

import pytest

from tests.property.orc_cases import run_seed


@pytest.mark.parametrize("block", range(12))
def test_random_files_and_selections(block):
    for seed in range(block * 25, block * 25 + 25):
        failure, _ = run_seed(seed)
        assert failure is None, f"seed {seed}:\n{failure}"
