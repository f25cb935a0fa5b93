"""Columns of rare types on the late path: DataFusion's rows, from our own scan."""

from __future__ import annotations

from decimal import Decimal

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm

LONG = "a text that is longer than a view holds inline"


def sessions(path):
    plain = datafusion.SessionContext()
    ours = lm.SessionContext(options=lm.ScanOptions(path="late"))
    for context in (plain, ours):
        context.register_parquet("t", str(path))
    return plain, ours


def assert_late(plain, ours, query):
    wanted = plain.sql(query).to_arrow_table()
    for _ in range(2):
        found = ours.sql(query).to_arrow_table()
        assert found.schema.equals(wanted.schema, check_metadata=True)
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, wanted.to_pylist()))
        assert [report.path for report in ours.scan_reports()] == ["late"]


@pytest.fixture
def nested_views(tmp_path):
    """Written by DataFusion, whose Arrow schema says that text is views."""
    path = tmp_path / "t.parquet"
    view = "arrow_cast({}, 'Utf8View')"
    first, second = view.format("column2"), view.format("column3")
    context = datafusion.SessionContext()
    context.sql(
        "COPY (SELECT column1 AS id,"
        f" named_struct('a', {first}, 'n', column1) AS s,"
        f" make_array({first}, {second}) AS l,"
        f" make_array(named_struct('b', arrow_cast({second}, 'BinaryView'))) AS ls,"
        f" named_struct('l', make_array({first})) AS sl"
        f" FROM (VALUES (1, 'x', 'y'), (2, '{LONG}', 'z'), (3, NULL, NULL), (4, 'd', '{LONG}'),"
        f" (5, '', '{LONG}'), (6, 'f', 'g'))) TO '{path}' STORED AS PARQUET"
        " OPTIONS ('format.max_row_group_size' '3')"
    ).collect()
    assert "string_view" in str(pq.read_schema(path))
    return path


@pytest.mark.parametrize("columns", ["*", "s", "l", "ls", "sl", "id, l", "s['a'], s['n']"])
@pytest.mark.parametrize(
    "condition", ["id > 1", "id IN (2, 3, 6, 7)", "id = 5", "id > 0", "id > 9"]
)
def test_views_inside_of_structs_lists_and_maps(nested_views, columns, condition):
    assert_late(*sessions(nested_views), f"SELECT {columns} FROM t WHERE {condition}")


def test_views_inside_of_nested_columns_in_an_order(nested_views):
    for query in (
        "SELECT * FROM t ORDER BY id DESC LIMIT 2",
        "SELECT l FROM t ORDER BY id LIMIT 4",
    ):
        assert_late(*sessions(nested_views), query)


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN"])
@pytest.mark.parametrize("value_type", [pa.string(), pa.binary(), pa.large_string()], ids=str)
def test_dictionary_columns_in_other_encodings(tmp_path, encoding, value_type):
    values = pa.array(["a", "b", "a", None, LONG, "b", "a", ""]).cast(value_type)
    table = pa.table({"id": range(8), "c": values.dictionary_encode()})
    options = {"use_dictionary": False, "column_encoding": {"c": encoding}}
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=3, **options)
    assert_late(*sessions(tmp_path / "t.parquet"), "SELECT * FROM t WHERE id > 1 ORDER BY id")
    found = lm.dataset(tmp_path / "t.parquet").to_table(filter="id <> 3")
    assert found.schema == pq.read_schema(tmp_path / "t.parquet")
    assert found.to_pylist() == [row for row in table.to_pylist() if row["id"] != 3]


@pytest.mark.parametrize("direction", ["ASC", "DESC"])
@pytest.mark.parametrize("data_type", [pa.decimal32(5, 1), pa.decimal64(15, 1)], ids=str)
def test_the_first_rows_by_a_small_decimal(tmp_path, data_type, direction):
    numbers = [Decimal(f"{n * 37 % 101}.5") if n % 9 else None for n in range(60)]
    table = pa.table({"id": range(60), "d": pa.array(numbers, data_type), "s": ["x"] * 60})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=10, write_page_index=True)
    for query in (
        f"SELECT * FROM t ORDER BY d {direction}, id LIMIT 5",
        f"SELECT id FROM t WHERE id > 7 ORDER BY d {direction} NULLS LAST, id LIMIT 5",
    ):
        assert_late(*sessions(tmp_path / "t.parquet"), query)
    dataset = lm.dataset(tmp_path / "t.parquet")
    order = "ascending" if direction == "ASC" else "descending"
    found = dataset.to_table(order_by=[("d", order)], limit=3).column("d").to_pylist()
    present = sorted((n for n in numbers if n is not None), reverse=direction == "DESC")
    assert found == present[:3]


@pytest.mark.parametrize("column", ["l", "s"])
def test_the_first_rows_by_a_nested_column(tmp_path, column):
    table = pa.table(
        {"id": range(4), "l": [[3], [1], [2], None], "s": [{"a": 1}, {"a": 2}, None, {"a": 0}]}
    )
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=2)
    plain, ours = sessions(tmp_path / "t.parquet")
    assert_late(plain, ours, f"SELECT id FROM t WHERE id > 0 ORDER BY {column} LIMIT 2")
    query = f"SELECT * FROM t ORDER BY {column} DESC LIMIT 2"
    for _ in range(2):
        assert ours.sql(query).to_pylist() == plain.sql(query).to_pylist()
    (report,) = ours.scan_reports()
    assert (report.path, report.reason) == ("native", "no filter to apply early")
