from __future__ import annotations

import pickle

import numpy as np

from lm_datafusion.plan import RowGroupAccess
from lm_datafusion.pruning import Verdict
from lm_datafusion.selection import RowSelection


def ranges(selection):
    return [tuple(map(int, pair)) for pair in zip(*selection.to_ranges(), strict=True)]


def test_verdicts_about_the_row_group():
    access = RowGroupAccess.scan(0, 100, (True, True))
    assert not access.is_skipped
    assert not access.is_fully_matched
    matched = access.with_verdict(0, Verdict.ALL_ROWS)
    assert not matched.is_undecided(0)
    assert matched.is_undecided(1)
    assert matched.with_verdict(1, Verdict.ALL_ROWS).is_fully_matched
    assert access.with_verdict(0, Verdict.SOME_ROWS) == access
    assert access.with_verdict(1, Verdict.NO_ROWS).is_skipped


def test_range_verdicts_of_two_conjuncts_are_intersected():
    access = RowGroupAccess.scan(0, 100, (True, True))
    first = np.array([Verdict.NO_ROWS, Verdict.SOME_ROWS], dtype=np.uint8)
    second = np.array([Verdict.SOME_ROWS, Verdict.ALL_ROWS, Verdict.NO_ROWS], dtype=np.uint8)
    access = access.with_range_verdicts(0, np.array([0, 20]), first)
    access = access.with_range_verdicts(1, np.array([0, 50, 90]), second)
    assert ranges(access.selection) == [(20, 90)]
    assert ranges(access.undecided[0]) == [(20, 90)]
    # The second conjunct holds from row 50 on: only the rows before are evaluated.
    assert ranges(access.undecided[1]) == [(20, 50)]


def test_access_is_a_picklable_value():
    access = RowGroupAccess.scan(3, 10, (True,)).with_verdict(0, Verdict.ALL_ROWS)
    assert pickle.loads(pickle.dumps(access)) == access
    assert access.selection == RowSelection.all(10)
