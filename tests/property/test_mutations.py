"""Damaged pages: the kernels raise an error or give values.

The long-running mode of the same test, with sanitizers, is `make sanitize`.
"""

from __future__ import annotations

import collections

import pytest

from lm_datafusion.kernels import kernel_info

pytestmark = pytest.mark.skipif(not kernel_info().is_active, reason="no kernels")

CASES = 800


def test_damaged_pages_are_an_error_or_values():
    from tests.property.mutations import watch_batch

    facts = list(watch_batch(5_000_000, CASES))
    assert [fact for fact in facts if "failure" in fact] == []
    outcomes = collections.Counter(facts[-1]["outcomes"])
    assert outcomes.total() == CASES
    assert min(outcomes[name] for name in ("values", "error", "scan: values", "scan: error")) > 0
