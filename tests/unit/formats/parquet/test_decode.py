"""One column of a row group, asked for rows in any order: by kernels, or by PyArrow."""

from __future__ import annotations

import contextlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lm_datafusion.formats.parquet.decode import FileColumn
from lm_datafusion.kernels import kernel_info
from lm_datafusion.metrics import ScanMetrics
from lm_datafusion.options import ScanOptions
from lm_datafusion.predicate.tree import (
    ByteLength,
    ColumnReference,
    Comparison,
    InList,
    Like,
    Not,
    Operator,
)
from lm_datafusion.scan import load_facts
from lm_datafusion.selection import RowSelection
from lm_datafusion.storage import LocalStorage

ROWS = 600
needs_kernels = pytest.mark.skipif(not kernel_info().is_active, reason="kernels are off")
LAYOUTS = {
    "dictionary": {"use_dictionary": True},
    "plain": {"use_dictionary": False},
    "mixed": {"use_dictionary": True, "dictionary_pagesize_limit": 300, "write_batch_size": 16},
    "with index": {"use_dictionary": False, "write_page_index": True},
    "uncompressed": {"use_dictionary": False, "compression": "none"},
    "V2": {"use_dictionary": False, "data_page_version": "2.0"},
    "V2 uncompressed": {"data_page_version": "2.0", "compression": "none"},
    "deltas": {
        "use_dictionary": False,
        "column_encoding": {
            "n": "DELTA_BINARY_PACKED",
            "s": "DELTA_BYTE_ARRAY",
            "r": "DELTA_BINARY_PACKED",
            "f": "BYTE_STREAM_SPLIT",
            "b": "RLE",
        },
    },
    "V2 deltas": {
        "use_dictionary": False,
        "data_page_version": "2.0",
        "compression": "none",
        "column_encoding": {
            "n": "BYTE_STREAM_SPLIT",
            "s": "DELTA_LENGTH_BYTE_ARRAY",
            "r": "DELTA_BINARY_PACKED",
        },
    },
    "one page": {"use_dictionary": False, "max_rows_per_page": ROWS},
}


def make_table(seed):
    rng = np.random.default_rng(seed)

    def gap(values):
        return [None if rng.random() < 0.1 else value for value in values]

    numbers = rng.integers(-50, 50, ROWS).tolist()
    words = [f"value {n} " + "x" * int(rng.integers(0, 30)) for n in numbers]
    return pa.table(
        {
            "n": pa.array(gap(numbers), pa.int32()),
            "s": pa.array(gap(words)),
            "r": pa.array(numbers, pa.int64()),
            "f": pa.array(gap(rng.normal(size=ROWS).tolist())),
            "b": pa.array(gap([n > 0 for n in numbers])),
            "l": pa.array(gap([[n] * (n % 3) for n in numbers]), pa.list_(pa.int32())),
        },
        schema=pa.schema(
            [
                ("n", pa.int32()),
                ("s", pa.string()),
                pa.field("r", pa.int64(), nullable=False),
                ("f", pa.float64()),
                ("b", pa.bool_()),
                ("l", pa.list_(pa.int32())),
            ]
        ),
    )


@contextlib.contextmanager
def opened(path, name, given=None):
    facts = load_facts(LocalStorage(), str(path), ScanOptions())
    column = facts.schema.get_field_index(name)
    metrics = ScanMetrics()
    with LocalStorage().open(facts.version) as file:
        data_type = given or facts.schema.field(name).type
        yield FileColumn(facts, column, data_type, (file, file), metrics).open([0]), metrics


def random_selection(rng):
    kind = rng.integers(4)
    mask = np.zeros(ROWS, np.bool_)
    if kind == 0:
        start = rng.integers(ROWS)
        mask[start : start + rng.integers(1, 200)] = True
    elif kind == 1:
        mask[rng.integers(0, ROWS, 5)] = True
    elif kind == 2:
        mask = rng.random(ROWS) < 0.5
    else:
        mask[:] = True
    if rng.random() < 0.5:
        rows = np.flatnonzero(mask).astype(np.int32)
        return RowSelection.from_rows(rows, ROWS), mask
    return RowSelection.from_mask(mask), mask


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["n", "s", "r", "f", "b", "l"])
def test_rows_in_any_order(tmp_path, layout, name):
    rng = np.random.default_rng(len(layout))
    expected = make_table(1)
    path = tmp_path / "t.parquet"
    pq.write_table(expected, path, **{"max_rows_per_page": 50, **LAYOUTS[layout]})
    values = np.array([*expected.column(name).to_pylist(), None], dtype=object)[:-1]
    with opened(path, name) as (decoder, metrics):
        for _ in range(25):
            rows, mask = random_selection(rng)
            assert decoder.read(rows).to_pylist() == values[mask].tolist()
        assert decoder.is_spliced is not (kernel_info().is_active and name != "l")
    assert metrics._counts["chunks_fallback"] == 0


COLUMN = ColumnReference(("s",))
CONDITIONS = {
    "like": (Like(COLUMN, (b"ue 7",), False, False), lambda v: "ue 7" in v),
    "not like": (Not(Like(COLUMN, (b"value -",), True, False)), lambda v: v[:7] != "value -"),
    "in": (InList(COLUMN, pa.array(["value 3 ", "none"])), lambda v: v == "value 3 "),
    "below": (Comparison(COLUMN, Operator.LT, pa.scalar("value 2")), lambda v: v < "value 2"),
    "length": (ByteLength(COLUMN, Operator.GT, 20), lambda v: len(v) > 20),
}


@needs_kernels
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_and_values_take_turns(tmp_path, layout, name):
    """What a filter leaves open, a read does not stumble over, nor the other way round."""
    rng = np.random.default_rng(len(layout) * 100 + len(name))
    path = tmp_path / "t.parquet"
    expected = make_table(2)
    pq.write_table(expected, path, **{"max_rows_per_page": 50, **LAYOUTS[layout]})
    values = np.array([*expected.column("s").to_pylist(), None], dtype=object)[:-1]
    tree, is_met = CONDITIONS[name]
    met = np.array([value is not None and is_met(value) for value in values])
    with opened(path, "s") as (decoder, _):
        assert decoder.can_test(tree)
        for turn in range(25):
            rows, mask = random_selection(rng)
            if turn % 3 == 0:
                assert decoder.read(rows).to_pylist() == values[mask].tolist()
                continue
            found = decoder.filter(rows, tree, None, is_held=turn % 3 == 1)
            assert found is not None
            passed, held = found
            assert passed.to_indices().tolist() == np.flatnonzero(mask & met).tolist()
            if held is not None:
                assert held.to_pylist() == values[mask & met].tolist()
