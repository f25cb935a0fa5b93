"""PyArrow's own reader over the files of a late dataset."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.errors import OptionError
from tests.dataset_files import same_values, write_many_kinds


def read_by_pyarrow(dataset):
    return ds.Scanner.from_dataset(dataset).to_table()


@pytest.mark.parametrize("string_type", ["string", "string_view"])
def test_values_of_all_kinds(tmp_path, string_type):
    write_many_kinds(tmp_path / "kinds.parquet")
    late = lm.dataset(tmp_path, options=lm.ScanOptions(string_type=string_type))
    assert same_values(read_by_pyarrow(late), late.to_table())


@pytest.mark.parametrize("value", ["7", "-1", "__HIVE_DEFAULT_PARTITION__", "a%2Fb", "ä"])
def test_values_of_folders(tmp_path, value):
    folder = tmp_path / f"key={value}"
    folder.mkdir()
    pq.write_table(pa.table({"v": [1, 2]}), folder / "a file.parquet")
    late = lm.dataset(tmp_path)
    assert same_values(read_by_pyarrow(late), late.to_table())


def test_folders_stand_for_what_files_store(tmp_path):
    folder = tmp_path / "key=7"
    folder.mkdir()
    pq.write_table(pa.table({"key": pa.array([1, 2], pa.int32())}), folder / "f.parquet")
    late = lm.dataset(tmp_path)
    assert read_by_pyarrow(late)["key"].to_pylist() == [7, 7]
    wide = late.replace_schema(pa.schema([("key", pa.int64()), ("none", pa.string())]))
    assert same_values(read_by_pyarrow(wide), wide.to_table())


def test_paths_may_be_relative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"v": [1, 2]}), "v.parquet")
    assert read_by_pyarrow(lm.dataset("v.parquet")).num_rows == 2


class TestLaziness:
    @pytest.fixture
    def late(self, tmp_path):
        pq.write_table(pa.table({"v": [1, 2, 3]}), tmp_path / "v.parquet")
        return lm.dataset(tmp_path)

    def test_what_we_answer_opens_nothing(self, late):
        late.filter("v > 1").to_table()
        late.to_table()
        list(late.get_fragments())
        assert late.files
        assert not late._is_open

    def test_pyarrow_opens_it_once(self, late):
        for _ in range(2):
            assert read_by_pyarrow(late).num_rows == 3
        assert late._is_open

    def test_copies_are_not_open(self, late):
        read_by_pyarrow(late)
        filtered = late.filter("v > 1")
        with pytest.raises(OptionError, match="read this LateDataset"):
            ds.UnionDataset(filtered.schema, [filtered]).to_table()
        with pytest.raises(OptionError, match="filter, limit or order"):
            read_by_pyarrow(filtered)

    def test_pickled_ones_can_be_opened(self, late):
        read_by_pyarrow(late)
        assert read_by_pyarrow(pickle.loads(pickle.dumps(late))).num_rows == 3


def test_whoever_imports_us_first_is_not_kept():
    """PyArrow keeps an error of the file that refuses, and its traceback with all frames."""
    script = """
import gc

class Held:
    pass

def first():
    held = Held()
    import lm_datafusion
    lm_datafusion.dataset

first()
gc.collect()
print([type(found).__name__ for found in gc.get_objects() if isinstance(found, Held)])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
