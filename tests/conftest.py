"""What every test starts with, and what the run says of itself."""

from __future__ import annotations

import hypothesis
import pytest

import lm_datafusion as lm
from lm_datafusion.scan.memory.condition_cache import CONDITIONS
from lm_datafusion.scan.memory.stage_outcomes import OUTCOMES
from lm_datafusion.scan.memory.step_history import STEPS

# A test that is slow on a busy machine is not wrong.
hypothesis.settings.register_profile("suite", deadline=None)
hypothesis.settings.load_profile("suite")


def pytest_report_header():
    return str(lm.kernel_info())


@pytest.fixture(autouse=True)
def forgotten_scans():
    """No test finds what scans of another have left in the process."""
    CONDITIONS.clear()
    OUTCOMES.clear()
    STEPS.clear()
