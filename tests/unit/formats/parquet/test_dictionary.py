"""Which dictionaries are read ahead of the data pages, and what they hold."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.formats.parquet.dictionary import load_dictionary
from lm_datafusion.scan import load_facts
from lm_datafusion.storage import LocalStorage
from tests.parquet_files import every_dictionary

ROWS = 100_000


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    rng = np.random.default_rng(5)
    words = np.array([f"word {number}" for number in range(200)])
    table = pa.table(
        {
            "codes": words[rng.integers(0, 200, ROWS)],  # a byte a row, and a small dictionary
            "runs": np.repeat(words, ROWS // 200),  # next to nothing but the dictionary
            "keys": rng.integers(0, 50_000, ROWS),  # a dictionary larger than its codes
        }
    )
    name = str(tmp_path_factory.mktemp("dictionaries") / "t.parquet")
    pq.write_table(table, name, dictionary_pagesize_limit=1 << 20)
    return name


def load(path, column):
    facts = load_facts(LocalStorage(), path, lm.ScanOptions())
    with LocalStorage().open(facts.version) as file:
        return load_dictionary(facts, 0, column, file, limit_bytes=1 << 20)


def test_a_small_dictionary_before_large_pages_is_read(path):
    assert set(load(path, 0).to_pylist()) == {f"word {number}" for number in range(200)}


@pytest.mark.parametrize("column", [1, 2])
def test_a_dictionary_that_saves_little_is_left_to_the_filter(path, column):
    assert load(path, column) is None
    with every_dictionary():
        found = load(path, column)
    assert set(found.to_pylist()) == set(pq.read_table(path)[column].to_pylist())
