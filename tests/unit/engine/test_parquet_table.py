from __future__ import annotations

import os

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lm_datafusion.engine.parquet_table import ListedFile, scanned_files


def write(path):
    pq.write_table(pa.table({"a": [1, 2, 3]}), path)
    state = os.stat(path)
    return ListedFile(str(path), state.st_size, state.st_mtime_ns)


def listed(context, sql):
    return scanned_files(context.sql(sql).execution_plan(), context, {})


@pytest.mark.parametrize("name", ["a.parquet", "a b.parquet", "\u00fc.parquet", "x%20y#.parquet"])
def test_a_file_with_its_size_and_time(tmp_path, name):
    file = write(tmp_path / name)
    context = datafusion.SessionContext()
    context.register_parquet("t", str(tmp_path))
    assert listed(context, "SELECT a FROM t") == [(file,)]


def test_every_leaf_of_a_plan(tmp_path):
    files = {name: write(tmp_path / f"{name}.parquet") for name in "tu"}
    context = datafusion.SessionContext()
    for name, file in files.items():
        context.register_parquet(name, file.path)
    context.from_pydict({"a": [1]}, name="m")
    found = listed(context, "SELECT t.a FROM t JOIN u USING (a) JOIN m USING (a)")
    assert sorted(map(str, found)) == sorted(map(str, [(files["t"],), (files["u"],), None]))


def test_a_folder_of_many_files(tmp_path):
    files = {write(tmp_path / f"{number}.parquet") for number in range(30)}
    context = datafusion.SessionContext()
    context.register_parquet("t", str(tmp_path))
    (found,) = listed(context, "SELECT a FROM t")
    assert set(found) == files


def test_partition_columns_are_not_whole_files(tmp_path):
    (tmp_path / "k=1").mkdir()
    write(tmp_path / "k=1" / "a.parquet")
    context = datafusion.SessionContext()
    context.register_parquet("t", str(tmp_path), table_partition_cols=[("k", pa.int32())])
    assert listed(context, "SELECT a FROM t") == [None]


def test_other_formats_are_none(tmp_path):
    (tmp_path / "a.csv").write_text("a\n1\n")
    context = datafusion.SessionContext()
    context.register_csv("t", str(tmp_path / "a.csv"))
    assert listed(context, "SELECT a FROM t") == [None]
