"""Conditions on text: kernels, and DataFusion where these do not know, give DataFusion's rows.

The long-running mode is `python -m tests.property.fuzz --text`.
"""

from __future__ import annotations

import random

import pytest

from tests.property.text_conditions import run_text_case


@pytest.mark.parametrize("seed", range(300))
def test_text_conditions_give_the_rows_datafusion_gives(seed):
    run_text_case(random.Random(7_000_000 + seed))
