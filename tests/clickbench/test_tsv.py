from __future__ import annotations

import io

import pyarrow as pa
import pytest

from clickbench.conform import SchemaError, check_schema, conform_batch, conform_text
from clickbench.schema import SCHEMA
from clickbench.tsv import split_fields, unescape, write_tsv


def text_of(table):
    out = io.BytesIO()
    write_tsv(table, out)
    return out.getvalue()


def lines_of(table):
    return text_of(table).splitlines(keepends=True)


def with_field(line, name, value):
    fields = line.rstrip(b"\n").split(b"\t")
    fields[SCHEMA.get_field_index(name)] = value
    return b"\t".join(fields) + b"\n"


def conformed(data):
    return conform_text(split_fields(data, len(SCHEMA)).columns)


def test_text_comes_back_as_it_was(hits):
    rows = hits.slice(0, 3_000)
    broken = hits.filter(pa.compute.match_substring(hits["URL"], "\n"))
    assert broken.num_rows > 0  # URLs with line breaks, tabs and backslashes
    for table in (rows, broken):
        result = conformed(text_of(table))
        assert result.table.equals(table.combine_chunks())
        assert result.bad == {}


@pytest.mark.parametrize(
    ("escaped", "plain"),
    [(rb"a\tb", b"a\tb"), (rb"a\nb", b"a\nb"), (rb"\\N", rb"\N"), (rb"\\\t", b"\\\t"),
     (rb"it\'s", b"it's"), (rb"\0\b\f\r", b"\0\b\f\r"), (rb"\q", b"q")],
)  # fmt: skip
def test_escapes(escaped, plain):
    assert unescape(escaped) == plain


def test_half_an_escape_is_refused():
    with pytest.raises(ValueError, match="middle of an escape"):
        unescape(b"abc\\")


def test_lines_with_other_numbers_of_fields_are_named():
    fields = split_fields(b"a\tb\n\nc\td\te\nf\tg", 2)
    assert fields.counts.tolist() == [2, 1, 3, 2]
    assert fields.whole.tolist() == [0, 3]
    assert [column.to_pylist() for column in fields.columns] == [[b"a", b"f"], [b"b", b"g"]]


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("EventTime", b"2013-07-15 25:00:00", "EventTime: '2013-07-15 25:00:00' is no time"),
        ("EventDate", b"yesterday", "EventDate: 'yesterday' is no date"),
        ("EventDate", b"1869-01-01", "EventDate: '1869-01-01' is no date"),
        ("UserID", b"12x", "UserID: '12x' is no int64"),
        ("UserID", b"", "UserID: '' is no int64"),
        ("UserID", b"99999999999999999999", "UserID: '99999999999999999999' is no int64"),
        ("OS", b"40000", "OS: '40000' is no int16"),
        ("OS", b"1.5", "OS: '1.5' is no int16"),
        ("CounterID", b"\\N", "CounterID: no value"),
        ("URL", b"\\N", "URL: no value"),
        ("Title", b"abc\\", "Title: ends in the middle of an escape"),
    ],
)
def test_a_value_that_does_not_fit_names_its_row(hits, name, value, reason):
    lines = lines_of(hits.slice(0, 5))
    lines[3] = with_field(lines[3], name, value)
    result = conformed(b"".join(lines))
    assert result.bad == {3: reason}
    assert result.table.equals(hits.slice(0, 5).take([0, 1, 2, 4]).combine_chunks())


def test_bytes_that_are_no_utf8_are_repaired_and_counted(hits):
    lines = lines_of(hits.slice(0, 2))
    lines[1] = with_field(lines[1], "UserAgentMinor", b"D\xfa")
    result = conformed(b"".join(lines))
    assert result.table["UserAgentMinor"][1].as_py() == "D\ufffd"
    assert result.repaired == {"UserAgentMinor": 1}
    assert result.bad == {}


def batch_of(table, name, values):
    index = SCHEMA.get_field_index(name)
    changed = table.set_column(index, name, values)
    return changed.combine_chunks().to_batches()[0]


def test_columns_of_parquet_files_are_converted(hits):
    rows = hits.slice(0, 4)
    binary = pa.array([b"a", b"\xff", b"", b"d"])
    result = conform_batch(batch_of(rows, "URL", binary))
    assert result.table["URL"].to_pylist() == ["a", "\ufffd", "", "d"]
    assert result.repaired == {"URL": 1}
    times = rows["EventTime"].cast(pa.timestamp("s")).cast(pa.timestamp("us"))
    assert conform_batch(batch_of(rows, "EventTime", times)).table.equals(rows.combine_chunks())
    wide = rows["OS"].cast(pa.int64()).to_pylist()
    result = conform_batch(batch_of(rows, "OS", pa.array([*wide[:2], 40_000, None])))
    assert result.bad == {2: "OS: '40000' is no int16", 3: "OS: no value"}
    assert result.table.num_rows == 2


def test_files_that_are_no_hits_are_refused(tmp_path, hits):
    import pyarrow.parquet as pq

    path = str(tmp_path / "x.parquet")
    pq.write_table(hits.slice(0, 2).drop_columns(["URL"]), path)
    with pytest.raises(SchemaError, match="no column URL"):
        check_schema(path)
    pq.write_table(hits.slice(0, 2).set_column(0, "WatchID", pa.array([[1], [2]])), path)
    with pytest.raises(SchemaError, match="column WatchID is list"):
        check_schema(path)
