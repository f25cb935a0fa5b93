from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from lm_datafusion.plan import BestKey, FirstRows
from lm_datafusion.scan.top_k.candidates import Candidates, Part


def part(index, keys, data_type=None):
    array = pa.array(keys, data_type or pa.int64())
    return Part(index=index, rows=np.arange(len(keys)), keys=array, carried=(array,))


def candidates(count, *, descending=False, nulls_first=False):
    first = FirstRows(column="k", descending=descending, nulls_first=nulls_first, row_count=count)
    return Candidates(first)


def kept(found):
    return sorted((part.index, int(row)) for part in found.finish() for row in part.rows)


def test_any_row_will_do_until_there_are_enough():
    found = candidates(3)
    found.add(part(0, [5, 6]))
    assert found.threshold is None
    assert found.can_hold(BestKey(is_known=True, value=99, may_hold_null=False))
    found.add(part(1, [7]))
    assert found.threshold.value == 7
    assert not found.can_hold(BestKey(is_known=True, value=8, may_hold_null=False))


def test_ties_stay_and_can_come():
    found = candidates(2)
    found.add(part(0, [1, 2, 2, 3]))
    assert found.threshold.value == 2
    assert found.can_hold(BestKey(is_known=True, value=2, may_hold_null=False))
    found.add(part(1, [2, 4]))
    assert kept(found) == [(0, 0), (0, 1), (0, 2), (1, 0)]


def test_nulls_last_never_beat_a_value():
    found = candidates(2, descending=True)
    found.add(part(0, [None, 3, None]))
    assert found.threshold is None
    found.add(part(1, [1]))
    assert found.threshold.value == 1
    assert not found.can_hold(BestKey(is_known=True, value=None))
    assert not found.can_hold(BestKey(is_known=True, value=0))
    assert kept(found) == [(0, 1), (1, 0)]


def test_nulls_first_beat_every_value():
    found = candidates(2, nulls_first=True)
    found.add(part(0, [None, 3, 4]))
    assert found.threshold.value == 3
    assert found.can_hold(BestKey(is_known=True, value=99, may_hold_null=True))
    assert not found.can_hold(BestKey(is_known=True, value=99, may_hold_null=False))
    found.add(part(1, [None, 1]))
    assert found.threshold.value is None
    assert not found.can_hold(BestKey(is_known=True, value=0, may_hold_null=False))
    assert found.can_hold(BestKey(is_known=False))
    assert not found.can_hold(BestKey(is_known=False, may_hold_null=False))
    assert kept(found) == [(0, 0), (1, 0)]


def test_what_is_not_known_may_hold_anything():
    found = candidates(1)
    found.add(part(0, [1]))
    assert found.can_hold(BestKey(is_known=False, may_hold_null=False))


@pytest.mark.parametrize("seed", range(60))
def test_the_candidates_are_the_first_rows_and_their_ties(seed):
    rng = random.Random(seed)
    descending, nulls_first = rng.random() < 0.5, rng.random() < 0.5
    count = rng.choice([1, 2, 5, 30, 100])
    is_text = rng.random() < 0.5
    found = candidates(count, descending=descending, nulls_first=nulls_first)
    rows = []
    for index in range(rng.randint(1, 8)):
        keys = [
            None if rng.random() < 0.2 else rng.randint(0, 20) for _ in range(rng.randint(0, 20))
        ]
        rows += [(index, row, key) for row, key in enumerate(keys)]
        given = [None if k is None else f"{k:02}".encode() for k in keys] if is_text else keys
        found.add(part(index, given, pa.large_binary() if is_text else pa.int64()))

    def rank(key):
        if key is None:
            return (0 if nulls_first else 2, 0)
        return (1, -key if descending else key)

    order = sorted(rank(key) for _, _, key in rows)
    last = order[min(count, len(order)) - 1] if order else None
    expected = [(p, r) for p, r, key in rows if rank(key) <= last] if order else []
    assert kept(found) == expected
    for piece in found.finish():
        assert piece.carried[0].equals(piece.keys)
