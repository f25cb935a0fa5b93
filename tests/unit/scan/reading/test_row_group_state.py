"""Row groups that are read as one, and those that are not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.scan.planning.planner import load_facts
from lm_datafusion.scan.reading import row_group_state
from lm_datafusion.scan.reading.row_group import RowGroupReader
from lm_datafusion.storage import LocalStorage

ROWS, GROUP = 6000, 1000


@pytest.fixture
def path(tmp_path):
    rng = np.random.default_rng(2)
    noise = rng.integers(0, 100, ROWS)
    noise[::50], noise[25::50] = 0, 99  # the bounds of no page rule it out
    table = pa.table(
        {
            "n": np.arange(ROWS),
            "noise": noise,
            "word": [f"word {number}" for number in rng.integers(0, 30, ROWS)],
            "words": [[str(number)] for number in rng.integers(0, 30, ROWS)],
        }
    )
    name = str(tmp_path / "t.parquet")
    pq.write_table(table, name, row_group_size=GROUP, max_rows_per_page=100, write_page_index=True)
    return name


@pytest.fixture
def read(monkeypatch):
    """The row groups of each reader that was made."""
    seen = []
    made = RowGroupReader.__init__

    def note(reader, plan, states, *rest):
        seen.append([state.access.row_group for state in states])
        made(reader, plan, states, *rest)

    monkeypatch.setattr(RowGroupReader, "__init__", note)
    lm.clear_condition_cache()
    return seen


def scan(path, condition, **options):
    options = {"threads": 1, "condition_cache_bytes": 0, **options}
    return lm.dataset(path, options=lm.ScanOptions(**options)).to_table(filter=condition)


def test_whole_row_groups_are_one(path, read):
    found = scan(path, "noise < 3")
    assert read == [[0, 1, 2, 3, 4, 5]]
    numbers = pq.read_table(path)
    assert found.equals(numbers.filter(pa.compute.field("noise") < 3))


def test_row_groups_with_other_conjuncts_left_are_apart(path, read):
    """The second conjunct holds in the whole of the last three row groups."""
    found = scan(path, "noise < 30 AND n >= 2500")
    assert read == [[2], [3, 4, 5]]
    assert found.num_rows == ((pq.read_table(path)["noise"].to_numpy() < 30)[2500:]).sum()


def test_row_groups_that_the_page_index_narrows_are_apart(path, read):
    found = scan(path, "n < 1500 OR n > 4200")
    assert read == [[0], [1], [4], [5]]
    assert found.num_rows == 1500 + ROWS - 4201


@pytest.mark.parametrize("condition", ["noise < 3", "noise <> 7 AND word LIKE '%1'"])
def test_row_groups_with_known_rows_are_one(path, read, condition):
    first = scan(path, condition, condition_cache_bytes=1 << 20)
    read.clear()
    again = scan(path, condition, condition_cache_bytes=1 << 20)
    assert read == [[0, 1, 2, 3, 4, 5]]
    assert again.equals(first)
    assert again.equals(scan(path, condition))


def test_row_groups_that_the_cache_knows_in_part_are_apart(path, read):
    """Nothing is left to evaluate in those known; the others are read as one."""
    scan(path, "noise < 3 AND n < 2000", condition_cache_bytes=1 << 20)
    read.clear()
    found = scan(path, "noise < 3", condition_cache_bytes=1 << 20)
    assert read == [[0, 1], [2, 3, 4, 5]]
    assert found.equals(scan(path, "noise < 3"))


def test_limits_and_reverse_scans_take_one_at_a_time(path, read):
    dataset = lm.dataset(path, options=lm.ScanOptions(threads=1, condition_cache_bytes=0))
    assert dataset.head(5, filter="noise < 50").num_rows == 5
    assert all(len(row_groups) == 1 for row_groups in read)
    read.clear()
    dataset.to_table(filter="noise < 50", reverse=True)
    assert read == [[n] for n in reversed(range(6))]


@pytest.mark.parametrize("condition", ["noise < 3", "word = 'word 7'", "upper(word) = 'WORD 7'"])
def test_nested_columns_come_along(path, read, condition):
    found = scan(path, condition)
    assert read == [[0, 1, 2, 3, 4, 5]]
    one_by_one = pa.concat_tables(
        fragment.to_table(filter=condition)
        for fragment in lm.dataset(
            path, options=lm.ScanOptions(threads=6, condition_cache_bytes=0)
        ).get_fragments()
    )
    assert found.equals(one_by_one)
    assert 0 < found.num_rows < ROWS


def test_the_condition_cache_learns_row_groups_one_by_one(path, read):
    first = scan(path, "noise < 3 AND word LIKE '%1%'", condition_cache_bytes=1 << 20)
    assert read == [[0, 1, 2, 3, 4, 5]]
    dataset = lm.dataset(path, options=lm.ScanOptions(threads=1))
    again = dataset.to_table(filter="noise < 3 AND word LIKE '%1%'")
    assert again.equals(first)
    report = dataset.scan_reports()[-1]
    assert report.condition_cache_hits == 6
    assert report.condition_cache_rows == ROWS
    assert not report.steps


def test_windows_end_with_row_groups_where_memory_is_short(path, read, monkeypatch):
    windows = []
    filtered = RowGroupReader.filter

    def note(reader, rows, *rest):
        windows.append(rows.row_count)
        return filtered(reader, rows, *rest)

    monkeypatch.setattr(RowGroupReader, "filter", note)
    expected = scan(path, "noise < 3")
    assert windows == [ROWS]
    windows.clear()
    assert scan(path, "noise < 3", window_bytes=1 << 14).equals(expected)
    assert windows == [GROUP] * 6
    windows.clear()
    assert scan(path, "noise < 3", window_bytes=1 << 12).equals(expected)
    edges = np.cumsum(windows).tolist()
    assert max(windows) <= GROUP // 2
    assert {GROUP * n for n in range(1, 7)} <= set(edges)


def test_row_groups_that_are_decoded_otherwise_are_apart(path, read):
    chunk = load_facts(LocalStorage(), path, lm.ScanOptions()).chunks_of(2, 1)[0]
    chunk.kernel_pages = None
    found = scan(path, "noise < 3")
    assert read == [[0, 1], [2], [3, 4, 5]]
    assert found.equals(pq.read_table(path).filter(pa.compute.field("noise") < 3))


def test_no_state_is_pruned_twice(path, monkeypatch):
    calls = []
    prune = row_group_state.prune_row_group

    def note(access, *rest, **options):
        calls.append(access.row_group)
        return prune(access, *rest, **options)

    monkeypatch.setattr(row_group_state, "prune_row_group", note)
    scan(path, "noise < 3")
    assert calls == list(range(6))
