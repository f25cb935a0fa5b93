from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    FileChangedError,
    OptionError,
)
from tests.orc_files import write as write_orc

ROWS = 10_000
TABLE = pa.table(
    {
        "a": range(ROWS),
        "b": [n % 7 for n in range(ROWS)],
        "s": [f"text {n}" for n in range(ROWS)],
        "l": [[n, n + 1] if n % 3 else None for n in range(ROWS)],
    }
)


@pytest.fixture
def path(tmp_path):
    path = str(tmp_path / "f.parquet")
    pq.write_table(
        TABLE,
        path,
        row_group_size=4_000,
        write_page_index=True,
        data_page_size=2_000,
        use_dictionary=["b"],
        write_batch_size=100,
        bloom_filter_options={"b": {"ndv": 10}},
    )
    return path


def test_all_rows(path):
    reader = lm.parquet_reader(path)
    assert reader.total_rows == ROWS
    assert reader.to_table().equals(TABLE)
    assert pa.Table.from_batches(iter(reader), reader.schema).equals(TABLE)


def test_selected_rows_of_chosen_row_groups(path):
    reader = lm.parquet_reader(path).with_row_groups([2, 0]).with_columns(["l", "a"])
    selection = lm.RowSelection.from_indices([0, 5, 1_999, 2_000, 3_500], 6_000)
    rows = [8_000, 8_005, 9_999, 0, 1_500]
    expected = TABLE.select(["l", "a"]).take(rows)
    assert reader.with_row_selection(selection).to_table().equals(expected)


def test_a_short_selection_selects_nothing_behind_its_end(path):
    reader = lm.parquet_reader(path).with_row_selection(lm.RowSelection.all(3))
    assert reader.to_table().equals(TABLE.slice(0, 3))
    with pytest.raises(OptionError, match=r"the selection covers 10001 rows, the row groups"):
        reader.with_row_selection(lm.RowSelection.all(ROWS + 1)).to_table()


def test_metadata_leaves_every_row_that_matches(path):
    reader = lm.parquet_reader(path)
    assert reader.row_groups_from_statistics("a > 8500") == [2]
    selection = reader.row_selection_from_page_index("a BETWEEN 4100 AND 4200")
    assert {4_100, 4_200} <= set(selection.to_indices().tolist())
    assert selection.row_count < 1_000
    assert reader.row_selection_from_page_index("b = 3").row_count == ROWS
    assert reader.row_selection_from_page_index("b = 3 AND a < 0").row_count == 0
    off = lm.ScanOptions(prune_page_index=False, prune_statistics=False, prune_bloom_filter=False)
    assert lm.parquet_reader(path, options=off).row_selection_from_page_index("a < 0").selects_all()


def test_ranges_are_those_of_the_pages(path):
    reader = lm.parquet_reader(path)
    everything = sum(length for _, length in reader.scan_ranges())
    assert everything < os.path.getsize(path)
    few = reader.with_row_selection(lm.RowSelection.from_indices([5_000], ROWS)).scan_ranges()
    assert 0 < sum(length for _, length in few) < everything / 10
    assert reader.with_row_selection(lm.RowSelection.none(ROWS)).scan_ranges() == []


def test_no_columns_still_count_rows(path):
    batches = list(lm.parquet_reader(path).with_columns([]))
    assert sum(batch.num_rows for batch in batches) == ROWS


def test_what_cannot_be_asked(path):
    reader = lm.parquet_reader(path)
    with pytest.raises(ColumnNotFoundError):
        reader.with_columns(["nothing"])
    with pytest.raises(OptionError, match="no row group 3 among 3"):
        reader.with_row_groups([3])
    with pytest.raises(OptionError, match="a row group is chosen twice"):
        reader.with_row_groups([1, 1])


def test_each_reader_is_for_its_format(path, tmp_path):
    orc = write_orc(tmp_path / "some_name", {"a": [1]})
    with pytest.raises(CorruptFileError, match="the format is ORC, not Parquet"):
        lm.parquet_reader(orc)
    os.rename(path, tmp_path / "other_name")
    with pytest.raises(CorruptFileError, match="the format is Parquet, not ORC"):
        lm.orc_reader(tmp_path / "other_name")


def test_a_file_that_changed_is_an_error(path):
    reader = lm.parquet_reader(path)
    pq.write_table(TABLE.slice(0, 100), path)
    with pytest.raises(FileChangedError):
        reader.to_table()
