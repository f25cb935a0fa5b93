"""Damaged files: an error of ours, or an answer that another reader gives as well.

The long-running mode of the same test is `make mutate`.
"""

from __future__ import annotations

import collections
import os

import pytest

from tests.property.damage import run_cases

CASES = 2000


def test_a_file_cut_to_nothing_can_be_damaged_further():
    # The end is cut before byte 0, then the footer was to be changed.
    ((_, verdict),) = run_cases(20262981, 1, workers=1)
    assert verdict.failure is None


@pytest.mark.timeout(600)
def test_damaged_files_are_an_error_or_what_others_read():
    outcomes: collections.Counter[str] = collections.Counter()
    failures = []
    for seed, verdict in run_cases(7_000_000, CASES, workers=os.cpu_count() or 1):
        outcomes[verdict.outcome] += 1
        if verdict.failure is not None:
            failures.append(f"seed {seed}: {verdict.failure}")
    assert failures == []
    assert outcomes.total() == CASES
    met = ("same", "error: CorruptFileError", "values, as datafusion")
    assert min(outcomes[name] for name in met) > 0
