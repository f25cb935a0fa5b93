from __future__ import annotations

import csv
import io
import json
import os

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from lm_datafusion.cli.formats import (
    CHUNKS,
    SAMPLE_ROWS,
    TableLayout,
    csv_chunks,
    json_chunks,
    ndjson_chunks,
    replacing,
    table_chunks,
    write_parquet,
)
from lm_datafusion.errors import OptionError
from tests.dataset_files import many_kinds


def joined(chunks):
    return b"".join(chunks).decode()


def table_text(table, **layout):
    return joined(table_chunks(table.schema, table.to_batches(), TableLayout(**layout)))


def test_table():
    table = pa.table({"n": [1, None], "s": ["x", None], "l": [[1], None]})
    assert table_text(table).splitlines() == [
        "+------+------+------+",
        "|    n | s    | l    |",
        "+------+------+------+",
        "|    1 | x    | [1]  |",
        "| NULL | NULL | NULL |",
        "+------+------+------+",
        "2 rows",
    ]


def test_table_shows_some_rows_and_counts_all():
    table = pa.table({"n": range(100)})
    text = joined(
        table_chunks(table.schema, table.to_batches(max_chunksize=7), TableLayout(max_rows=10))
    )
    assert text.splitlines()[-3] == "| 9 |"
    assert text.splitlines()[-1] == "100 rows, … 90 more not shown (--max-rows 0 shows all)"


@pytest.mark.parametrize("rows", [0, 1, SAMPLE_ROWS - 1, SAMPLE_ROWS, SAMPLE_ROWS + 1, 5000])
@pytest.mark.parametrize("chunk", [1, 999, 10_000])
def test_table_shows_every_row_once(rows, chunk):
    table = pa.table({"n": range(rows)})
    batches = table.to_batches(max_chunksize=chunk)
    lines = joined(table_chunks(table.schema, batches, TableLayout())).splitlines()
    assert [int(line.strip("| ")) for line in lines[3:-2]] == list(range(rows))
    assert lines[-1].startswith(f"{rows:,} row")


def test_rows_are_shown_before_the_rest_is_counted():
    table = pa.table({"n": range(100)})
    chunks = table_chunks(table.schema, failing(table, after=50), TableLayout(max_rows=10))
    assert b"| 9 |" in next(chunks)
    next(chunks)
    with pytest.raises(RuntimeError):
        next(chunks)


def failing(table, after):
    yield table.slice(0, after).to_batches()[0]
    raise RuntimeError


def test_columns_left_out_are_counted():
    table = pa.table({f"column {i}": [i] for i in range(50)})
    assert "columns not shown" in table_text(table, width=80).splitlines()[-1]


def test_csv_tells_null_from_empty_text():
    table = pa.table({"a": ["", None, 'q"x', "l\nm"], "n": [1, None, 3, 4]})
    assert joined(csv_chunks(table.schema, table.to_batches())) == (
        '"a","n"\n"",1\n,\n"q""x",3\n"l\nm",4\n'
    )


def test_csv_has_its_header_once():
    table = pa.table({"a": range(5000)})
    text = joined(csv_chunks(table.schema, table.to_batches(max_chunksize=100)))
    assert text.count("a") == 1
    assert pa_csv.read_csv(io.BytesIO(text.encode())).equals(table)


def test_csv_and_json_of_no_rows():
    schema = pa.schema([("a", pa.string_view()), ("l", pa.list_(pa.int8()))])
    assert joined(csv_chunks(schema, [])) == '"a","l"\n'
    assert joined(json_chunks(schema, [])) == "[]\n"
    assert joined(ndjson_chunks(schema, [])) == ""


def test_json_of_every_kind_of_column():
    table = many_kinds()
    rows = json.loads(joined(json_chunks(table.schema, table.to_batches(max_chunksize=50))))
    assert len(rows) == table.num_rows
    assert [row["id"] for row in rows] == table["id"].to_pylist()
    assert [row["s"] for row in rows] == table["s"].to_pylist()
    assert [row["u"] for row in rows] == table["u"].to_pylist()
    assert [row["lst"] for row in rows] == table["lst"].to_pylist()
    assert [row["st"] for row in rows] == table["st"].to_pylist()
    assert rows[1]["f"] == "NaN"
    assert rows[1]["tz"] == "2024-01-01T01:00:00.000000Z"
    assert rows[1]["bin"] == "0100ff"


def test_ndjson_has_one_object_a_line():
    table = many_kinds()
    lines = joined(ndjson_chunks(table.schema, table.to_batches())).splitlines()
    assert [json.loads(line)["id"] for line in lines] == table["id"].to_pylist()


def test_csv_of_every_kind_of_column():
    table = many_kinds()
    text = joined(csv_chunks(table.schema, table.to_batches()))
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == table.num_rows
    assert rows[1]["dec"] == "-0.99"
    assert rows[1]["d"] == "2024-01-02"
    assert [rows[0]["g"], rows[1]["g"]] == ["", "0"]
    assert json.loads(rows[2]["lst"]) == [0, 1]
    assert json.loads(rows[2]["st"]) == {"x": 2, "y": "apple"}


def test_every_kind_of_column_fits_in_a_table():
    assert table_text(many_kinds(), width=100).splitlines()[-1].startswith("240 rows")


def collect(chunks, written):
    for chunk in chunks:
        written.append(chunk)


@pytest.mark.parametrize("name", sorted(CHUNKS))
def test_batches_are_written_as_they_come(name):
    """Memory is bounded: a format asks for the next batch only when the one before is out."""
    table = pa.table({"a": range(100)})
    chunks = CHUNKS[name](table.schema, failing(table, after=50))
    written = []
    with pytest.raises(RuntimeError):
        collect(chunks, written)
    assert b"49" in b"".join(written)


def test_parquet_has_plain_types_and_a_page_index(tmp_path):
    path = str(tmp_path / "out.parquet")
    table = pa.table({"s": pa.array(["x", None], pa.string_view()), "n": [1, 2]})
    write_parquet(table.schema, table.to_batches(), path)
    assert pq.read_table(path)["s"].type == pa.string()
    assert pq.read_metadata(path).row_group(0).column(0).has_column_index


def write_half(path):
    with replacing(path) as draft, open(draft, "w") as file:
        file.write("half")
        raise RuntimeError


def test_a_file_is_replaced_only_by_a_whole_one(tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("before")
    with pytest.raises(RuntimeError):
        write_half(str(path))
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["out.csv"]
    with replacing(str(path)) as draft, open(draft, "w") as file:
        file.write("after")
    assert path.read_text() == "after"
    assert os.listdir(tmp_path) == ["out.csv"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "link.csv").symlink_to(tmp_path / "file.csv")
    with replacing(str(tmp_path / "link.csv")) as draft, open(draft, "w") as file:
        file.write("through")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "file.csv").read_text() == "through"


def test_a_device_is_not_replaced():
    with replacing(os.devnull) as path:
        assert path == os.devnull


def test_columns_of_the_same_name(tmp_path):
    arrays = [pa.array([value]) for value in range(4)]
    table = pa.Table.from_arrays(arrays, names=["id", "id", "id_2", "id"])
    text = joined(json_chunks(table.schema, table.to_batches()))
    assert json.loads(text) == [{"id": 0, "id_3": 1, "id_2": 2, "id_4": 3}]
    assert joined(csv_chunks(table.schema, table.to_batches())).endswith("0,1,2,3\n")
    with pytest.raises(OptionError, match='"id"'):
        write_parquet(table.schema, table.to_batches(), str(tmp_path / "out.parquet"))
