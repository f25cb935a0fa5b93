from __future__ import annotations

import pyarrow as pa

from lm_datafusion.formats.orc.statistics import (
    BloomFilterStatistics,
    RowGroupStatistics,
    StripeStatistics,
    leaf_type,
)
from tests.orc_files import opened, write

SCHEMA = pa.schema([("i", pa.int64()), ("s", pa.string()), ("st", pa.struct([("a", pa.int64())]))])
ROWS = [
    {"i": n if n % 10 else None, "s": f"{n:04}", "st": {"a": n} if n % 4 else None}
    for n in range(250)
]


def file(tmp_path):
    table = pa.Table.from_pylist(ROWS, SCHEMA)
    return write(tmp_path / "f.orc", table, row_index_stride=100, bloom_filter_columns=[1, 2])


def test_row_groups_have_bounds_and_null_counts(tmp_path):
    with opened(file(tmp_path)) as (source, facts):
        groups = RowGroupStatistics(facts, SCHEMA, facts.load_stripe(source, 0), source, {})
        assert groups.row_counts().tolist() == [100, 100, 50]
        assert groups.min_values(("i",)).to_pylist() == [1, 101, 201]
        assert groups.max_values(("i",)).to_pylist() == [99, 199, 249]
        assert groups.null_counts(("i",)).tolist() == [10, 10, 5]
        assert groups.max_values(("s",)).to_pylist() == [b"0099", b"0199", b"0249"]
        assert groups.nan_counts(("i",)) is None


def test_columns_of_structs_count_the_nulls_of_the_struct(tmp_path):
    with opened(file(tmp_path)) as (source, facts):
        groups = RowGroupStatistics(facts, SCHEMA, facts.load_stripe(source, 0), source, {})
        assert groups.max_values(("st", "a")).to_pylist() == [99, 199, 249]
        assert groups.null_counts(("st", "a")).tolist() == [25, 25, 13]


def test_stripes(tmp_path):
    with opened(file(tmp_path)) as (_, facts):
        stripes = StripeStatistics(facts, SCHEMA, [0], {})
        assert stripes.num_containers == 1
        assert stripes.min_values(("i",)).to_pylist() == [1]
        assert stripes.null_counts(("i",)).tolist() == [25]
        assert stripes.may_contain(("i",), pa.array([5])) is None


def test_bloom_filters_answer_for_lists_of_values(tmp_path):
    with opened(file(tmp_path)) as (source, facts):
        stripe = facts.load_stripe(source, 0)
        groups = BloomFilterStatistics(facts, SCHEMA, stripe, source, {})
        assert groups.has_filter(("i",))
        assert not groups.has_filter(("st", "a"))
        assert groups.may_contain(("i",), pa.array([5, 205])).tolist() == [True, False, True]
        assert groups.may_contain(("st", "a"), pa.array([5])) is None
        given = BloomFilterStatistics(facts, SCHEMA, stripe, source, {"i": pa.scalar(5)})
        assert given.may_contain(("i",), pa.array([5])) is None
        assert not given.has_filter(("i",))


def test_constants_stand_for_what_the_file_says(tmp_path):
    constants = {"i": pa.scalar(7), "new": pa.scalar(None, pa.int64())}
    with opened(file(tmp_path)) as (source, facts):
        stripe = facts.load_stripe(source, 0)
        for found in (
            StripeStatistics(facts, SCHEMA, [0], constants),
            RowGroupStatistics(facts, SCHEMA, stripe, source, constants),
        ):
            count = found.num_containers
            assert found.min_values(("i",)).to_pylist() == [7] * count
            assert found.max_values(("i",)).to_pylist() == [7] * count
            assert found.null_counts(("i",)).tolist() == [0] * count
            assert found.nan_counts(("i",)) is None
            assert found.null_counts(("new",)).tolist() == found.row_counts().tolist()


def test_what_is_not_there_is_unknown(tmp_path):
    with opened(file(tmp_path)) as (source, facts):
        groups = RowGroupStatistics(facts, SCHEMA, facts.load_stripe(source, 0), source, {})
        for path in (("nothing",), ("st", "nothing"), ("i", "a")):
            assert groups.min_values(path) is None
            assert groups.null_counts(path) is None


def test_damaged_indexes_are_unknown(tmp_path):
    path = file(tmp_path)
    with opened(path) as (source, facts):
        stripe = facts.load_stripe(source, 0)
        place = stripe.streams[1, 6]
        metadata = facts.tail.metadata
    with open(path, "r+b") as damaged:
        for wanted in (place, metadata):
            damaged.seek(wanted.offset)
            damaged.write(b"\xff" * wanted.length)
    with opened(path) as (source, facts):
        groups = RowGroupStatistics(facts, SCHEMA, facts.load_stripe(source, 0), source, {})
        assert groups.min_values(("i",)) is None
        assert groups.max_values(("s",)) is not None
        assert StripeStatistics(facts, SCHEMA, [0], {}).min_values(("i",)) is None


def test_types_by_path():
    assert leaf_type(SCHEMA, ("st", "a")) == pa.int64()
    assert leaf_type(SCHEMA, ("st", "b")) is None
    assert leaf_type(pa.schema([("a", pa.int8()), ("a", pa.int8())]), ("a",)) is None
