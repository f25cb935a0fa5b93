"""Counts of NaN and bounds in IEEE 754's total order, which pyarrow neither writes nor shows."""

from __future__ import annotations

import io
import math
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.formats.parquet.facts import load_parquet_facts
from lm_datafusion.formats.parquet.statistics import PageStatistics, RowGroupStatistics
from lm_datafusion.formats.parquet.thrift import Kind
from lm_datafusion.storage.local import LocalStorage
from tests.footers import chunks_of, with_footer

PATH = ("x",)
NAN = math.nan
GROUPS = [[1.0, 2.0, 3.0], [10.0, 11.0, 12.0], [1.0, NAN, 3.0], [NAN, NAN, None]]
TYPES = {"f16": pa.float16(), "f32": pa.float32(), "f64": pa.float64()}
FORMS = {"f16": "<e", "f32": "<f", "f64": "<d"}


def written(groups, data_type=None, **options):
    sink = io.BytesIO()
    data_type = data_type or pa.float64()
    schema = pa.schema([pa.field("x", data_type), pa.field("row", pa.int64())])
    row = 0
    with pq.ParquetWriter(sink, schema, **options) as writer:
        for group in groups:
            kept = [None if v is None else data_type.to_pandas_dtype()(v) for v in group]
            rows = range(row, row + len(group))
            columns = [pa.array(kept, data_type), pa.array(rows, pa.int64())]
            writer.write_table(pa.table(columns, schema=schema))
            row += len(group)
    return sink.getvalue()


def with_nan_counts(data, counts, bounds=None):
    """The file with a NaN count per row group, and with new bounds where some are given."""

    def change(footer):
        for index, (chunk, count) in enumerate(zip(chunks_of(footer, 0), counts, strict=True)):
            statistics = chunk[12][1]
            if count is not None:
                statistics[9] = (Kind.I64, count)
            if bounds is not None:
                for field in (1, 2, 5, 6):
                    statistics.pop(field, None)
                lower, upper = bounds[index]
                if lower is not None:
                    statistics[6], statistics[5] = (Kind.BINARY, lower), (Kind.BINARY, upper)

    return with_footer(data, change)


def with_order(data, order):
    """The file with another `ColumnOrder` of its first column."""

    def change(footer):
        footer[7][1][1][0] = {order: (Kind.STRUCT, {})}

    return with_footer(data, change)


def plain(data_type, *bounds):
    """Pairs of bounds as bytes."""
    form = FORMS[data_type]
    return [
        (None, None) if pair is None else tuple(struct.pack(form, value) for value in pair)
        for pair in bounds
    ]


def opened(path):
    storage = LocalStorage()
    return storage.open(storage.load_version(str(path)))


def statistics_of(path):
    with opened(path) as file:
        facts = load_parquet_facts(file)
    return RowGroupStatistics(facts, range(facts.num_row_groups), {})


def saved(tmp_path, data):
    path = tmp_path / "nan.parquet"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("data_type", TYPES)
def test_counts_are_read(tmp_path, data_type):
    data = with_nan_counts(written(GROUPS, TYPES[data_type]), [0, None, 1, 2])
    found = statistics_of(saved(tmp_path, data))
    assert found.nan_counts(PATH).tolist() == [0, -1, 1, 2]
    assert found.nan_counts(("row",)) is None
    assert found.nan_counts(("absent",)) is None
    facts = found._facts
    assert RowGroupStatistics(facts, [2, 0], {}).nan_counts(PATH).tolist() == [1, 0]
    assert RowGroupStatistics(facts, [0], {"x": pa.scalar(NAN)}).nan_counts(PATH) is None


def test_without_counts_nothing_is_known(tmp_path):
    assert statistics_of(saved(tmp_path, written(GROUPS))).nan_counts(PATH) is None


@pytest.mark.parametrize("count", [-1, -(2**63), 3, 4, 2**62])
def test_a_count_that_cannot_be_is_not_used(tmp_path, count):
    """The row group has three values, one of them null."""
    data = with_nan_counts(written([[1.0, 2.0, None]]), [count])
    assert statistics_of(saved(tmp_path, data)).nan_counts(PATH) is None


@pytest.mark.parametrize("kind", [(Kind.BINARY, b"\0"), (Kind.BOOL, False), (Kind.DOUBLE, 0.0)])
def test_a_count_of_another_type_is_not_used(tmp_path, kind):
    def change(footer):
        chunks_of(footer, 0)[0][12][1][9] = kind

    path = saved(tmp_path, with_footer(written([[1.0, 2.0]]), change))
    assert statistics_of(path).nan_counts(PATH) is None


@pytest.mark.parametrize("pair", [(NAN, 2.0), (1.0, NAN), (NAN, NAN)])
def test_no_nan_but_nan_in_a_bound_is_not_used(tmp_path, pair):
    data = with_nan_counts(written([[1.0, 2.0]]), [0], plain("f64", pair))
    assert statistics_of(saved(tmp_path, data)).nan_counts(PATH) is None


def test_a_count_on_a_column_of_whole_numbers_means_nothing(tmp_path):
    def change(footer):
        chunks_of(footer, 1)[0][12][1][9] = (Kind.I64, 0)

    path = saved(tmp_path, with_footer(written([[1.0]]), change))
    assert statistics_of(path).nan_counts(("row",)) is None


@pytest.mark.parametrize("created_by", [None, b"", b"x", b"parquet-mr version 1.17.0"])
@pytest.mark.parametrize("data_type", TYPES)
def test_bounds_in_total_order_are_read(tmp_path, data_type, created_by):
    bounds = plain(data_type, (1.0, 3.0), (10.0, 12.0), (1.0, 3.0), (-NAN, NAN))
    data = with_nan_counts(written(GROUPS, TYPES[data_type]), [0, 0, 1, 2], bounds)

    def change(footer):
        footer[7][1][1][0] = {2: (Kind.STRUCT, {})}
        footer.pop(6)
        if created_by is not None:
            footer[6] = (Kind.BINARY, created_by)

    found = statistics_of(saved(tmp_path, with_footer(data, change)))
    assert found._facts.metadata.row_group(0).column(0).statistics.has_min_max is False
    assert found.min_values(PATH).to_pylist() == [1.0, 10.0, 1.0, None]
    assert found.max_values(PATH).to_pylist() == [3.0, 12.0, 3.0, None]
    assert found.nan_counts(PATH).tolist() == [0, 0, 1, 2]


def test_total_order_without_counts_has_no_bounds(tmp_path):
    found = statistics_of(saved(tmp_path, with_order(written(GROUPS), 2)))
    assert found.min_values(PATH).null_count == len(GROUPS)


def test_an_unknown_order_has_no_bounds(tmp_path):
    data = with_order(with_nan_counts(written(GROUPS), [0, 0, 1, 2]), 9)
    found = statistics_of(saved(tmp_path, data))
    assert found.min_values(PATH).null_count == len(GROUPS)


def test_bounds_of_another_length_are_none(tmp_path):
    bounds = [(b"\0" * 4, b"\0" * 4), *plain("f64", (10.0, 12.0), (1.0, 3.0), None)]
    data = with_order(with_nan_counts(written(GROUPS), [0, 0, 1, 2], bounds), 2)
    found = statistics_of(saved(tmp_path, data))
    assert found.min_values(PATH).to_pylist() == [None, 10.0, 1.0, None]
    assert found.nan_counts(PATH).tolist() == [-1, 0, 1, 2]


def test_pages_of_a_chunk_without_nan_have_none(tmp_path):
    values = [float(n) for n in range(1000)]
    options = {"write_page_index": True, "data_page_size": 800, "use_dictionary": False}
    data = written([values], **options, write_batch_size=100)
    for count, expected in ((0, True), (1, False), (None, False)):
        with opened(saved(tmp_path, with_nan_counts(data, [count]))) as file:
            pages = PageStatistics(load_parquet_facts(file), 0, [PATH], file, {})
            counts = pages.nan_counts(PATH)
        assert pages.num_containers > 5
        assert (counts is not None) is expected
        assert counts is None or counts.tolist() == [0] * pages.num_containers


CONDITIONS = [
    "x > 5",
    "x >= 10",
    "x < 5",
    "x <> 1",
    "NOT (x < 5)",
    "x = 'NaN'::double",
    "x <> 'NaN'::double",
    "x BETWEEN 0 AND 5",
    "x IN (1, 2, 3, 4, 5)",
    "x NOT IN (1, 2, 3, 4, 5)",
    "x IS DISTINCT FROM 1",
    "x > 5 OR row = 0",
]


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("data_type", ["f32", "f64"])
@pytest.mark.parametrize("text", CONDITIONS)
def test_the_rows_are_right(tmp_path, text, data_type, order):
    negative = np.copysign(NAN, -1.0)
    groups = [*GROUPS, [negative, 4.0, 5.0], [-0.0, 0.0, 0.0]]
    bounds = plain(data_type, (1.0, 3.0), (10.0, 12.0), (1.0, 3.0), None, (4.0, 5.0), (-0.0, 0.0))
    if order == 2:
        bounds[3] = plain(data_type, (NAN, NAN))[0]
    data = written(groups, TYPES[data_type])
    data = with_order(with_nan_counts(data, [0, 0, 1, 2, 1, 0], bounds), order)
    path = saved(tmp_path, data)
    everything = pq.read_table(path)
    context = lm.SessionContext()
    context.register_record_batches("plain", [everything.to_batches()])
    expected = context.sql(f"SELECT row FROM plain WHERE {text}").to_pydict()["row"]
    found = lm.dataset(str(path)).to_table(columns=["row"], filter=text)
    assert sorted(found["row"].to_pylist()) == sorted(expected)


@pytest.mark.parametrize("order", [1, 2])
def test_row_groups_are_left_out_where_nan_is_ruled_out(tmp_path, order):
    bounds = plain("f64", (1.0, 3.0), (10.0, 12.0), (1.0, 3.0), None)
    data = with_order(with_nan_counts(written(GROUPS), [0, 0, 1, 2], bounds), order)
    dataset = lm.dataset(str(saved(tmp_path, data)))
    dataset.to_table(filter="x > 5")
    report = dataset.scan_reports()[-1]
    assert report.row_groups_pruned_statistics == 1
