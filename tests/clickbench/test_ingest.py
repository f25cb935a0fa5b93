from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clickbench import ingest as command
from clickbench import sources
from clickbench.ingest import ingest
from clickbench.schema import SCHEMA
from clickbench.sources import SourceError, find_sources, read_lines, text_pieces
from tests.clickbench.test_tsv import lines_of, with_field


@pytest.fixture
def without_spark(monkeypatch):
    monkeypatch.setattr(
        command, "run_tasks", lambda function, tasks, cores: [function(task) for task in tasks]
    )


@pytest.fixture(scope="module")
def some(hits):
    return hits.slice(0, 5_000).combine_chunks()


@pytest.fixture(scope="module")
def broken(some):
    """Lines of text, some of them broken; the numbers (from 1) of those."""
    lines = lines_of(some)
    wrong = {7: b"too\tshort\n", 1_000: b"\n", 2_500: with_field(lines[2_499], "OS", b"x"),
             4_999: with_field(lines[4_998], "EventTime", b"never")}  # fmt: skip
    for number, line in wrong.items():
        lines[number - 1] = line
    return b"".join(lines), sorted(wrong)


def rejected(folder):
    return [
        json.loads(line)
        for path in sorted(folder.glob("_rejected_*.jsonl"))
        for line in path.read_text().splitlines()
    ]


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(sources, "PIECE_BYTES", 300_000)
    monkeypatch.setattr(sources, "_READ_BYTES", 70_000)


@pytest.mark.parametrize("packed", [False, True])
def test_broken_lines_are_set_aside_by_number(
    tmp_path, without_spark, small_pieces, some, broken, packed
):
    text, numbers = broken
    source = tmp_path / ("hits.tsv.gz" if packed else "hits.tsv")
    source.write_bytes(gzip.compress(text) if packed else text)
    manifest = ingest([str(source)], str(tmp_path / "out"), layout="tuned")
    assert len(manifest["files"]) > 5
    assert manifest["rows"] == 5_000 - len(numbers)
    assert manifest["rejected_rows"] == len(numbers)
    assert manifest["rejected"] == {"number of fields": 2, "OS": 1, "EventTime": 1}
    entries = rejected(tmp_path / "out")
    assert [entry["line"] for entry in entries] == numbers
    assert [entry["reason"] for entry in entries] == [
        "2 fields instead of 105", "1 fields instead of 105", "OS: 'x' is no int16",
        "EventTime: 'never' is no time",
    ]  # fmt: skip
    assert entries[0]["raw"] == "too\tshort"
    assert {entry["source"] for entry in entries} == {str(source)}
    kept = [row for row in range(5_000) if row + 1 not in numbers]
    assert pq.read_table(tmp_path / "out").equals(some.take(kept).combine_chunks())
    assert not (tmp_path / "out" / "_work").exists()


@pytest.mark.parametrize("pieces", [1, 2, 3, 7, 50])
def test_every_line_is_in_one_piece_with_its_number(tmp_path, monkeypatch, pieces):
    lines = [b"%d" % number + b"x" * (number % 37) for number in range(500)]
    path = tmp_path / "lines.tsv"
    path.write_bytes(b"\n".join(lines))  # without a last line break
    monkeypatch.setattr(sources, "PIECE_BYTES", -(-path.stat().st_size // pieces))
    monkeypatch.setattr(sources, "_READ_BYTES", 97)
    seen = {}
    for piece in text_pieces(str(path), 1, lambda cuts: [sources.count_breaks(c) for c in cuts]):
        number = piece.first_row
        for line in b"".join(read_lines(piece)).splitlines():
            assert number not in seen
            seen[number] = line
            number += 1
    assert [seen[number] for number in range(500)] == lines


def test_parquet_of_either_kind(tmp_path, without_spark, some):
    optional = pa.schema(
        [pa.field(f.name, pa.binary() if f.type == pa.string() else f.type) for f in SCHEMA]
    )
    pq.write_table(some, tmp_path / "hits.parquet", row_group_size=1_000)
    for number in (0, 2, 10):
        pq.write_table(
            some.slice(0, 50 + number).cast(optional), tmp_path / f"hits_{number}.parquet"
        )
    single = ingest([str(tmp_path / "hits.parquet")], str(tmp_path / "a"))
    assert (single["rows"], single["rejected_rows"]) == (5_000, 0)
    assert pq.read_table(tmp_path / "a").equals(some)
    parted = ingest([str(tmp_path / "hits_*.parquet")], str(tmp_path / "b"))
    assert [entry["rows"] for entry in parted["files"]] == [50, 52, 60]
    assert pq.read_schema(tmp_path / "b" / "hits_000.parquet").equals(SCHEMA)


def test_nulls_in_parquet_are_set_aside(tmp_path, without_spark, some):
    values = some["UserID"].to_pylist()
    values[41] = None
    table = some.set_column(9, "UserID", pa.array(values))
    pq.write_table(table, tmp_path / "hits.parquet")
    manifest = ingest([str(tmp_path / "hits.parquet")], str(tmp_path / "out"))
    assert manifest["rows"] == 4_999
    [entry] = rejected(tmp_path / "out")
    assert (entry["line"], entry["reason"]) == (42, "UserID: no value")


def test_sources_are_found_in_natural_order(tmp_path):
    for name in ("hits_10.parquet", "hits_2.parquet", "hits_1.parquet"):
        (tmp_path / name).touch()
    found = find_sources([str(tmp_path / "hits_*.parquet")])
    assert [path.rsplit("_")[-1] for path in found] == ["1.parquet", "2.parquet", "10.parquet"]


@pytest.mark.parametrize(
    ("name", "message"), [("none.parquet", "no file"), ("hits.orc", "neither in .parquet")]
)
def test_other_sources_are_refused(tmp_path, name, message):
    (tmp_path / "hits.orc").touch()
    with pytest.raises(SourceError, match=message):
        find_sources([str(tmp_path / name)])


def test_on_spark(tmp_path, monkeypatch, some, broken):
    text, numbers = broken
    (tmp_path / "hits.tsv").write_bytes(text)
    monkeypatch.setattr(sources, "PIECE_BYTES", 1_000_000)
    manifest = ingest([str(tmp_path / "hits.tsv")], str(tmp_path / "out"), cores=2)
    assert len(manifest["files"]) > 1
    assert manifest["rows"] + manifest["rejected_rows"] == 5_000
    assert [entry["line"] for entry in rejected(tmp_path / "out")] == numbers
