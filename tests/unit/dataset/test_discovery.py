from __future__ import annotations

import os
import pathlib

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.dataset.discovery import load_table_files
from lm_datafusion.errors import FileMissingError, OptionError
from lm_datafusion.storage import LocalStorage


def put(path, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns or {"v": [1, 2, 3]}), path)
    return path


def found(source):
    return [file.path for file in load_table_files(source, LocalStorage())]


class TestSources:
    def test_a_file_as_text_and_as_path(self, tmp_path):
        path = put(tmp_path / "a.parquet")
        assert found(str(path)) == found(path) == [str(path)]

    def test_a_file_may_have_any_name(self, tmp_path):
        path = put(tmp_path / "what [is] this?.data")
        assert found(path) == [str(path)]
        assert lm.dataset(path).count_rows() == 3

    def test_a_list_keeps_its_order_and_may_repeat(self, tmp_path):
        a, b = put(tmp_path / "a.parquet", v=[1]), put(tmp_path / "b.parquet", v=[2])
        assert found([b, str(a), b]) == [str(b), str(a), str(b)]
        assert lm.dataset([b, a, b]).to_table()["v"].to_pylist() == [2, 1, 2]
        assert lm.dataset([b, a, b]).take([2, 0, 1])["v"].to_pylist() == [2, 2, 1]

    def test_a_list_may_hold_folders_and_globs(self, tmp_path):
        a = put(tmp_path / "x" / "a.parquet")
        b = put(tmp_path / "y" / "b.parquet")
        assert found([tmp_path / "y", f"{tmp_path}/x/*.parquet"]) == [str(b), str(a)]

    def test_a_folder_is_walked_in_order(self, tmp_path):
        paths = [put(tmp_path / name) for name in ("b/2.parquet", "a.pq", "b/1.parquet", "c.parq")]
        assert found(tmp_path) == sorted(map(str, paths))

    def test_a_folder_ignores_other_and_hidden_files(self, tmp_path):
        path = put(tmp_path / "part-0.parquet")
        for name in ("_SUCCESS", ".part-0.parquet.crc", "readme.txt", "_metadata", ".x.parquet"):
            (tmp_path / name).write_text("x")
        put(tmp_path / "_temporary" / "0.parquet")
        put(tmp_path / ".git" / "0.parquet")
        assert found(tmp_path) == [str(path)]

    def test_a_folder_of_files_without_suffixes(self, tmp_path):
        path = put(tmp_path / "part-0")
        assert found(tmp_path) == [str(path)]

    def test_globs(self, tmp_path):
        paths = [put(tmp_path / f"{n}.parquet") for n in (1, 2, 10)]
        put(tmp_path / "deep" / "3.parquet")
        assert found(f"{tmp_path}/?.parquet") == [str(p) for p in paths[:2]]
        assert found(f"{tmp_path}/[12].parquet") == [str(p) for p in paths[:2]]
        assert len(found(f"{tmp_path}/*.parquet")) == 3
        assert len(found(f"{tmp_path}/**/*.parquet")) == 4

    def test_relative_paths(self, tmp_path, monkeypatch):
        put(tmp_path / "year=2024" / "a.parquet")
        monkeypatch.chdir(tmp_path)
        assert lm.dataset("year=*/a.parquet").schema.names == ["v", "year"]
        assert lm.dataset(".").schema.names == ["v", "year"]
        assert lm.dataset(pathlib.Path("year=2024")).schema.names == ["v"]

    @pytest.mark.parametrize("source", ["nothing.parquet", "no*.parquet", "no/folder"])
    def test_nothing_there(self, tmp_path, source):
        with pytest.raises(FileMissingError, match=r"no"):
            found(os.path.join(tmp_path, source))

    def test_an_empty_folder(self, tmp_path):
        (tmp_path / "_SUCCESS").write_text("")
        with pytest.raises(FileNotFoundError, match=str(tmp_path)):
            lm.dataset(tmp_path)

    @pytest.mark.parametrize("source", [[], 7, None, [None]])
    def test_no_source_at_all(self, source):
        with pytest.raises(OptionError):
            lm.dataset(source)


class TestPartitions:
    @pytest.fixture
    def root(self, tmp_path):
        folders = (
            "year=2023/city=a%2Fb",
            "year=2024/city=__HIVE_DEFAULT_PARTITION__",
            "year=2024/city=x y",
            "year=2024/city=",
        )
        for number, folder in enumerate(folders):
            put(tmp_path / folder / "part.parquet", v=[number, 10 + number])
        return tmp_path

    def test_columns_come_from_folder_names(self, root):
        table = lm.dataset(root).to_table()
        assert table.schema == pa.schema(
            [("v", pa.int64()), ("year", pa.int32()), ("city", pa.string())]
        )
        rows = {(row["v"], row["year"], row["city"]) for row in table.to_pylist()}
        expected = {(0, 2023, "a/b"), (1, 2024, None), (2, 2024, "x y"), (3, 2024, "")}
        assert rows == expected | {(v + 10, year, city) for v, year, city in expected}

    def test_types_are_those_of_pyarrow(self, root):
        native = ds.dataset(root, partitioning="hive")
        assert lm.dataset(root).schema.equals(native.schema)

    @pytest.mark.parametrize(
        ("values", "expected"),
        [
            (["1", "2"], pa.int32()),
            (["-1", "2147483647"], pa.int32()),
            (["2147483648", "1"], pa.int64()),
            (["9223372036854775808", "1"], pa.string()),
            (["1", "x"], pa.string()),
            (["1.5", "2"], pa.string()),
            (["1", "__HIVE_DEFAULT_PARTITION__"], pa.int32()),
            (["__HIVE_DEFAULT_PARTITION__"], pa.string()),
            (["٣", "1"], pa.string()),
        ],
    )
    def test_types(self, tmp_path, values, expected):
        for value in values:
            put(tmp_path / f"p={value}" / "a.parquet")
        assert lm.dataset(tmp_path).schema.field("p").type == expected

    @pytest.mark.parametrize(
        ("condition", "files_pruned", "rows"),
        [
            ("year = 2024", 1, 6),
            ("year > 2024", 4, 0),
            ("city = 'a/b'", 3, 2),
            ("city IS NULL", 3, 2),
            ("city LIKE 'x%'", 3, 2),
            ("city = ''", 3, 2),
            ("year = 2024 AND city IS NOT NULL", 2, 4),
            ("year + length(city) > 2024", 2, 4),
            ("year = 2024 OR v = 0", 0, 7),
            ("year NOT IN (1, 2, 3, 4, 2023)", 1, 6),
        ],
    )
    def test_files_are_pruned(self, root, condition, files_pruned, rows):
        dataset = lm.dataset(root)
        assert dataset.to_table(filter=condition).num_rows == rows
        report = dataset.scan_reports()[-1]
        assert report.files == 4
        assert report.files_pruned == files_pruned

    def test_files_are_pruned_by_expressions_too(self, root):
        dataset = lm.dataset(root)
        expression = (pc.field("year") == 2024) & pc.field("city").is_valid()
        assert dataset.to_table(filter=expression).num_rows == 4
        assert dataset.scan_reports()[-1].files_pruned == 2

    def test_only_partition_columns_need_no_pages(self, root):
        dataset = lm.dataset(root)
        table = dataset.to_table(columns=["city", "year"], filter="year = 2024")
        assert table.num_rows == 6
        assert table.column_names == ["city", "year"]
        assert dataset.scan_reports()[-1].bytes_scanned == 0

    def test_a_folder_wins_over_a_column_of_the_file(self, tmp_path):
        put(tmp_path / "v=7" / "a.parquet", v=[1], w=[2])
        assert lm.dataset(tmp_path).to_table().to_pylist() == [{"w": 2, "v": 7}]

    def test_a_folder_that_only_some_files_are_in(self, tmp_path):
        put(tmp_path / "a.parquet", v=[1])
        put(tmp_path / "p=3" / "b.parquet", v=[2])
        dataset = lm.dataset(tmp_path)
        assert dataset.to_table().to_pylist() == [{"v": 1, "p": None}, {"v": 2, "p": 3}]
        assert dataset.to_table(filter="p = 3").to_pylist() == [{"v": 2, "p": 3}]

    def test_a_file_without_the_folder_keeps_what_it_stores(self, tmp_path):
        put(tmp_path / "year=2024" / "b.parquet", v=[2])
        put(tmp_path / "a.parquet", v=[1], year=pa.array([2023], pa.int32()))
        table = lm.dataset(tmp_path).to_table()
        assert sorted(table.to_pylist(), key=str) == [
            {"v": 1, "year": 2023},
            {"v": 2, "year": 2024},
        ]
        assert lm.dataset(tmp_path).to_table(filter="year = 2023").num_rows == 1

    def test_a_single_file_has_no_partitions(self, root):
        path = root / "year=2024" / "city=x y" / "part.parquet"
        assert lm.dataset(path).schema.names == ["v"]
