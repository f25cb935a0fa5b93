"""`lm.dataset` over ORC: the same rows as DataFusion over the same rows in memory."""

from __future__ import annotations

import pickle
import random

import datafusion
import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import lm_datafusion as lm
from lm_datafusion.errors import CorruptFileError, OptionError, SchemaClashError
from lm_datafusion.formats.orc import file_facts
from tests.orc_files import makers, write

ROWS = 40_000
STRIDE = 1_000


def make_table(row_count=ROWS):
    numbers = np.arange(row_count)
    chance = np.random.default_rng(7)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "bucket": pa.array(numbers // 97 % 31, pa.int32()),
            "noise": pa.array(chance.integers(0, 1000, row_count), pa.int64()),
            "price": pa.array(chance.random(row_count), mask=numbers % 11 == 0),
            "name": pa.array([None if n % 13 == 0 else f"name {n % 501}" for n in numbers]),
            "at": pa.array(numbers * 10**9, pa.timestamp("ns")),
            "tags": pa.array([[f"t{n % 5}"] * (n % 3) for n in numbers]),
            "st": pa.array([{"a": int(n % 8), "b": str(n)} for n in numbers]),
        }
    )


TABLE = make_table()
CONDITIONS = (
    "id = 12345",
    "id BETWEEN 5000 AND 5100 AND price > 0.5",
    "noise = 5",
    "name = 'name 77' AND bucket < 9",
    "name LIKE '%9' OR price IS NULL",
    "at >= '1970-01-01T09:00:00' AND at < '1970-01-01T09:01:00'",
    "st['a'] = 3 AND id > 39000",
    "tags[1] = 't4' AND noise < 20",
    "bucket NOT IN (1, 2, 3, 4)",
    "id < 0",
    "price > 2 OR id >= 0",
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("orc")
    return write(
        folder / "t.orc",
        TABLE,
        row_index_stride=STRIDE,
        stripe_size=100_000,
        batch_size=1_000,
        compression="zstd",
        bloom_filter_columns=[1, 3],
    )


@pytest.fixture(scope="module")
def memory():
    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
    context.register_record_batches("t", [TABLE.combine_chunks().to_batches()])
    return context


def ids(memory, condition, rest="ORDER BY id"):
    found = memory.sql(f"SELECT id FROM t WHERE {condition} {rest}").to_pydict()
    return found.get("id", [])


def test_all_rows_of_several_stripes(path):
    assert orc.ORCFile(path).nstripes >= 3
    assert lm.dataset(path).to_table().equals(TABLE)


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("columns", [["id"], ["name", "id", "tags", "st"], []], ids=len)
def test_filters(path, memory, condition, columns):
    rows = pa.array(ids(memory, condition), pa.int64())
    expected = TABLE.take(rows).select(columns)
    dataset = lm.dataset(path)
    for _ in range(2):  # the second time the condition cache knows the rows
        found = dataset.to_table(columns=columns, filter=condition)
        assert found.num_rows == len(ids(memory, condition))
        assert found.equals(expected) or not columns
    plain = lm.ScanOptions(
        prune_statistics=False,
        prune_page_index=False,
        prune_bloom_filter=False,
        condition_cache_bytes=0,
        threads=1,
        batch_rows=777,
    )
    found = lm.dataset(path, options=plain).to_table(columns=columns, filter=condition)
    assert found.num_rows == expected.num_rows or not columns
    assert found.equals(expected) or not columns


@pytest.mark.parametrize("condition", CONDITIONS)
def test_limit_and_reverse(path, memory, condition):
    dataset = lm.dataset(path, options=lm.ScanOptions(batch_rows=1_500))
    expected = ids(memory, condition)
    for count in (0, 1, 7, 5_000):
        found = dataset.to_table(columns=["id"], filter=condition, limit=count)
        assert found["id"].to_pylist() == expected[:count]
    found = dataset.to_table(columns=["id"], filter=condition, reverse=True)
    assert found["id"].to_pylist() == expected[::-1]


@pytest.mark.parametrize("key", ["id", "noise", "price", "name", "at", "bucket"])
@pytest.mark.parametrize("direction", ["ascending", "descending"])
def test_order_by(path, memory, key, direction):
    dataset = lm.dataset(path)
    words = "DESC" if direction == "descending" else "ASC"
    for condition in ("id >= 0", "bucket = 4 AND price > 0.1"):
        # Ties are resolved by the position in the table.
        expected = ids(memory, condition, f"ORDER BY {key} {words} NULLS LAST, id LIMIT 25")
        found = dataset.to_table(
            columns=["id", "name"], filter=condition, order_by=[(key, direction)], limit=25
        )
        assert found["id"].to_pylist() == expected


def test_what_is_not_needed_is_not_read(path):
    dataset = lm.dataset(path)
    dataset.to_table(columns=["name", "price"], filter="id = 12345")
    (report,) = dataset.scan_reports()
    assert report.row_groups_pruned_statistics == report.row_groups_total - 1
    assert report.pages_total - report.pages_pruned == 3, "a row group of each column"
    assert report.bytes_scanned < report.bytes_total / 5
    assert report.rows_selected == 1
    dataset.to_table(filter="noise = 1234567")
    assert dataset.scan_reports()[-1].row_groups_pruned_statistics == report.row_groups_total


def test_bloom_filters_rule_out_row_groups(tmp_path):
    table = pa.table({"a": [(n * 7919) % 100_003 for n in range(20_000)]})
    path = write(tmp_path / "f.orc", table, row_index_stride=500, bloom_filter_columns=[0, 1])
    absent = next(n for n in range(50_000, 60_000) if n not in set(table["a"].to_pylist()))
    counts = {}
    for is_used in (True, False):
        dataset = lm.dataset(
            path, options=lm.ScanOptions(prune_bloom_filter=is_used, condition_cache_bytes=0)
        )
        assert dataset.count_rows(filter=f"a = {absent}") == 0
        (step,) = dataset.scan_reports()[-1].steps
        counts[is_used] = step.rows_in
    assert counts[True] < counts[False] / 4


def test_rows_by_position(path):
    dataset = lm.dataset(path)
    rows = [39_999, 0, 17_000, 17_001, 0]
    assert dataset.take(rows, columns=["id", "tags"]).equals(
        TABLE.select(["id", "tags"]).take(rows)
    )
    assert dataset.head(3).equals(TABLE.slice(0, 3))
    assert dataset.count_rows() == ROWS


def test_a_stripe_that_cannot_be_cut(tmp_path):
    path = write(tmp_path / "f.orc", TABLE, row_index_stride=1 << 20)
    options = lm.ScanOptions(batch_rows=1_000)
    dataset = lm.dataset(path, options=options)
    assert dataset.to_table().equals(TABLE)
    assert dataset.to_table(filter="noise = 5").equals(TABLE.filter(pc.field("noise") == 5))
    found = dataset.to_table(reverse=True, columns=["id"])
    assert found["id"].to_pylist() == list(range(ROWS))[::-1]


def test_dictionaries_are_decoded_once_for_many_portions(tmp_path, monkeypatch):
    monkeypatch.setattr(file_facts, "PORTION_ROWS", 10_000)
    table = pa.table({"s": [f"word {n * n % 977}" for n in range(ROWS)], "n": range(ROWS)})
    path = write(tmp_path / "f.orc", table, row_index_stride=500, dictionary_key_size_threshold=1)
    options = lm.ScanOptions(batch_rows=1_000, threads=1, condition_cache_bytes=0)
    dataset = lm.dataset(path, options=options)
    for given in ({}, {"reverse": True}):
        found = dataset.to_table(filter="n >= 1234 AND n < 38765", **given)
        expected = table.slice(1_234, 38_765 - 1_234)
        assert found.equals(
            expected if not given else expected.take(pa.array(range(len(expected))[::-1]))
        )
        if not given:  # windows of a reverse scan begin small
            report = dataset.scan_reports()[-1]
            assert report.bytes_scanned < report.bytes_total
    few = dataset.to_table(filter="n IN (7, 1499, 1500, 20000)")
    assert few["s"].to_pylist() == table.take([7, 1499, 1500, 20_000])["s"].to_pylist()


@pytest.mark.parametrize("seed", range(4))
def test_every_type(tmp_path, seed):
    chance = random.Random(seed)
    made = {kind: make(2_000) for kind, make in makers(chance).items()}
    path = write(tmp_path / "f.orc", made, row_index_stride=100)
    whole = orc.read_table(path)
    dataset = lm.dataset(path, options=lm.ScanOptions(batch_rows=333))
    rows = sorted(chance.sample(range(2_000), 50))
    for name in whole.schema.names:
        # PyArrow's writer sometimes stores values of null structs: then nobody reads what it wrote.
        if repr(whole[name].to_pylist()) != repr(made[name].to_pylist()):
            continue
        found = dataset.to_table(columns=[name])
        assert repr(found[name].to_pylist()) == repr(whole[name].to_pylist())
        picked = dataset.take(rows, columns=[name])[name]
        assert repr(picked.to_pylist()) == repr(whole[name].take(rows).to_pylist())


def test_unions_are_read_but_not_compared(tmp_path):
    chance = random.Random(3)
    table = {"u": makers(chance)["union"](500), "a": list(range(500))}
    path = write(tmp_path / "f.orc", table, row_index_stride=50)
    found = lm.dataset(path).to_table(filter="a BETWEEN 70 AND 90")
    whole = orc.read_table(path)
    assert repr(found["u"].to_pylist()) == repr(whole["u"].to_pylist()[70:91])
    assert lm.dataset(path).to_table(filter=pc.field("a") == 7).num_rows == 1
    with pytest.raises(KeyError):
        lm.dataset(path).to_table(filter="u = 5")


def test_folders_partitions_and_schema_evolution(tmp_path):
    for year, columns in ((2023, {"a": pa.array([1, 2], pa.int32())}), (2024, {"a": [3, 4]})):
        folder = tmp_path / f"year={year}"
        folder.mkdir()
        extra = {"b": ["x", None]} if year == 2024 else {}
        write(folder / "part-0.snappy.orc", columns | extra)
    (tmp_path / "_SUCCESS").touch()
    dataset = lm.dataset(tmp_path)
    assert [str(t) for t in dataset.schema.types] == ["int64", "int32", "string"]
    expected = [(1, 2023, None), (2, 2023, None), (3, 2024, "x"), (4, 2024, None)]
    found = [
        tuple(row.values()) for row in dataset.to_table(columns=["a", "year", "b"]).to_pylist()
    ]
    assert found == expected
    assert dataset.to_table(filter="year = 2024 AND b = 'x'")["a"].to_pylist() == [3]
    report = dataset.scan_reports()[-1]
    assert report.files_pruned == 1
    assert dataset.to_table(filter="b IS NULL")["a"].to_pylist() == [1, 2, 4]
    write(tmp_path / "year=2024" / "odd.orc", {"a": ["text"]})
    with pytest.raises(SchemaClashError):
        lm.dataset(tmp_path)


def test_a_folder_of_both_formats_is_an_error_that_names_one_of_each(tmp_path):
    write(tmp_path / "a.orc", {"a": [1]})
    pq.write_table(pa.table({"a": [2]}), tmp_path / "b.parquet")
    with pytest.raises(OptionError, match=r"a\.orc \(ORC\) and .*b\.parquet \(Parquet\)"):
        lm.dataset(tmp_path)
    with pytest.raises(OptionError, match="not two"):
        lm.dataset([str(tmp_path / "b.parquet"), str(tmp_path / "a.orc")])
    (tmp_path / "a.orc").rename(tmp_path / "a")
    (tmp_path / "b.parquet").rename(tmp_path / "b")
    with pytest.raises(OptionError, match="not two"):
        lm.dataset(tmp_path)


def test_names_without_a_suffix(tmp_path):
    write(tmp_path / "000000_0", {"a": [1, 2]})
    assert lm.dataset(tmp_path / "000000_0").to_table().to_pydict() == {"a": [1, 2]}
    assert lm.dataset(tmp_path).to_table().to_pydict() == {"a": [1, 2]}


def test_a_file_that_is_something_else(tmp_path):
    pq.write_table(pa.table({"a": [2]}), tmp_path / "b.orc")
    with pytest.raises(CorruptFileError, match=r"b\.orc"):
        lm.dataset(tmp_path / "b.orc")


def test_engines_read_it(path, memory):
    hits = lm.dataset(path)
    condition = "noise < 3 AND price > 0.2"
    expected = ids(memory, condition)
    context = datafusion.SessionContext()
    context.register_dataset("hits", hits)
    query = f"SELECT id FROM hits WHERE {condition} ORDER BY id"
    assert context.sql(query).to_pydict()["id"] == expected
    assert duckdb.sql(query).fetchall() == [(n,) for n in expected]
    lazy = pl.scan_pyarrow_dataset(hits)
    found = lazy.filter((pl.col("noise") < 3) & (pl.col("price") > 0.2)).collect()
    assert found["id"].to_list() == expected
    assert len(hits.scan_reports()) > 2


def test_pyarrow_itself_reads_it(path):
    dataset = lm.dataset(path)
    assert isinstance(dataset.format, ds.OrcFileFormat)
    assert ds.Scanner.from_dataset(dataset, columns=["id"]).to_table().num_rows == ROWS
    assert pa.table(dataset).num_rows == ROWS


def test_a_stock_orc_dataset_is_taken_over(path):
    context = lm.SessionContext()
    context.register_dataset("t", ds.dataset(path, format="orc"))
    assert context.sql("SELECT id FROM t WHERE id NOT IN (1, 5, 6, 7) AND id < 8").to_pydict() == {
        "id": [0, 2, 3, 4]
    }


def test_datasets_are_pickled(path):
    dataset = lm.dataset(path).filter("id < 10")
    assert pickle.loads(pickle.dumps(dataset)).count_rows() == 10


def test_fragments_hold_every_row_once(path):
    dataset = lm.dataset(path, options=lm.ScanOptions(threads=3))
    fragments = list(dataset.get_fragments())
    found = sorted(n for f in fragments for n in f.to_table(columns=["id"])["id"].to_pylist())
    assert found == list(range(ROWS))


def test_an_order_that_bounds_prove(path):
    known = lm.dataset(path).find_order("id")
    assert known.is_proven
    assert not known.descending


@pytest.mark.parametrize("types", [("int32", "double"), ("int8", "int64"), ("float", "double")])
def test_orders_of_columns_that_files_store_in_different_types(tmp_path, types):
    for number, name in enumerate(types):
        keys = [row / 2 if name in ("double", "float") else row for row in range(100)]
        table = pa.table({"a": range(100 * number, 100 * number + 100), "m": keys})
        orc.write_table(
            table.cast(pa.schema([("a", "int64"), ("m", name)])), tmp_path / f"{name}.orc"
        )
    dataset = lm.dataset(tmp_path)
    rows = dataset.to_table().to_pylist()
    for order in ("ascending", "descending"):
        found = dataset.to_table(order_by=[("m", order), ("a", "ascending")], limit=7)
        sign = -1 if order == "descending" else 1
        expected = sorted(rows, key=lambda row: (sign * row["m"], row["a"]))[:7]
        assert found["m"].to_pylist() == [row["m"] for row in expected]
    session = lm.SessionContext()
    session.register_orc("t", tmp_path)
    found = session.sql("SELECT a FROM t ORDER BY m DESC, a LIMIT 7").to_pydict()["a"]
    expected = sorted(rows, key=lambda row: (-row["m"], row["a"]))[:7]
    assert found == [row["a"] for row in expected]
