from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lm_datafusion.errors import OptionError
from lm_datafusion.selection import RowSelection


def rows(*filters: object) -> list[int]:
    return RowSelection.from_filters(filters).to_indices().tolist()


def test_null_counts_as_not_selected():
    assert rows(pa.array([True, None, False, True])) == [0, 3]
    assert rows(pa.array([None, None], pa.bool_())) == []
    assert rows(pa.nulls(3), np.array([True])) == [3]


@pytest.mark.parametrize("offset", range(18))
def test_sliced_arrays_read_from_their_offset(offset):
    values = [(i * 7) % 3 == 0 if i % 5 else None for i in range(40)]
    sliced = pa.array(values).slice(offset, 19)
    assert rows(sliced) == [i for i, v in enumerate(values[offset : offset + 19]) if v]


def test_chunks_follow_one_another():
    chunked = pa.chunked_array([[True, False], [], [None, True]], pa.bool_())
    assert rows(chunked, np.array([True])) == [0, 3, 4]
    assert RowSelection.from_filters([pa.chunked_array([], pa.bool_())]).total_rows == 0


def test_empty_arrow_array():
    assert RowSelection.from_filters([pa.array([], pa.bool_())]) == RowSelection.none(0)


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        (np.array([0, 1]), "int64"),
        (np.zeros((2, 2), np.bool_), "bool"),
        (pa.array([1, 2]), "int64"),
        (pa.chunked_array([["a"]]), "string"),
        ([True, False], "list"),
    ],
)
def test_other_arrays_are_refused(bad, named):
    with pytest.raises(OptionError, match=f"boolean array, not {named}"):
        RowSelection.from_filters([bad])


def test_from_mask_takes_one_dimension_only():
    with pytest.raises(OptionError, match="one-dimensional"):
        RowSelection.from_mask(np.zeros((2, 2), np.bool_))
