from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lm_datafusion.pruning import JoinedStatistics, UnknownStatistics


class Known(UnknownStatistics):
    def __init__(self, low, high, nulls=None):
        super().__init__(np.full(len(low), 10))
        self._low, self._high, self._nulls = low, high, nulls

    def min_values(self, column):
        return self._low if column == ("x",) else None

    def max_values(self, column):
        return self._high if column == ("x",) else None

    def null_counts(self, column):
        return self._nulls if column == ("x",) else None


def test_parts_follow_one_another():
    first = Known(pa.array([1, None]), pa.array([3, 4]), np.array([0, 1]))
    second = Known(pa.array([7]), pa.array([9]), np.array([2]))
    joined = JoinedStatistics([first, second])
    assert joined.num_containers == 3
    assert joined.min_values(("x",)).to_pylist() == [1, None, 7]
    assert joined.max_values(("x",)).to_pylist() == [3, 4, 9]
    assert joined.null_counts(("x",)).tolist() == [0, 1, 2]
    assert joined.min_values(("y",)) is None
    assert joined.null_counts(("y",)) is None


class Counted(Known):
    def nan_counts(self, column):
        return np.array([0, 3])


def test_parts_that_do_not_count_nan_are_unknown():
    bounds = (pa.array([1.0, 2.0]), pa.array([3.0, 4.0]))
    joined = JoinedStatistics([Known(*bounds), Counted(*bounds)])
    assert joined.nan_counts(("x",)).tolist() == [-1, -1, 0, 3]
    assert JoinedStatistics([Known(*bounds), Known(*bounds)]).nan_counts(("x",)) is None


def test_parts_that_are_not_alike_are_refused():
    numbers = Known(pa.array([1]), pa.array([3]), np.array([0]))
    text = Known(pa.array(["a"]), pa.array(["b"]), None)
    unknown = UnknownStatistics(np.array([10]))
    for other in (text, unknown):
        joined = JoinedStatistics([numbers, other])
        with pytest.raises(TypeError):
            joined.min_values(("x",))
        with pytest.raises(TypeError):
            joined.null_counts(("x",))
