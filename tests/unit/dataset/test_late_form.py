from __future__ import annotations

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.dataset import LateDataset, late_form

TABLE = pa.table({"a": [1, 2, None, 4], "s": ["x", "y", "z", None]})


@pytest.fixture
def path(tmp_path):
    pq.write_table(TABLE, tmp_path / "a.parquet")
    return str(tmp_path / "a.parquet")


def test_a_stock_dataset_of_parquet_files_is_taken_over(path):
    late = late_form(ds.dataset(path), lm.ScanOptions())
    assert isinstance(late, LateDataset)
    assert late.to_table() == TABLE


@pytest.mark.parametrize(
    "make",
    [
        lambda path: ds.dataset(path).filter(ds.field("a") > 1),
        lambda path: ds.dataset(path, schema=pa.schema([("a", pa.int32())])),
        lambda path: ds.dataset(path, format=ds.ParquetFileFormat(dictionary_columns=["s"])),
        lambda path: ds.dataset(TABLE),
        lambda path: ds.dataset([ds.dataset(path), ds.dataset(TABLE)]),
    ],
    ids=["filtered", "other schema", "reader options", "in memory", "union"],
)
def test_everything_else_stays_as_it_is(path, make):
    assert late_form(make(path), lm.ScanOptions()) is None


def test_partition_columns_stay_as_they_are(tmp_path):
    ds.write_dataset(TABLE, tmp_path, format="parquet", partitioning=["a"])
    assert late_form(ds.dataset(tmp_path, partitioning=["a"]), lm.ScanOptions()) is None


def test_a_session_scans_a_registered_dataset_late(path):
    context = lm.SessionContext()
    context.register_dataset("t", ds.dataset(path))
    # PyArrow's own filter would keep the row whose value is NULL out of NOT IN for another reason.
    query = "SELECT a FROM t WHERE a NOT IN (1, 5, 6, 7) ORDER BY a"
    assert context.sql(query).to_pydict() == {"a": [2, 4]}
