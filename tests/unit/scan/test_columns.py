from __future__ import annotations

import pyarrow as pa
import pytest

from lm_datafusion.scan.apply import merge_in_order
from lm_datafusion.scan.columns import ColumnCursor
from lm_datafusion.selection import RowSelection


def test_codes_of_one_window_and_values_of_the_next_come_together():
    codes = pa.array(["a", "b"]).dictionary_encode()
    first = RowSelection.from_consecutive_ranges([(0, 2)], 4)
    second = RowSelection.from_consecutive_ranges([(2, 4)], 4)
    parts = [(first, codes), (second, pa.array(["c", "d"]))]
    assert merge_in_order(parts).to_pylist() == ["a", "b", "c", "d"]


@pytest.mark.slow
def test_text_beyond_two_gigabytes_comes_in_pieces():
    words = pa.array(["x" * 50_000_000, "y"])
    codes = pa.DictionaryArray.from_arrays(pa.array([0] * 45 + [1], pa.int32()), words)
    values = ColumnCursor("s", pa.string(), column=0).to_table_type(codes)
    assert isinstance(values, pa.ChunkedArray)
    assert len(values) == 46
    assert values[45].as_py() == "y"
