from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from datafusion import SessionConfig, SessionContext

import lm_datafusion as lm
from lm_datafusion.scan.planning import split

ROWS = 10_000


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(split, "FEWEST_ROWS", 1000)
    monkeypatch.setattr(split, "ROWS_PER_WORKER", 1)
    lm.clear_condition_cache()


def make_table(rows: int = ROWS) -> pa.Table:
    numbers = np.arange(rows)
    text = [f"text {n % 97}" if n % 5 else None for n in range(rows)]
    return pa.table({"n": numbers, "noise": (numbers * 7919) % rows, "s": text})


@pytest.fixture
def path(tmp_path):
    name = str(tmp_path / "one.parquet")
    pq.write_table(make_table(), name, row_group_size=ROWS, max_rows_per_page=700)
    return name


def ranges_of(fragments) -> list[tuple[int, int] | None]:
    return [task.rows for fragment in fragments for task in fragment._part.tasks]


@pytest.mark.parametrize(("threads", "parts"), [(1, 1), (2, 2), (3, 3), (64, 10)])
def test_fragments_hold_each_row_once_and_in_order(path, threads, parts):
    fragments = list(lm.dataset(path, options=lm.ScanOptions(threads=threads)).get_fragments())
    assert len(fragments) == parts
    ranges = ranges_of(fragments)
    if parts > 1:
        assert ranges[0][0] == 0
        assert ranges[-1][1] == ROWS
        assert all(a[1] == b[0] for a, b in itertools.pairwise(ranges))
    found = pa.concat_tables([fragment.to_table() for fragment in fragments])
    assert found.equals(make_table())


@pytest.mark.parametrize("threads", [2, 7])
@pytest.mark.parametrize("condition", ["noise < 300", "s LIKE '%7%'", "n >= 2900 AND n < 3100"])
def test_a_filter_finds_the_same_rows(path, threads, condition):
    expected = lm.dataset(path, options=lm.ScanOptions(threads=1)).to_table(filter=condition)
    assert 0 < expected.num_rows < ROWS
    dataset = lm.dataset(path, options=lm.ScanOptions(threads=threads))
    assert dataset.to_table(filter=condition).equals(expected)
    (report,) = dataset.scan_reports()
    assert (report.row_groups_total, report.rows_total) == (1, ROWS)
    assert report.rows_selected == expected.num_rows


def test_reports_of_fragments_add_up_to_one_row_group(path):
    dataset = lm.dataset(path, options=lm.ScanOptions(threads=3))
    fragments = list(dataset.get_fragments(pc.field("noise") < 300))
    for fragment in fragments:
        fragment.to_table(filter=pc.field("noise") < 300)
    reports = dataset.scan_reports()
    assert len(reports) == 3
    assert sum(report.row_groups_total for report in reports) == 1
    assert sum(report.rows_total for report in reports) == ROWS
    assert sum(report.rows_selected for report in reports) == 300


def test_sql_over_one_row_group(path):
    context = lm.SessionContext()
    context.register_dataset("t", lm.dataset(path, options=lm.ScanOptions(threads=2)))
    found = context.sql("SELECT count(*) AS c, sum(n) AS s FROM t WHERE noise < 300").to_pydict()
    wanted = make_table().filter(pc.field("noise") < 300)
    assert found == {"c": [300], "s": [pc.sum(wanted["n"]).as_py()]}


@pytest.mark.parametrize("condition", ["noise < 300", "s LIKE '%7%' AND noise < 5000", "n < 100"])
@pytest.mark.parametrize(("threads", "again"), [(2, 2), (2, 3), (5, 1)])
def test_parts_teach_the_condition_cache_together(path, condition, threads, again):
    """Those of one scan; `n < 100` is pruned by the page index in all parts but one."""
    expected = in_memory(condition).combine_chunks()
    cold = lm.dataset(path, options=lm.ScanOptions(threads=threads))
    assert cold.to_table(filter=condition).combine_chunks().equals(expected)
    warm = lm.dataset(path, options=lm.ScanOptions(threads=again))
    assert warm.to_table(filter=condition).combine_chunks().equals(expected)
    (report,) = warm.scan_reports()
    assert not [step for step in report.steps if step.rows_in]
    assert report.condition_cache_rows == ROWS


def in_memory(condition: str) -> pa.Table:
    frame = SessionContext(SessionConfig().with_target_partitions(1)).from_arrow(make_table())
    return frame.filter(frame.parse_sql_expr(condition)).to_arrow_table()


def test_fragments_teach_the_condition_cache_together(path):
    dataset = lm.dataset(path, options=lm.ScanOptions(threads=3))
    wanted = pc.field("noise") < 300
    first, *others = dataset.get_fragments(wanted)
    first.to_table(filter=wanted)
    dataset.to_table(filter=wanted, limit=5)
    assert lm.condition_cache_bytes() == 0
    for fragment in others:
        fragment.to_table(filter=wanted)
    assert dataset.to_table(filter=wanted).num_rows == 300
    assert dataset.scan_reports()[-1].condition_cache_rows == ROWS


def test_a_part_that_ends_early_teaches_nothing(path):
    dataset = lm.dataset(path, options=lm.ScanOptions(threads=2, batch_rows=10))
    batches = dataset.to_batches(filter="noise < 9000")
    next(batches)
    batches.close()
    assert lm.condition_cache_bytes() == 0


def test_what_is_known_of_a_row_group_narrows_its_parts(path):
    whole = lm.dataset(path, options=lm.ScanOptions(threads=1))
    whole.to_table(filter="noise < 300")
    parts = lm.dataset(path, options=lm.ScanOptions(threads=2))
    assert parts.to_table(filter="noise < 300").num_rows == 300
    (report,) = parts.scan_reports()
    assert report.condition_cache_rows == ROWS


def test_small_row_groups_nested_columns_and_chosen_rows_stay_whole(path, tmp_path):
    assert len(list(lm.dataset(path, options=lm.ScanOptions(threads=2)).get_fragments())) == 2
    nested = str(tmp_path / "nested.parquet")
    pq.write_table(pa.table({"l": [[n] for n in range(ROWS)]}), nested)
    assert len(list(lm.dataset(nested, options=lm.ScanOptions(threads=2)).get_fragments())) == 1
    small = str(tmp_path / "small.parquet")
    pq.write_table(make_table(1999), small)
    assert len(list(lm.dataset(small, options=lm.ScanOptions(threads=2)).get_fragments())) == 1
    rows = [17, 9000, 4]
    assert lm.dataset(path, options=lm.ScanOptions(threads=2)).take(rows)["n"].to_pylist() == rows
    assert (
        lm.dataset(path, options=lm.ScanOptions(threads=2)).scanner(limit=10).to_table().num_rows
        == 10
    )


def test_every_verb_of_a_fragment_that_is_a_part(path):
    fragments = list(lm.dataset(path, options=lm.ScanOptions(threads=3)).get_fragments())
    last = fragments[-1]
    start = last._part.tasks[0].rows[0]
    own = make_table().slice(start)
    assert last.count_rows() == own.num_rows
    assert last.head(5).equals(own.slice(0, 5))
    assert last.take([0, 3, 2]).equals(own.take([0, 3, 2]))
    assert last.scanner(reverse=True).to_table()["n"].to_pylist() == own["n"].to_pylist()[::-1]
    assert last.scanner(limit=7).to_table().equals(own.slice(0, 7))
    assert last.scanner(limit=ROWS).to_table().equals(own)
    assert last.scanner(limit=4, reverse=True).to_table()["n"][0].as_py() == ROWS - 1
    first = last.scanner(limit=3, order_by="noise").to_table()
    assert first["noise"].to_pylist() == sorted(own["noise"].to_pylist())[:3]
    assert last.count_rows(filter=pc.field("noise") < 300) < 300
    found = [f.to_table(filter=pc.field("noise") < 300) for f in fragments]
    assert pa.concat_tables(found).equals(make_table().filter(pc.field("noise") < 300))


class TestUnits:
    def tasks(self, tmp_path, files: int = 2, group_rows: int = 1000):
        for number in range(files):
            table = make_table()
            pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=group_rows)
        (fragment,) = lm.dataset(str(tmp_path), options=lm.ScanOptions(threads=1)).get_fragments()
        return fragment._part.tasks

    def test_row_groups_of_a_file(self, tmp_path):
        units = split.plan_units(self.tasks(tmp_path), 1)
        assert units == [range(10), range(10, 20)]

    def test_no_more_rows_than_a_unit_may_have(self, tmp_path, monkeypatch):
        monkeypatch.setattr(split, "UNIT_ROWS", 3500)
        units = split.plan_units(self.tasks(tmp_path, files=1), 1)
        assert units == [range(3), range(3, 6), range(6, 9), range(9, 10)]

    def test_a_row_group_that_is_larger(self, tmp_path, monkeypatch):
        monkeypatch.setattr(split, "UNIT_ROWS", 10)
        assert split.plan_units(self.tasks(tmp_path, files=1), 1) == [
            range(n, n + 1) for n in range(10)
        ]

    def test_units_enough_for_all_workers(self, tmp_path):
        tasks = self.tasks(tmp_path, files=4)
        assert len(split.plan_units(tasks, 2)) >= 2 * split.UNITS_PER_WORKER
        assert len(split.plan_units(tasks, 64)) == len(tasks)

    def test_no_tasks(self):
        assert split.plan_units([], 1) == []
