"""Scans that end early: which pages they read, exactly, and what they leave behind."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import SessionContext

import lm_datafusion as lm
from lm_datafusion.dataset.extent import Extent
from lm_datafusion.errors import CorruptFileError
from lm_datafusion.plan import FirstRows
from tests.dataset_files import open_descriptors, scan_threads

ROWS, GROUP_ROWS, PAGE_ROWS = 300, 100, 10
NEWEST = FirstRows(column="ts", descending=True, row_count=1)


def crafted(keys=None):
    """One row of each page matches `f = 1`; no page can be ruled out by its bounds."""
    numbers = np.arange(ROWS)
    return pa.table(
        {
            "ts": numbers if keys is None else keys,
            "f": np.where(numbers % PAGE_ROWS == 5, 1, np.where(numbers % 2, 2, 0)),
            "v": numbers * 3,
        }
    )


def write(path, table, **options):
    layout = {
        "row_group_size": GROUP_ROWS,
        "max_rows_per_page": PAGE_ROWS,
        "write_batch_size": 1,
        "use_dictionary": False,
        "write_page_index": True,
    }
    pq.write_table(table, path, **(layout | options))
    return str(path)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write(tmp_path_factory.mktemp("orders") / "crafted.parquet", crafted())


def scan(source, *, extent=None, threads=1, **wanted):
    data = source if isinstance(source, lm.LateDataset) else lm.dataset(source)
    data = data.with_options(threads=threads).with_reports([])
    data = data if extent is None else data.with_extent(extent)
    table = data.to_table(**wanted)
    return table, data.scan_reports()[-1]


# --- exactly the pages that are needed -----------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 7, 10])
def test_a_limit_reads_one_page_per_row_found(path, limit, reverse, threads):
    table, report = scan(path, filter="f = 1", reverse=reverse, limit=limit, threads=threads)
    rows = [row for row in range(ROWS) if row % PAGE_ROWS == 5]
    assert table["ts"].to_pylist() == (rows[::-1] if reverse else rows)[:limit]
    # A match per page: as many pages of each of the three columns as rows.
    assert report.pages_fetched == 3 * limit
    assert report.pages_pruned_early_stop == 10 - limit
    assert report.row_groups_pruned_early_stop == 2
    assert report.rows_selected == limit


@pytest.mark.parametrize("reverse", [False, True])
def test_a_limit_goes_on_in_the_next_row_group(path, reverse):
    table, report = scan(path, filter="f = 1", reverse=reverse, limit=13)
    assert table.num_rows == 13
    assert report.pages_fetched == 3 * 13
    assert (report.row_groups_pruned_early_stop, report.pages_pruned_early_stop) == (1, 7)


@pytest.mark.parametrize(("reverse", "first"), [(False, 0), (True, ROWS - 1)])
@pytest.mark.parametrize(("limit", "pages"), [(0, 0), (1, 1), (10, 1), (11, 2), (100, 10)])
def test_without_a_filter_pages_come_from_one_end(path, reverse, first, limit, pages):
    table, report = scan(path, columns=["v"], reverse=reverse, limit=limit)
    assert table["v"].to_pylist() == [3 * abs(first - row) for row in range(limit)]
    assert report.pages_fetched == pages


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("count", [1, 2, 7, 10])
def test_first_rows_of_a_sorted_file_read_one_page_per_row(path, count, descending, threads):
    first = FirstRows(column="ts", descending=descending, row_count=count)
    table, report = scan(path, extent=Extent(first=first), filter="f = 1", threads=threads)
    rows = [row for row in range(ROWS) if row % PAGE_ROWS == 5]
    assert table["ts"].to_pylist() == (rows[-count:] if descending else rows[:count])
    assert report.pages_fetched == 3 * count
    # Of the filter's column and the key's.
    assert report.pages_pruned_early_stop == 2 * (10 - count)
    assert report.row_groups_pruned_early_stop == 2


def test_first_rows_without_a_filter_read_the_best_page_only(path):
    table, report = scan(path, extent=Extent(first=NEWEST), columns=["ts"])
    assert table["ts"].to_pylist() == [ROWS - 1]
    assert report.pages_fetched == 1


def test_first_rows_of_a_file_in_no_order_leave_out_what_cannot_beat_them(tmp_path):
    rng = np.random.default_rng(3)
    keys = rng.permutation(ROWS)
    source = write(tmp_path / "f.parquet", crafted(keys))
    first = FirstRows(column="ts", descending=True, row_count=2)
    table, report = scan(source, extent=Extent(first=first), columns=["ts", "v"])
    assert sorted(table["ts"].to_pylist()) == [ROWS - 2, ROWS - 1]
    holders = {int(np.flatnonzero(keys == key)[0]) // PAGE_ROWS for key in (ROWS - 2, ROWS - 1)}
    # The pages of the key that hold the two, and the other column's pages of these rows.
    assert report.pages_fetched == 2 * len(holders)


def test_ties_with_the_last_row_are_all_there(tmp_path):
    source = write(tmp_path / "f.parquet", crafted(np.arange(ROWS) // 25))
    table, _ = scan(source, extent=Extent(first=NEWEST), columns=["v"])
    assert table["v"].to_pylist() == [3 * row for row in range(275, 300)]


@pytest.mark.parametrize("reverse", [False, True])
def test_fully_matched_row_groups_come_first_where_any_order_will_do(tmp_path, reverse):
    table = pa.table({"k": [1, 2] * 50 + [2] * 100, "v": range(200)})
    source = write(tmp_path / "f.parquet", table)
    found, report = scan(
        source, extent=Extent(limit=10, is_any_order=True, is_reverse=reverse), filter="k = 2"
    )
    assert found["v"].to_pylist() == (
        list(range(199, 189, -1)) if reverse else list(range(100, 110))
    )
    assert report.pages_fetched == 2
    assert report.row_groups_pruned_early_stop == 1
    plain, _ = scan(source, filter="k = 2", limit=10)
    assert plain["v"].to_pylist() == list(range(1, 20, 2))


# --- pages of different columns that begin at different rows -------------------------------------


@pytest.fixture(scope="module", params=[True, False], ids=["page index", "walked headers"])
def ragged(request, tmp_path_factory):
    """Pages end after so many bytes: of wide columns after few rows."""
    numbers = np.arange(ROWS)
    table = pa.table(
        {
            "ts": pa.array(numbers, pa.int64()),
            "f": pa.array(np.where(numbers % 10 == 5, 1, numbers % 3 * 2), pa.int32()),
            "s": [f"text of row {row:04}" for row in numbers],
            "l": [[row, row + 1] for row in numbers],
        }
    )
    path = tmp_path_factory.mktemp("ragged") / "ragged.parquet"
    options = {"data_page_size": 80, "max_rows_per_page": 10_000, "data_page_version": "2.0"}
    return write(path, table, write_page_index=request.param, **options), table


@pytest.mark.parametrize("window_bytes", [64, 1 << 24])
def test_in_reverse_no_page_is_decoded_twice(ragged, window_bytes):
    source, table = ragged
    data = lm.dataset(source).with_options(window_bytes=window_bytes)
    found, report = scan(data, filter="f = 1", reverse=True)
    rows = [row for row in range(ROWS) if row % 10 == 5][::-1]
    assert found.equals(table.take(rows).combine_chunks())
    assert report.pages_fetched <= report.pages_total
    found, report = scan(data, filter="f <> 3", reverse=True)
    assert found["ts"].to_pylist() == list(range(ROWS))[::-1]
    assert report.pages_fetched == report.pages_total > 50


def test_first_rows_decode_no_page_twice(ragged):
    source, table = ragged
    first = FirstRows(column="ts", descending=True, row_count=ROWS)
    data = lm.dataset(source).with_options(window_bytes=64)
    for threads in (1, 3):
        found, report = scan(data, extent=Extent(first=first), filter="f <> 3", threads=threads)
        assert found.equals(table)
        assert report.pages_fetched == report.pages_total > 100


# --- what is not trusted -------------------------------------------------------------------------


def test_a_claim_in_the_footer_stops_nothing(tmp_path):
    keys = np.random.default_rng(5).permutation(ROWS)
    claim = [pq.SortingColumn(0)]
    for statistics in (True, False):
        source = write(
            tmp_path / "f.parquet",
            crafted(keys),
            sorting_columns=claim,
            write_statistics=statistics,
            write_page_index=statistics,
        )
        table, report = scan(source, extent=Extent(first=NEWEST), columns=["ts"])
        assert table["ts"].to_pylist() == [ROWS - 1]
        if not statistics:
            assert report.pages_fetched == 30
            assert report.pages_pruned_early_stop == report.row_groups_pruned_early_stop == 0


def test_a_nan_behind_the_bounds_is_found(tmp_path):
    keys = np.arange(ROWS, dtype=float)
    keys[17] = np.nan
    source = write(tmp_path / "f.parquet", crafted(keys))
    table, _ = scan(source, extent=Extent(first=NEWEST), columns=["v"])
    assert table["v"].to_pylist() == [51]
    keys[17] = -np.nan
    source = write(tmp_path / "f.parquet", crafted(keys))
    oldest = FirstRows(column="ts", row_count=1)
    table, _ = scan(source, extent=Extent(first=oldest), columns=["v"])
    assert table["v"].to_pylist() == [51]


# --- the report ----------------------------------------------------------------------------------


def test_the_report_says_how_and_what_is_known_of_the_order(path):
    _, report = scan(path, extent=Extent(first=NEWEST), filter="f = 1")
    text = str(report)
    assert "first 1 rows by ts descending, nulls last: pages in the order of the best key" in text
    assert "ts ascending, no nulls: proven by the bounds of 3 row groups" in text
    assert "2 row groups never begun, 18 pages of others never read" in text
    assert report.to_dict()["order"] == report.order
    _, report = scan(path, filter="f = 1", reverse=True, limit=3)
    assert report.mechanism == "pages from the last to the first, stops after 3 rows"
    _, report = scan(path, filter="f = 1")
    assert (report.mechanism, report.order) == ("", "")


# --- engines -------------------------------------------------------------------------------------


def test_an_engine_gets_the_first_rows_as_one_fragment(path):
    data = lm.dataset(path).with_extent(
        Extent(first=FirstRows(column="ts", descending=True, row_count=5))
    )
    assert len(list(data.get_fragments())) == 1
    session = SessionContext()
    session.register_dataset("t", data)
    sql = "SELECT ts, v FROM t WHERE f = 1 ORDER BY ts DESC LIMIT 5"
    rows = session.sql(sql).to_pydict()
    assert rows["ts"] == [295, 285, 275, 265, 255]
    assert data.scan_reports()[-1].pages_fetched == 3 * 5


def test_plans_and_datasets_can_be_sent_away(path):
    data = lm.dataset(path).with_extent(Extent(first=NEWEST))
    again = pickle.loads(pickle.dumps(data))
    assert again.to_table(columns=["ts"])["ts"].to_pylist() == [ROWS - 1]
    scanner = pickle.loads(pickle.dumps(lm.dataset(path).scanner(["ts"], reverse=True, limit=2)))
    assert scanner.to_table()["ts"].to_pylist() == [299, 298]
    (fragment,) = pickle.loads(pickle.dumps(list(data.get_fragments())))
    assert fragment.to_table(columns=["ts"])["ts"].to_pylist() == [ROWS - 1]


# --- nothing is left behind ----------------------------------------------------------------------

WAYS = {
    "reverse": {"reverse": True},
    "reverse, limit": {"reverse": True, "limit": 200},
    "limit": {"limit": 200},
    "order_by": {"order_by": [("ts", "descending")], "limit": 200},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_consumer_that_has_enough_leaves_nothing_behind(path, way, threads):
    data = lm.dataset(path, options=lm.ScanOptions(threads=threads, batch_rows=7))
    batches = data.to_batches(filter="f <> 9", **WAYS[way])
    assert next(batches).num_rows == 7
    batches.close()
    assert scan_threads() == []
    assert open_descriptors(path) == 0


@pytest.mark.parametrize("way", WAYS)
def test_a_consumer_that_raises_leaves_nothing_behind(path, way):
    data = lm.dataset(path, options=lm.ScanOptions(threads=2, batch_rows=7))

    def consume():
        for number, _ in enumerate(data.to_batches(filter="f <> 9", **WAYS[way])):
            if number == 2:
                raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        consume()
    assert scan_threads() == []
    assert open_descriptors(path) == 0


@pytest.mark.parametrize("way", WAYS)
def test_a_scan_that_is_used_up_leaves_nothing_behind(path, way):
    data = lm.dataset(path, options=lm.ScanOptions(threads=2, batch_rows=7))
    assert sum(batch.num_rows for batch in data.to_batches(**WAYS[way])) >= 200
    assert scan_threads() == []
    assert open_descriptors(path) == 0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("threads", [1, 3])
def test_a_damaged_page_is_an_error_and_leaves_nothing_behind(tmp_path, way, threads):
    source = write(tmp_path / "f.parquet", crafted(), compression="ZSTD")
    chunk = pq.ParquetFile(source).metadata.row_group(1).column(1)
    with open(source, "r+b") as file:
        file.seek(chunk.data_page_offset)
        file.write(b"\xff" * chunk.total_compressed_size)
    data = lm.dataset(source, options=lm.ScanOptions(threads=threads, batch_rows=7))
    wanted = WAYS[way] | ({"limit": 290} if "limit" in WAYS[way] else {})
    with pytest.raises(CorruptFileError):
        data.to_table(filter="f <> 9", **wanted)
    assert scan_threads() == []
    assert open_descriptors(source) == 0
