"""What every test starts with."""

from __future__ import annotations

import pytest

import lm_datafusion as lm


@pytest.fixture(autouse=True)
def forgotten_conditions():
    """No test finds answers that another has left in the process."""
    lm.clear_condition_cache()
