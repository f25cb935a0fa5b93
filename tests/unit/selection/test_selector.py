from __future__ import annotations

import pickle

import numpy as np
import pytest

from lm_datafusion.errors import LateError, OptionError
from lm_datafusion.selection import RowSelector


def test_constructors_set_count_and_kind():
    assert RowSelector.select(10) == RowSelector(row_count=10, is_skip=False)
    assert RowSelector.skip(3) == RowSelector(row_count=3, is_skip=True)


def test_numpy_counts_become_plain_integers():
    assert type(RowSelector.select(np.int64(5)).row_count) is int


def test_negative_count_is_refused():
    with pytest.raises(OptionError, match="-1") as error:
        RowSelector.skip(-1)
    assert isinstance(error.value, LateError)
    assert isinstance(error.value, ValueError)


def test_frozen():
    with pytest.raises(AttributeError):
        RowSelector.select(1).row_count = 2  # type: ignore[misc]


def test_repr_and_pickle():
    selector = RowSelector.skip(7)
    assert repr(selector) == "RowSelector.skip(7)"
    assert pickle.loads(pickle.dumps(selector)) == selector
