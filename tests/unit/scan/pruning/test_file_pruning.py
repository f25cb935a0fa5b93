from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.scan.pruning import file_pruning


@pytest.fixture
def folder(tmp_path):
    for number in range(4):
        table = pa.table({"x": range(number * 10, number * 10 + 10), "y": [number] * 10})
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=5)
    return tmp_path


def pruned(dataset, condition):
    rows = dataset.to_table(filter=condition).num_rows
    report = dataset.scan_reports()[-1]
    return rows, report.row_groups_pruned_statistics, report.row_groups_fully_matched


def test_the_row_groups_of_all_files_are_judged_together(folder):
    dataset = lm.dataset(folder)
    assert pruned(dataset, "x >= 12 AND x < 25") == (13, 5, 1 + 1)
    assert pruned(dataset, "x = 39 OR x = 0") == (2, 6, 0)
    assert pruned(dataset, "y = 3") == (10, 6, 2)


def test_files_that_are_not_alike_are_judged_one_by_one(folder):
    # No statistics here, another type there.
    narrow = pa.table({"x": pa.array(range(100, 110), pa.int32()), "y": [9] * 10})
    pq.write_table(narrow, folder / "8.parquet")
    pq.write_table(narrow, folder / "9.parquet", write_statistics=False)
    dataset = lm.dataset(folder)
    assert pruned(dataset, "x < 5") == (5, 8, 1)
    assert pruned(dataset, "x >= 105") == (10, 8, 0)


def test_one_judgement_serves_many_files(folder, monkeypatch):
    calls = []
    judge = file_pruning.judge

    def counted(tree, statistics, nan_free):
        calls.append(statistics.num_containers)
        return judge(tree, statistics, nan_free)

    monkeypatch.setattr("lm_datafusion.scan.pruning.file_pruning.judge", counted)
    lm.dataset(folder).scanner(filter="x < 15 AND y < 2").to_table()
    # The second conjunct is left to the row groups that the first has not ruled out.
    assert calls == [8, 4]


def test_a_struct_that_a_file_lacks_has_no_fields(tmp_path):
    pq.write_table(pa.table({"id": [1], "st": [{"s": "x"}]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"id": [2, 3]}), tmp_path / "1.parquet")
    dataset = lm.dataset(str(tmp_path))
    for condition, expected in (
        ("st['s'] = ''", []),
        ("st['s'] <> 'x'", []),
        ("st['s'] = 'x'", [1]),
        ("st['s'] IS NULL", [2, 3]),
        ("st IS NULL", [2, 3]),
    ):
        found = dataset.to_table(columns=["id"], filter=condition)
        assert found["id"].to_pylist() == expected, condition
