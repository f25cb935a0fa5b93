from __future__ import annotations

import numpy as np
import pytest

from lm_datafusion.kernels import kernel_info

if not kernel_info().is_active:
    pytest.skip("no kernels", allow_module_level=True)

from lm_datafusion.kernels.columns import rows_of_ranges


def test_rows_of_ranges():
    starts, stops = np.array([0, 5, 9], np.int64), np.array([2, 5, 12], np.int64)
    assert rows_of_ranges(starts, stops, 5).tolist() == [0, 1, 9, 10, 11]
    assert rows_of_ranges(starts[:0], stops[:0], 0).tolist() == []
