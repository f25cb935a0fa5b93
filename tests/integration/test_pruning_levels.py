"""Each level of pruning, proven on files made for it: rows, counters and bytes."""

from __future__ import annotations

import datafusion
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.formats.parquet.spec import DICTIONARY_ENCODINGS
from lm_datafusion.options import ScanOptions
from lm_datafusion.scan import load_facts
from lm_datafusion.storage import LocalStorage
from tests.parquet_files import every_dictionary

ROWS = 400


@pytest.fixture(autouse=True)
def small_dictionaries():
    with every_dictionary():
        yield


@pytest.fixture(scope="module")
def layered(tmp_path_factory):
    """Five row groups; the query below ends each of them at another level."""
    path = str(tmp_path_factory.mktemp("levels") / "layered.parquet")
    keys = [-1, 1, 1, 1, 1]
    words = np.array([f"w{n:03}" for n in range(ROWS)])
    users = [words, np.where(words == "w100", "w1000", words), words, ["w100"] * ROWS, words]
    colours = ["blue", "red"] * (ROWS // 2)
    mixed = ["blue", "green", "red", "red"] * (ROWS // 4)
    paints = [mixed, mixed, colours, ["green"] * ROWS, mixed]
    schema = pa.schema(
        [
            pa.field("k", pa.int64()),
            pa.field("user", pa.string()),
            pa.field("paint", pa.string(), nullable=False),
            pa.field("other", pa.int64()),
        ]
    )
    with pq.ParquetWriter(
        path,
        schema,
        use_dictionary=["paint"],
        bloom_filter_options={"user": {"ndv": ROWS, "fpp": 0.001}},
        write_page_index=True,
    ) as writer:
        for key, user, paint in zip(keys, users, paints, strict=True):
            columns = [[key] * ROWS, list(user), paint, list(range(ROWS))]
            writer.write_table(pa.table(columns, schema=schema), row_group_size=ROWS)
    return path


QUERY = "k > 0 AND user = 'w100' AND paint = 'green'"


def scan(path, condition, columns=None, **options):
    dataset = lm.dataset(path, options=ScanOptions(**options))
    table = dataset.to_table(columns=columns, filter=condition)
    return table, dataset.scan_reports()[-1]


def test_each_row_group_ends_at_its_level(layered):
    table, report = scan(layered, QUERY)
    # Row group 3 matches as a whole; row group 4 has w100 in row 100, which is blue.
    assert table.column("user").to_pylist() == ["w100"] * ROWS
    assert report.row_groups_total == 5
    assert report.row_groups_pruned_statistics == 1
    assert report.row_groups_pruned_bloom_filter == 1
    assert report.row_groups_pruned_dictionary == 1
    assert report.row_groups_fully_matched == 1
    assert report.rows_selected == ROWS
    assert report.rows_total == 5 * ROWS


@pytest.mark.parametrize(
    ("option", "counter"),
    [
        ("prune_statistics", "row_groups_pruned_statistics"),
        ("prune_bloom_filter", "row_groups_pruned_bloom_filter"),
        ("prune_dictionary", "row_groups_pruned_dictionary"),
    ],
)
def test_a_level_that_is_off_prunes_nothing_and_changes_no_row(layered, option, counter):
    expected, _ = scan(layered, QUERY)
    table, report = scan(layered, QUERY, **{option: False})
    assert getattr(report, counter) == 0
    assert table.equals(expected)


def test_a_fully_matched_row_group_reads_no_filter_column(layered):
    condition = "user = 'w100' AND paint = 'green' AND k = 1 AND other >= 0"
    dataset = lm.dataset(layered)
    facts = load_facts(LocalStorage(), layered, ScanOptions())
    table = dataset.to_table(columns=["other"], filter=condition)
    report = dataset.scan_reports()[-1]
    assert table.num_rows == ROWS
    other = facts.chunk(3, 3).byte_range.length
    # Row group 4 has to be looked at, but not its column `other`: one row is left before it.
    looked_at = sum(facts.chunk(4, leaf).byte_range.length for leaf in (1, 2))
    assert report.bytes_scanned <= other + looked_at
    assert all(step.rows_in <= ROWS for step in report.steps)


@pytest.fixture(scope="module")
def two_columns(tmp_path_factory):
    """Pages of `a` begin at rows 0 and 200, pages of `b` at rows 0, 100 and 245.

    The writer ends a page at 1600 bytes: 200 integers of 8; 100 strings of 12 letters and 4 bytes
    of length; then 140 of 7 letters and 5 of 8.
    """
    path = str(tmp_path_factory.mktemp("pages") / "pages.parquet")
    count = 300
    a = [10 + row % 11 for row in range(200)] + [30 + row % 11 for row in range(100)]
    b = [f"{'ABC'[row % 3]:x<12}" for row in range(100)]
    b += [f"{'DEFG'[row % 4]:x<7}" for row in range(140)] + [f"{'F':x<8}"] * 5
    b += [f"{'HKZ'[row % 3]:x<7}" for row in range(count - len(b))]
    schema = pa.schema(
        [
            pa.field("a", pa.int64(), nullable=False),
            pa.field("b", pa.string(), nullable=False),
            pa.field("c", pa.int32(), nullable=False),
        ]
    )
    table = pa.table([a, b, list(range(count))], schema=schema)
    pq.write_table(
        table,
        path,
        use_dictionary=False,
        compression="NONE",
        data_page_size=1600,
        write_batch_size=1,
        max_rows_per_page=200,
        write_page_index=True,
    )
    return path, table


def test_page_index_of_two_columns_is_intersected(two_columns):
    path, source = two_columns
    facts = load_facts(LocalStorage(), path, ScanOptions())
    with LocalStorage().open(facts.version) as file:
        pages = [facts.chunk(0, leaf).load_pages(file).locations for leaf in range(3)]
    assert pages[0].first_rows.tolist() == [0, 200]
    assert pages[1].first_rows.tolist() == [0, 100, 245]
    assert pages[2].first_rows.tolist() == [0, 200]

    wanted = f"{'F':x<7}"
    table, report = scan(path, f"a > 35 AND b = '{wanted}'", prune_dictionary=False)
    rows = [
        row
        for row in range(300)
        if source["a"][row].as_py() > 35 and source["b"][row].as_py() == wanted
    ]
    assert table.column("c").to_pylist() == rows
    assert rows
    # Only rows 200 to 244 are looked at, by whichever step comes first.
    assert max(step.rows_in for step in report.steps) == 45
    assert all(200 <= row < 245 for row in rows)
    # Of seven pages, one of each column is fetched.
    assert (report.pages_total, report.pages_fetched, report.pages_pruned) == (7, 3, 4)
    assert report.bytes_scanned == int(pages[0].sizes[1] + pages[1].sizes[1] + pages[2].sizes[1])


def test_pages_of_other_columns_are_not_fetched_where_no_row_is_left(two_columns):
    path, _ = two_columns
    table, report = scan(path, "a = 33 AND b = 'nothing'", prune_dictionary=False)
    assert table.num_rows == 0
    assert report.pages_fetched == 0
    assert report.bytes_scanned == 0


def test_pages_without_an_index_are_found_by_walking_the_headers(tmp_path):
    path = str(tmp_path / "walked.parquet")
    table = pa.table({"k": list(range(1000)), "v": [f"value {n}" for n in range(1000)]})
    pq.write_table(table, path, use_dictionary=False, max_rows_per_page=100)
    found, report = scan(path, "k = 512")
    assert found.to_pylist() == [{"k": 512, "v": "value 512"}]
    # Without bounds every page of `k` is read, but of `v` only the page with the row.
    assert report.pages_total == 20
    assert report.pages_fetched == 11
    assert report.bytes_metadata > 0


def lookup_file(path, rows, columns):
    generator = np.random.default_rng(3)
    table = pa.table(
        {"id": np.arange(rows)}
        | {
            f"c{n:02}": generator.integers(0, 1 << (2 + n % 40), rows, dtype=np.int64)
            for n in range(columns - 1)
        }
    )
    pq.write_table(
        table, path, write_page_index=True, max_rows_per_page=20_000, row_group_size=rows // 4
    )


def bytes_of_row(path, row, columns):
    """Bytes of the pages that hold a row, and of the dictionary pages these need."""
    facts = load_facts(LocalStorage(), path, ScanOptions())
    row_group, inner = divmod(row, facts.row_count(0))
    total = 0
    with LocalStorage().open(facts.version) as file:
        for leaf in range(columns):
            chunk = facts.chunk(row_group, leaf)
            pages = chunk.load_pages(file).locations
            page = int(np.searchsorted(pages.first_rows, inner, side="right")) - 1
            total += int(pages.sizes[page])
            if chunk._load_encoding(file, page) in DICTIONARY_ENCODINGS:
                total += int(pages.offsets[0]) - chunk.byte_range.offset
    return total


def test_a_one_row_lookup_reads_the_pages_of_the_row(tmp_path):
    rows, columns = 1_000_000, 100
    path = str(tmp_path / "wide.parquet")
    lookup_file(path, rows, columns)
    # The first pages of a row group are dictionary-coded, the last ones of most columns PLAIN.
    for row, most in [(rows // 2 + 12_345, 1 / 8), (3 * rows // 4 - 1, 1 / 40)]:
        dataset = lm.dataset(path)
        assert dataset.to_table(filter=f"id = {row}").column("id").to_pylist() == [row]
        report = dataset.scan_reports()[-1]
        assert report.bytes_scanned <= 1.1 * bytes_of_row(path, row, columns)
        assert report.bytes_scanned < report.bytes_total * most


@pytest.mark.parametrize(
    "condition", ["x < -100", "x <= -100", "x > 100", "x <> 5", "x < -100 OR x > 100"]
)
def test_nan_of_either_sign_is_in_no_bound(tmp_path, condition):
    """To DataFusion NaN is above all numbers, and below them with a minus sign."""
    table = pa.table({"x": [1.0, 2.0, float("nan"), -float("nan"), 3.0], "n": range(5)})
    path = str(tmp_path / "nan.parquet")
    pq.write_table(table, path, row_group_size=1)
    memory = datafusion.SessionContext()
    memory.from_arrow(table, name="t")
    expected = memory.sql(f"SELECT n FROM t WHERE {condition}").to_pydict()["n"]
    assert expected
    found = lm.dataset(path).to_table(filter=condition, columns=["n"])
    assert sorted(found["n"].to_pylist()) == sorted(expected)


def test_a_range_with_two_ends_prunes_floats(tmp_path):
    path = str(tmp_path / "range.parquet")
    pq.write_table(pa.table({"x": [float(i) for i in range(100)]}), path, row_group_size=10)
    scanner = lm.dataset(path).scanner(filter="x > 31 AND x < 35")
    assert scanner.to_table().num_rows == 3
    assert scanner.report.row_groups_pruned_statistics == 9
