"""Chunks whose sizes leave the dictionary page's header out (PARQUET-816).

parquet-mr before 1.2.9 and Impala wrote such footers: the last data page ends beyond what
`total_compressed_size` says. pyarrow knows it of parquet-mr and reads on; DataFusion does not. The
values are right, or there is an error that says so; they are never others.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.errors import LateError
from lm_datafusion.formats.parquet.page_header import parse_page_header
from lm_datafusion.formats.parquet.spec import PageType
from lm_datafusion.formats.parquet.thrift import Kind
from tests.footers import chunks_of, with_footer
from tests.parquet_files import chunk_bytes, metadata_of, write_parquet

ROWS = 4000
COLUMNS = ["text", "id", "number", "kind"]
PARQUET_MR = b"parquet-mr version 1.2.8"
IMPALA = b"impala version 1.2.4"
SHORT = {
    "first": ["text"],
    "inner": ["id"],
    "last": ["kind"],
    "all": COLUMNS,
}
LAYOUTS = {
    "V1": {},
    "V2": {"data_page_version": "2.0"},
    "page index": {"write_page_index": True},
}


def table(*, nullable):
    numbers = range(ROWS)

    def gap(i, value):
        return None if nullable and i % 5 == 0 else value

    columns = {
        "text": pa.array([gap(i, f"value {i * 7919 % 61}") for i in numbers], pa.string()),
        "id": pa.array([i // 2 for i in numbers], pa.int64()),
        "number": pa.array([gap(i, i * 31 % 97 / 4) for i in numbers], pa.float64()),
        "kind": pa.array([gap(i, f"kind {i * 13 % 29}") for i in numbers], pa.string()),
    }
    fields = [pa.field(name, column.type, nullable=nullable) for name, column in columns.items()]
    return pa.table(list(columns.values()), schema=pa.schema(fields))


def with_short_sizes(data, names, created_by):
    """The file with the size of dictionary page headers missing in the sizes of some columns."""
    columns = [COLUMNS.index(name) for name in names]
    missing = {
        (group, column): parse_page_header(chunk_bytes(data, group, column))
        for group in range(metadata_of(data).num_row_groups)
        for column in columns
    }
    assert all(header.kind is PageType.DICTIONARY for header in missing.values())

    def change(footer):
        footer[6] = (Kind.BINARY, created_by)
        for column in columns:
            for group, chunk in enumerate(chunks_of(footer, column)):
                for field in (6, 7):
                    size = chunk[field][1] - missing[group, column].header_bytes
                    chunk[field] = (Kind.I64, size)

    return with_footer(data, change)


def short_file(tmp_path, expected, names, created_by, **options):
    data = write_parquet(
        expected,
        row_group_size=ROWS // 2,
        data_page_size=256,
        write_batch_size=100,
        store_schema=False,
        **options,
    )
    assert data_pages(data) > 5
    path = tmp_path / "short.parquet"
    path.write_bytes(with_short_sizes(data, names, created_by))
    return path


def data_pages(data):
    """How many data pages the first chunk has."""
    chunk = chunk_bytes(data, 0, 0)
    position = count = 0
    while position < len(chunk):
        header = parse_page_header(chunk, position)
        position += header.header_bytes + header.compressed_size
        count += header.kind is not PageType.DICTIONARY
    return count


def conditions():
    """By name: a condition, and a mask of the rows that meet it."""
    last = ROWS // 2 - 1
    return {
        "none": (None, lambda rows: [True] * len(rows)),
        "last row": (f"id = {last}", lambda rows: [row["id"] == last for row in rows]),
        "ends": (f"id < 3 OR id > {last - 3}", lambda rows: [_is_end(r["id"]) for r in rows]),
        "text": ("text = 'value 7'", lambda rows: [row["text"] == "value 7" for row in rows]),
        "kind": ("kind > 'kind 27'", lambda rows: [_above(row["kind"]) for row in rows]),
        "number": ("number < 1", lambda rows: [_below(row["number"]) for row in rows]),
    }


def _is_end(number):
    return number < 3 or number > ROWS // 2 - 4


def _above(text):
    return text is not None and text > "kind 27"


def _below(number):
    return number is not None and number < 1


WIDTHS = {"all": COLUMNS, "text": ["text"], "kind": ["kind"], "number and id": ["number", "id"]}


def found_otherwise(path, expected):
    """What a scan gives that is neither right nor an error; and how many scans were right."""
    rows = expected.to_pylist()
    wrong, right = [], 0
    for name, (condition, mask) in conditions().items():
        kept = expected.filter(pa.array(mask(rows)))
        for width, columns in WIDTHS.items():
            try:
                found = lm.dataset(str(path)).to_table(columns=columns, filter=condition)
            except LateError:
                continue
            if found.to_pylist() == kept.select(columns).to_pylist():
                right += 1
            else:
                wrong.append((name, width))
    return wrong, right


each_shortage = pytest.mark.parametrize("short", SHORT)
each_nullability = pytest.mark.parametrize("nullable", [True, False], ids=["nulls", "required"])
each_codec = pytest.mark.parametrize("codec", ["none", "snappy"])
each_layout = pytest.mark.parametrize("layout", LAYOUTS)


@each_shortage
@each_nullability
@each_codec
@each_layout
def test_values_are_right_where_pyarrow_reads_them(tmp_path, short, nullable, codec, layout):
    expected = table(nullable=nullable)
    options = {"compression": codec, **LAYOUTS[layout]}
    path = short_file(tmp_path, expected, SHORT[short], PARQUET_MR, **options)
    assert pq.read_table(path).to_pylist() == expected.to_pylist()
    wrong, right = found_otherwise(path, expected)
    assert not wrong
    assert right == len(WIDTHS) * len(conditions())


@each_shortage
@each_nullability
@each_codec
@each_layout
def test_values_are_right_or_there_is_an_error(tmp_path, short, nullable, codec, layout):
    """pyarrow does not know it of Impala, and says that a page is smaller than expected."""
    expected = table(nullable=nullable)
    options = {"compression": codec, **LAYOUTS[layout]}
    path = short_file(tmp_path, expected, SHORT[short], IMPALA, **options)
    wrong, _ = found_otherwise(path, expected)
    assert not wrong


@each_shortage
@each_layout
def test_rows_by_number_and_order(tmp_path, short, layout):
    expected = table(nullable=True)
    path = short_file(tmp_path, expected, SHORT[short], PARQUET_MR, **LAYOUTS[layout])
    rows = expected.to_pylist()
    dataset = lm.dataset(path)
    wanted = [ROWS - 1, 0, ROWS // 2 - 1, ROWS // 2, 77]
    assert dataset.take(wanted).to_pylist() == [rows[i] for i in wanted]
    assert dataset.head(7).to_pylist() == rows[:7]
    assert dataset.to_table(reverse=True, limit=5).to_pylist() == rows[: -5 - 1 : -1]
    found = dataset.to_table(order_by=[("id", "descending")], limit=4, columns=["id", "kind"])
    assert found.to_pylist() == [
        {"id": row["id"], "kind": row["kind"]} for row in [*rows[-2:], *rows[-4:-2]]
    ]


def sql_rows(path):
    session = lm.SessionContext(options=lm.ScanOptions(path="late"))
    session.register_parquet("t", str(path))
    return session.sql("SELECT kind, text FROM t WHERE id > 1990").to_arrow_table().to_pylist()


def expected_sql_rows(expected):
    kept = expected.filter(pa.array([v > 1990 for v in expected["id"].to_pylist()]))
    return kept.select(["kind", "text"]).to_pylist()


def test_sql_is_right_where_pyarrow_reads_them(tmp_path):
    expected = table(nullable=True)
    path = short_file(tmp_path, expected, COLUMNS, PARQUET_MR, compression="snappy")
    assert sql_rows(path) == expected_sql_rows(expected)


def test_sql_is_right_or_fails(tmp_path):
    expected = table(nullable=True)
    path = short_file(tmp_path, expected, COLUMNS, IMPALA, compression="snappy")
    try:
        found = sql_rows(path)
    except Exception:  # noqa: BLE001 DataFusion has one class for what a table raises
        return
    assert found == expected_sql_rows(expected)
