from __future__ import annotations

import decimal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.dataset.schema import unify_schemas, with_string_type
from lm_datafusion.errors import SchemaClashError


def unified(*types):
    schemas = [(f"file{n}", pa.schema([("x", t)])) for n, t in enumerate(types)]
    return unify_schemas(schemas).field("x").type


class TestUnifySchemas:
    @pytest.mark.parametrize(
        ("left", "right", "expected"),
        [
            (pa.int8(), pa.int64(), pa.int64()),
            (pa.uint8(), pa.uint32(), pa.uint32()),
            (pa.uint8(), pa.int16(), pa.int16()),
            (pa.uint8(), pa.int8(), pa.int16()),
            (pa.uint32(), pa.int32(), pa.int64()),
            (pa.float32(), pa.float64(), pa.float64()),
            (pa.int32(), pa.float64(), pa.float64()),
            (pa.int16(), pa.float32(), pa.float32()),
            (pa.null(), pa.string(), pa.string()),
            (pa.null(), pa.list_(pa.int8()), pa.list_(pa.int8())),
            (pa.string(), pa.large_string(), pa.large_string()),
            (pa.binary(), pa.large_binary(), pa.large_binary()),
            (pa.string(), pa.string_view(), pa.string_view()),
            (pa.dictionary(pa.int32(), pa.string()), pa.string(), pa.string()),
            (pa.decimal128(10, 2), pa.decimal128(8, 4), pa.decimal128(12, 4)),
            (pa.decimal128(38, 0), pa.decimal128(38, 10), pa.decimal256(48, 10)),
        ],
        ids=str,
    )
    def test_widens_both_ways(self, left, right, expected):
        assert unified(left, right) == unified(right, left) == expected

    @pytest.mark.parametrize(
        ("left", "right"),
        [
            (pa.int64(), pa.string()),
            (pa.int64(), pa.float64()),
            (pa.uint64(), pa.int64()),
            (pa.int32(), pa.date32()),
            (pa.timestamp("us"), pa.timestamp("us", tz="UTC")),
            (pa.string(), pa.binary()),
            (pa.bool_(), pa.int8()),
            (pa.list_(pa.int8()), pa.int8()),
        ],
        ids=str,
    )
    def test_clashes(self, left, right):
        with pytest.raises(SchemaClashError, match='column "x"') as caught:
            unified(left, right)
        assert "file0" in str(caught.value)
        assert "file1" in str(caught.value)
        assert isinstance(caught.value, ValueError)

    def test_the_file_that_brought_the_column_is_named(self):
        schemas = [
            ("one", pa.schema([("a", pa.int8())])),
            ("two", pa.schema([("b", pa.string())])),
            ("three", pa.schema([("b", pa.int8())])),
        ]
        with pytest.raises(SchemaClashError, match="string in two but int8 in three"):
            unify_schemas(schemas)

    def test_a_column_that_some_files_lack_may_be_null(self):
        required = pa.field("x", pa.int8(), nullable=False)
        other = pa.field("y", pa.int8(), nullable=False)
        schema = unify_schemas([("one", pa.schema([required, other])), ("two", pa.schema([other]))])
        assert schema.field("x").nullable
        assert not schema.field("y").nullable

    @pytest.mark.parametrize("order", [1, -1])
    def test_a_column_that_may_be_null_in_one_file_may_be_null(self, order):
        schemas = [
            ("one", pa.schema([pa.field("x", pa.int8(), nullable=False)])),
            ("two", pa.schema([pa.field("x", pa.int8())])),
        ]
        assert unify_schemas(schemas[::order]).field("x").nullable

    def test_one_schema_is_kept_as_it_is(self):
        schema = pa.schema([("x", pa.int8())], metadata={"k": "v"})
        assert unify_schemas([("one", schema)]).equals(schema, check_metadata=True)

    def test_views(self):
        schema = pa.schema([("s", pa.string()), ("b", pa.large_binary()), ("i", pa.int8())])
        assert with_string_type(schema, "string").equals(schema)
        expected = pa.schema([("s", pa.string_view()), ("b", pa.binary_view()), ("i", pa.int8())])
        assert with_string_type(schema, "string_view").equals(expected)


class TestFilesOfOneTable:
    @pytest.fixture
    def folder(self, tmp_path):
        first = pa.table({"a": pa.array([1, 2], pa.int8()), "s": ["x", None], "old": [1.5, 2.5]})
        second = pa.table({"s": ["y"], "new": [pa.scalar(7).as_py()], "a": pa.array([300])})
        pq.write_table(first, tmp_path / "1.parquet")
        pq.write_table(second, tmp_path / "2.parquet")
        return tmp_path

    def test_columns_are_brought_together_by_name(self, folder):
        assert lm.dataset(folder).to_table().to_pylist() == [
            {"a": 1, "s": "x", "old": 1.5, "new": None},
            {"a": 2, "s": None, "old": 2.5, "new": None},
            {"a": 300, "s": "y", "old": None, "new": 7},
        ]
        assert lm.dataset(folder).schema.field("a").type == pa.int64()

    @pytest.mark.parametrize(
        ("condition", "expected"),
        [
            ("a > 1", [2, 300]),
            ("a = 300", [300]),
            ("new IS NULL", [1, 2]),
            ("new = 7", [300]),
            ("new <> 6", [300]),
            ("old > 2 OR new > 2", [2, 300]),
            ("coalesce(new, 0) = 0 AND a > 1", [2]),
            ("old IS NOT NULL AND s IS NULL", [2]),
            ("new IS DISTINCT FROM 7", [1, 2]),
        ],
    )
    def test_filters_over_columns_that_files_lack_or_hold_narrower(
        self, folder, condition, expected
    ):
        dataset = lm.dataset(folder)
        found = dataset.to_table(columns=["a"], filter=condition)
        assert found["a"].to_pylist() == expected
        assert dataset.count_rows(filter=condition) == len(expected)

    def test_expressions_over_columns_that_files_lack(self, folder):
        dataset = lm.dataset(folder)
        assert dataset.to_table(filter=pc.field("new") == 7)["a"].to_pylist() == [300]
        assert dataset.to_table(filter=pc.field("old").is_null())["a"].to_pylist() == [300]
        assert dataset.to_table(filter=pc.field("a") > 100)["a"].to_pylist() == [300]

    def test_rows_by_position_across_files(self, folder):
        found = lm.dataset(folder).take([2, 0], columns=["new", "a"])
        assert found.to_pylist() == [{"new": 7, "a": 300}, {"new": None, "a": 1}]

    def test_a_clash_is_said_when_the_dataset_is_opened(self, folder):
        pq.write_table(pa.table({"a": ["text"]}), folder / "3.parquet")
        with pytest.raises(SchemaClashError, match='"a"') as caught:
            lm.dataset(folder)
        assert str(folder / "1.parquet") in str(caught.value)
        assert str(folder / "3.parquet") in str(caught.value)

    def test_a_schema_that_is_given_decides(self, folder):
        schema = pa.schema([("old", pa.float32()), ("a", pa.string()), ("more", pa.int8())])
        dataset = lm.dataset(folder, schema=schema)
        assert dataset.schema.equals(schema)
        assert dataset.to_table().to_pylist() == [
            {"old": 1.5, "a": "1", "more": None},
            {"old": 2.5, "a": "2", "more": None},
            {"old": None, "a": "300", "more": None},
        ]
        assert dataset.to_table(filter="a = '300'")["a"].to_pylist() == ["300"]

    def test_a_value_that_does_not_fit_the_schema_names_file_and_column(self, folder):
        dataset = lm.dataset(folder, schema=pa.schema([("a", pa.int8())]))
        with pytest.raises(lm.LateError, match='column "a"') as caught:
            dataset.to_table()
        assert str(folder / "2.parquet") in str(caught.value)

    def test_statistics_of_the_narrow_file_do_not_mislead(self, tmp_path):
        """The same predicate over int32, decimal and dictionary files that were widened."""
        one, two = decimal.Decimal("1.5"), decimal.Decimal("2.2500")
        pq.write_table(
            pa.table({"d": pa.array([one], pa.decimal128(4, 1))}), tmp_path / "1.parquet"
        )
        pq.write_table(
            pa.table({"d": pa.array([two], pa.decimal128(9, 4))}), tmp_path / "2.parquet"
        )
        dataset = lm.dataset(tmp_path)
        assert dataset.schema.field("d").type == pa.decimal128(9, 4)
        assert dataset.to_table(filter="d > 1.7")["d"].to_pylist() == [two]
        assert dataset.to_table(filter="d < 1.7")["d"].to_pylist() == [one]
        assert dataset.to_table(filter="d = 1.5")["d"].to_pylist() == [one]

    def test_dictionaries_and_text_in_one_column(self, tmp_path):
        text = pa.array(["a", "b", "a"])
        pq.write_table(pa.table({"s": text.dictionary_encode()}), tmp_path / "1.parquet")
        pq.write_table(pa.table({"s": text}), tmp_path / "2.parquet")
        dataset = lm.dataset(tmp_path)
        assert dataset.to_table()["s"].to_pylist() == ["a", "b", "a", "a", "b", "a"]
        assert dataset.count_rows(filter="s = 'a'") == 4

    def test_unsigned_and_signed(self, tmp_path):
        pq.write_table(pa.table({"i": pa.array([2**32 - 1], pa.uint32())}), tmp_path / "1.parquet")
        pq.write_table(pa.table({"i": pa.array([-1], pa.int32())}), tmp_path / "2.parquet")
        dataset = lm.dataset(tmp_path)
        assert dataset.to_table(filter="i > 5")["i"].to_pylist() == [2**32 - 1]
        assert dataset.to_table(filter="i < 0")["i"].to_pylist() == [-1]

    def test_metadata_that_is_not_text(self, tmp_path):
        schema = pa.schema([pa.field("a", pa.int8(), metadata={b"\xff": b"\xfe"})]).with_metadata(
            {b"\xff\x00": b"\x80"}
        )
        pq.write_table(pa.table({"a": pa.array([1, 2], pa.int8())}, schema=schema), tmp_path / "m")
        dataset = lm.dataset(tmp_path / "m")
        assert dataset.to_table(filter="a > 1")["a"].to_pylist() == [2]
        assert dataset.schema.equals(pq.read_schema(tmp_path / "m"), check_metadata=True)
