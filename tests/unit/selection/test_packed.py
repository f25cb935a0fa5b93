from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lm_datafusion.selection import RowSelection
from lm_datafusion.selection.packed import pack


@given(hnp.arrays(np.bool_, st.integers(0, 700)))
def test_comes_back_as_it_was(mask):
    rows = RowSelection.from_mask(mask)
    packed = pack(rows)
    assert packed.unpack() == rows
    assert (packed.row_count, packed.total_rows) == (rows.row_count, rows.total_rows)


@pytest.mark.parametrize("rows", [RowSelection.all(10**6), RowSelection.none(10**6)])
def test_everything_and_nothing_take_no_memory(rows):
    packed = pack(rows)
    assert packed.memory_bytes == 0
    assert packed.unpack() == rows


def test_the_smallest_form_is_taken():
    few = RowSelection.from_indices(np.arange(0, 10**6, 1000), 10**6)
    assert 4_000 <= pack(few).memory_bytes < 4_200
    runs = RowSelection.from_ranges(np.arange(0, 10**6, 1000), np.arange(9, 10**6, 1000), 10**6)
    assert 8_000 <= pack(runs).memory_bytes < 8_200
    assert pack(runs).unpack() == runs
    many = RowSelection.from_mask(np.random.default_rng(1).random(10**6) < 0.5)
    assert 125_000 <= pack(many).memory_bytes < 125_200
    assert pack(few).unpack() == few
    assert pack(many).unpack() == many
