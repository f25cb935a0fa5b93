"""The dataset reads every file of the corpus as pyarrow does, or says why it cannot."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from tests.dataset_files import same_values
from tests.parquet_files import CORPUS

FOLDERS = (CORPUS / "parquet-testing" / "data", CORPUS / "parquet-testing" / "bad_data")
HITS = CORPUS / "clickbench_hits_10.parquet"
FILES = [*(p for folder in FOLDERS for p in sorted(folder.glob("*.parquet"))), HITS]
FILES = [path for path in FILES if path.exists()]

# pyarrow reads these files only in part, or not at all.
UNREADABLE = {
    "ARROW-GH-41321.parquet",
    "ARROW-GH-45185.parquet",
    "ARROW-RS-GH-6229-DICTHEADER.parquet",
    "PARQUET-1481.parquet",
    "incorrect_map_schema.parquet",
    "large_string_map.brotli.parquet",
}

needs_corpus = pytest.mark.skipif(not FILES, reason=f"no corpus of files in {CORPUS}")
needs_hits = pytest.mark.skipif(not HITS.exists(), reason=f"no file {HITS}")


# One value of this file takes a gigabyte.
SLOW = {"large_string_map.brotli.parquet"}


def cases(chosen):
    files = [
        pytest.param(path, id=path.name, marks=pytest.mark.slow if path.name in SLOW else ())
        for path in FILES
        if chosen(path)
    ]
    return files or [pytest.param(None, marks=needs_corpus, id="absent")]


each_good_file = pytest.mark.parametrize("path", cases(lambda p: p.name not in UNREADABLE))
each_bad_file = pytest.mark.parametrize("path", cases(lambda p: p.name in UNREADABLE))


def some_rows(count):
    """The first, the middle and the last row, out of order and one of them twice."""
    return [count - 1, 0, count // 2, 0] if count else []


def taken(table, rows):
    return table.take(pa.array(rows, pa.int64()))


@each_good_file
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"window_bytes": 1024, "threads": 1},
        {"batch_rows": 3},
    ],
    ids=["default", "small windows", "small batches"],
)
def test_whole_table(path, options):
    dataset = lm.dataset(path, options=lm.ScanOptions(**options))
    expected = pq.read_table(path)
    assert dataset.schema.equals(expected.schema, check_metadata=True)
    assert [f.nullable for f in dataset.schema] == [f.nullable for f in expected.schema]
    assert same_values(dataset.to_table(), expected)


@each_good_file
def test_batches_hold_valid_arrays(path):
    for batch in lm.dataset(path).to_batches():
        batch.validate(full=True)


@each_good_file
def test_each_column_alone(path):
    dataset = lm.dataset(path)
    expected = pq.read_table(path)
    for name in expected.column_names:
        assert same_values(dataset.to_table(columns=[name]), expected.select([name]))


@each_good_file
def test_rows_by_position(path):
    expected = pq.read_table(path)
    rows = some_rows(expected.num_rows)
    assert same_values(lm.dataset(path).take(rows), taken(expected, rows))


@each_good_file
def test_first_rows_and_count(path):
    dataset = lm.dataset(path)
    expected = pq.read_table(path)
    assert same_values(dataset.head(3), expected.slice(0, 3))
    assert dataset.count_rows() == expected.num_rows


@each_good_file
def test_nulls_of_each_flat_column_are_found(path):
    dataset = lm.dataset(path)
    expected = pq.read_table(path)
    for name in expected.column_names:
        if pa.types.is_nested(expected.schema.field(name).type):
            continue
        found = dataset.to_table(columns=[name], filter=f'"{name}" IS NULL')
        assert found.num_rows == expected.column(name).null_count, name


@each_good_file
def test_view_types_hold_the_same_values(path):
    options = lm.ScanOptions(string_type="string_view")
    found = lm.dataset(path, options=options).to_table()
    expected = pq.read_table(path)
    for name in expected.column_names:
        assert repr(found[name].to_pylist()) == repr(expected[name].to_pylist()), name


@each_bad_file
def test_unreadable_files_say_which_file_it_is(path):
    with pytest.raises((OSError, pa.ArrowException)):
        pq.read_table(path)
    with pytest.raises(lm.LateError, match=path.name):
        lm.dataset(path).to_table()


@pytest.mark.parametrize("path", cases(lambda p: p.name in UNREADABLE - SLOW))
def test_unreadable_files_stay_unreadable_row_by_row(path):
    with pytest.raises(lm.LateError, match=path.name):
        lm.dataset(path).take([0])


@pytest.mark.parametrize(
    "path",
    cases(lambda p: p.name in {"alltypes_tiny_pages.parquet", "fixed_length_byte_array.parquet"}),
)
def test_a_few_rows_touch_a_few_pages(path):
    dataset = lm.dataset(path)
    count = dataset.count_rows()
    dataset.take([0, count // 2, count - 1])
    report = dataset.scan_reports()[-1]
    assert report.pages_total >= 10
    assert report.pages_fetched <= 3 * len(dataset.schema)
    assert not report.chunks_fallback
    assert report.bytes_scanned < report.bytes_total


@needs_hits
@pytest.mark.parametrize(
    "condition",
    [
        '"CounterID" = 62',
        '"EventDate" >= 15901 AND "IsRefresh" = 0',
        "\"URL\" LIKE '%php%' OR \"Title\" = ''",
        '"WatchID" > 0 AND "RegionID" <> 229',
        '"UserID" IN (1, 2, 3) OR length("Referer") > 20',
    ],
)
def test_hits_with_a_filter(condition):
    from datafusion import SessionContext

    table = pq.read_table(HITS)
    context = SessionContext()
    context.register_record_batches("hits", [table.to_batches()])
    ids = context.sql(f'SELECT "WatchID" FROM hits WHERE {condition}').to_pydict()["WatchID"]
    expected = table.filter(pc.field("WatchID").isin(pa.array(ids, pa.int64())))
    assert same_values(lm.dataset(HITS).to_table(filter=condition), expected)
    assert lm.dataset(HITS).count_rows(filter=condition) == len(ids)


@needs_hits
def test_hits_with_an_expression_of_pyarrow():
    expression = (pc.field("RegionID") > 200) & (pc.field("URL") != b"")
    assert same_values(
        lm.dataset(HITS).to_table(filter=expression), pq.read_table(HITS).filter(expression)
    )
