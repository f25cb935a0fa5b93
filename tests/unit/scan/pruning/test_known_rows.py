from __future__ import annotations

import os
import threading

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from datafusion import SessionContext

import lm_datafusion as lm
from lm_datafusion.errors import FileChangedError
from lm_datafusion.metrics import ScanMetrics
from lm_datafusion.options import ScanOptions
from lm_datafusion.plan import ScanRequest
from lm_datafusion.predicate.evaluator import EvaluationError
from lm_datafusion.scan import ScanRun, cached_share, plan_scan
from lm_datafusion.scan.memory.condition_cache import CONDITIONS
from lm_datafusion.scan.reading.windows import WindowWalk
from lm_datafusion.scan.row_fetch import plan_row_fetch
from lm_datafusion.sql import parse_condition
from lm_datafusion.storage import LocalFile

ROWS = 40_000
ROW_GROUPS = 8


def make_table(seed=3):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "id": np.arange(ROWS),
            "a": rng.integers(0, 100, ROWS),
            "b": rng.integers(0, 100, ROWS),
            "word": np.array(["red", "green", "blue", "x" * 30])[rng.integers(0, 4, ROWS)],
            "wide": rng.random(ROWS),
            "odd": rng.integers(0, 1000, ROWS) * 2 + 1,
        }
    )


def write(path, table=None):
    # No dictionaries and no page index: nothing but the cache can tell rows apart.
    pq.write_table(
        table or make_table(),
        path,
        row_group_size=ROWS // ROW_GROUPS,
        use_dictionary=False,
        write_page_index=False,
    )


@pytest.fixture
def path(tmp_path):
    write(tmp_path / "t.parquet")
    return str(tmp_path / "t.parquet")


def scan(path, condition, columns=("wide",), **options):
    dataset = lm.dataset(path, options=lm.ScanOptions(threads=2, **options))
    table = dataset.to_table(columns=list(columns), filter=condition)
    return table, dataset.scan_reports()[-1]


def expected(path, condition, columns=("wide",)):
    return scan(path, condition, columns, condition_cache_bytes=0)[0]


def make_plan(dataset, condition):
    request = ScanRequest(conjuncts=parse_condition(condition, dataset.schema))
    return plan_scan(dataset.table, request, dataset.options, ScanMetrics())


def steps_of(report):
    return [step.predicate for step in report.steps]


class TestTheSameAgain:
    def test_is_not_evaluated_again_and_its_columns_are_not_read(self, path):
        first, cold = scan(path, "a < 3 AND b < 50")
        again, warm = scan(path, "a < 3 AND b < 50")
        assert again == first == expected(path, "a < 3 AND b < 50")
        assert len(steps_of(cold)) == 2
        assert steps_of(warm) == []
        only_wide = scan(path, None)[1].bytes_scanned
        assert warm.bytes_scanned <= only_wide < cold.bytes_scanned
        assert warm.condition_cache_hits == ROW_GROUPS
        assert warm.condition_cache_rows == ROWS
        assert 0 < warm.condition_cache_bytes == lm.condition_cache_bytes() < 100_000
        assert cold.condition_cache_hits == 0
        assert "condition cache" in str(warm)

    def test_teaches_nothing(self, path, monkeypatch):
        first, _ = scan(path, "a < 3 AND b < 50")
        with monkeypatch.context() as patch:
            patch.setattr(CONDITIONS, "put", None)
            again, _ = scan(path, "a < 3 AND b < 50")
        assert again == first

    def test_row_groups_without_a_row_are_not_read(self, path):
        condition = "a + b = 50 AND id * 2 < 10000"
        scan(path, condition)
        answer, warm = scan(path, condition)
        assert answer == expected(path, condition)
        assert warm.row_groups_pruned_condition_cache == ROW_GROUPS - 1

    def test_where_nothing_matches_nothing_is_opened(self, path, monkeypatch):
        assert scan(path, "a + b = 400")[0].num_rows == 0
        with monkeypatch.context() as patch:
            patch.setattr("lm_datafusion.storage.LocalStorage.open", None)
            answer, warm = scan(path, "a + b = 400")
        assert answer.num_rows == 0
        assert (warm.bytes_scanned, warm.row_groups_pruned_condition_cache) == (0, ROW_GROUPS)

    def test_everything_that_matched_is_fully_matched(self, path):
        scan(path, "a + b < 1000")
        answer, warm = scan(path, "a + b < 1000")
        assert answer.num_rows == ROWS
        assert warm.row_groups_fully_matched == ROW_GROUPS

    def test_counting_reads_nothing(self, path):
        dataset = lm.dataset(path)
        count = dataset.count_rows(filter="a = 7 AND b > 3")
        assert dataset.scan_reports()[-1].bytes_scanned > 0
        assert dataset.count_rows(filter="b > 3 AND a = 7") == count
        report = dataset.scan_reports()[-1]
        assert (report.bytes_scanned, report.bytes_metadata) == (0, 0)

    def test_in_sql(self, path):
        session = lm.SessionContext(options=lm.ScanOptions(path="late"))
        session.register_parquet("t", path)
        query = "SELECT count(*), sum(wide) FROM t WHERE a = 7 AND word LIKE '%e%'"
        first = session.sql(query).to_pydict()
        assert session.sql(query).to_pydict() == first
        (report,) = session.scan_reports()
        assert report.condition_cache_hits == ROW_GROUPS
        assert report.rows_total == ROWS
        assert report.steps == ()

    def test_row_groups_left_out_are_in_the_reports_of_partitions(self, path):
        context = SessionContext()
        dataset = lm.dataset(path, options=lm.ScanOptions(threads=2))
        context.register_dataset("t", dataset)
        query = "SELECT wide FROM t WHERE odd = 500"
        context.sql(query).collect()
        known = len(dataset.scan_reports())
        assert context.sql(query).collect() == []
        reports = dataset.scan_reports()[known:]
        assert sum(r.row_groups_pruned_condition_cache for r in reports) == ROW_GROUPS
        assert sum(r.condition_cache_hits for r in reports) == ROW_GROUPS
        assert sum(r.condition_cache_rows for r in reports) == ROWS
        assert sum(r.rows_total for r in reports) == ROWS

    def test_pyarrows_filters_too(self, path):
        dataset = lm.dataset(path)
        wanted = (pc.field("a") == 7) & (pc.field("b") < 50)
        first = dataset.to_table(filter=wanted)
        assert dataset.to_table(filter=wanted) == first
        assert dataset.scan_reports()[-1].steps == ()
        # What PyArrow answered is not asked by DataFusion.
        dataset.to_table(filter="a = 7 AND b < 50")
        assert len(dataset.scan_reports()[-1].steps) == 2


class TestOtherConjuncts:
    def test_a_longer_conjunction_begins_where_the_shorter_ended(self, path):
        scan(path, "a < 50 AND b < 50")
        condition = "a < 50 AND b < 50 AND word = 'red'"
        answer, report = scan(path, condition)
        assert answer == expected(path, condition)
        assert steps_of(report) == ["word = 'red'"]
        assert report.steps[0].rows_in < 0.3 * ROWS

    def test_a_shorter_one_knows_what_was_evaluated_first_only(self, path):
        written = {"reorder_filters": False}
        scan(path, "a < 50 AND b < 50", **written)
        answer, report = scan(path, "a < 50", **written)
        assert answer == expected(path, "a < 50")
        assert steps_of(report) == []
        # The second conjunct never saw the rows that the first had dropped.
        answer, report = scan(path, "b < 50", **written)
        assert answer == expected(path, "b < 50")
        assert [step.rows_in for step in report.steps] == [ROWS]

    def test_what_pages_of_another_conjunct_ruled_out_tells_nothing(self, tmp_path):
        path = str(tmp_path / "pages.parquet")
        pq.write_table(
            make_table(),
            path,
            row_group_size=ROWS,
            write_page_index=True,
            max_rows_per_page=500,
            use_dictionary=["word"],
        )
        condition = "a < 50 AND id < 1000"
        answer, _ = scan(path, condition)
        assert answer == expected(path, condition)
        for single in ("a < 50", "id < 1000"):
            assert scan(path, single)[0] == expected(path, single)

    def test_two_that_are_known_apart_are_known_together(self, path):
        scan(path, "a < 50")
        scan(path, "word = 'red'")
        answer, report = scan(path, "a < 50 AND word = 'red'")
        assert answer == expected(path, "a < 50 AND word = 'red'")
        assert steps_of(report) == []

    def test_another_type_is_another_question(self, path):
        scan(path, "a = 7")
        text = lm.dataset(path).schema.set(1, pa.field("a", pa.string()))
        dataset = lm.dataset(path, schema=text)
        dataset.to_table(filter="a = 7")
        assert dataset.scan_reports()[-1].condition_cache_hits == 0

    def test_what_statistics_decide_is_no_part_of_the_question(self, path):
        scan(path, "a < 50 AND b < 50 AND id >= 0 AND 1 = 1")
        answer, report = scan(path, "a < 50 AND b < 50")
        assert answer == expected(path, "a < 50 AND b < 50")
        assert steps_of(report) == []


class TestNotKept:
    @pytest.mark.parametrize("condition", ["random() < 0.5", "a < 90 * random()"])
    def test_volatile(self, path, condition):
        scan(path, condition)
        assert len(CONDITIONS) == 0
        assert scan(path, condition)[0] != scan(path, condition)[0]

    def test_a_chain_with_a_volatile_part(self, path):
        for _ in range(2):
            scan(path, "a < 50 AND random() < 0.5")
        sets = {tuple(key.text for key in members) for _, members in CONDITIONS._entries}
        assert sets <= {("a < 50",)}
        assert scan(path, "a < 50")[0] == expected(path, "a < 50")
        lm.clear_condition_cache()
        scan(path, "random() < 0.5 AND a < 50", reorder_filters=False)
        assert len(CONDITIONS) == 0

    def test_now(self, path):
        scan(path, "a < 50 AND id < date_part('year', now())")
        scan(path, "id < date_part('year', now())")
        sets = {tuple(key.text for key in members) for _, members in CONDITIONS._entries}
        assert sets <= {("a < 50",)}

    def test_turned_off(self, path):
        scan(path, "a < 50", condition_cache_bytes=0)
        assert len(CONDITIONS) == 0
        scan(path, "a < 50")
        report = scan(path, "a < 50", condition_cache_bytes=0)[1]
        assert report.condition_cache_hits == 0
        assert len(report.steps) == 1

    def test_a_row_group_that_was_not_finished(self, path):
        # Four batches a row group: closed within the first.
        options = lm.ScanOptions(threads=1, batch_rows=100, queue_batches=1)
        batches = lm.dataset(path, options=options).scanner(columns=["wide"], filter="a < 50")
        iterator = batches.to_batches()
        next(iterator)
        iterator.close()
        assert len(CONDITIONS) == 0
        assert lm.dataset(path, options=options).head(5, filter="a < 50").num_rows == 5
        assert len(CONDITIONS) == 0
        assert scan(path, "a < 50")[0] == expected(path, "a < 50")

    def test_a_row_group_that_was_read_in_part(self, tmp_path, monkeypatch):
        path = str(tmp_path / "pages.parquet")
        table = pa.table({"a": pa.array(range(1_000)), "s": [f"{i:050}" for i in range(1_000)]})
        pq.write_table(
            table, path, max_rows_per_page=100, write_page_index=True, use_dictionary=False
        )
        window = WindowWalk.next_window
        seen = []

        def first_only(self, row_count):
            seen.append(row_count)
            return window(self, row_count) if len(seen) == 1 else None

        monkeypatch.setattr(WindowWalk, "next_window", first_only)
        narrow = ScanOptions(window_bytes=1_000, threads=1)
        rows = lm.dataset(path, options=narrow).to_table(filter="s < '9' AND a % 2 = 0").num_rows
        assert 0 < rows < 300
        assert len(seen) == 2
        assert len(CONDITIONS) == 0

    def test_a_scan_that_failed(self, tmp_path):
        path = str(tmp_path / "fails.parquet")
        write(path, pa.table({"s": ["1", "2", "three"] * 100, "wide": range(300)}))
        for _ in range(2):
            with pytest.raises(EvaluationError):
                scan(path, "CAST(s AS INT) = 1")
        guarded = "s <> 'three' AND CAST(s AS INT) = 1"
        assert scan(path, guarded)[0].num_rows == 100
        assert scan(path, guarded)[0].num_rows == 100
        with pytest.raises(EvaluationError):
            scan(path, "CAST(s AS INT) = 1")

    def test_rows_chosen_by_position(self, path):
        dataset = lm.dataset(path).filter("a < 50")
        assert dataset.take([3, 1]).num_rows == 2
        assert lm.dataset(path).take([5, 7]).num_rows == 2
        lm.clear_condition_cache()
        plan = make_plan(lm.dataset(path), "a < 50")
        few = plan_row_fetch(plan, np.arange(0, ROWS, 7))
        assert sum(b.num_rows for b in ScanRun(few, ScanMetrics()).batches()) < ROWS / 7
        assert len(CONDITIONS) == 0
        assert scan(path, "a < 50")[0] == expected(path, "a < 50")

    def test_a_value_from_a_folders_name(self, tmp_path):
        for year in (2023, 2024):
            folder = tmp_path / "t" / f"year={year}"
            folder.mkdir(parents=True)
            write(folder / "f.parquet")
        whole = lm.dataset(str(tmp_path / "t"))
        condition = "a + year < 2030"
        assert whole.count_rows(filter=condition) > 0
        # The same file and the same types, but on its own it has no year.
        alone = lm.dataset(whole.files[0], schema=whole.schema)
        assert alone.files[0] == whole.files[0]
        assert alone.to_table(columns=["year"]).column("year").null_count == ROWS
        assert alone.count_rows(filter=condition) == 0


class TestFilesThatChange:
    def test_between_two_scans(self, path):
        scan(path, "a < 3 AND b < 50")
        write(path, make_table(seed=4))
        answer, report = scan(path, "a < 3 AND b < 50")
        assert report.condition_cache_hits == 0
        assert answer == expected(path, "a < 3 AND b < 50")
        assert len({version for version, _ in CONDITIONS._entries}) == 1

    def test_to_the_same_size(self, path):
        scan(path, "a < 3")
        size = os.path.getsize(path)
        with open(path, "r+b") as file:
            file.seek(-100, os.SEEK_END)
            byte = file.read(1)
            file.seek(-100, os.SEEK_END)
            file.write(byte)
        os.utime(path, ns=(1, 1))
        assert os.path.getsize(path) == size
        assert scan(path, "a < 3")[1].condition_cache_hits == 0

    def test_while_it_is_read(self, path):
        dataset = lm.dataset(path, options=lm.ScanOptions(threads=1))
        batches = dataset.scanner(columns=["wide"], filter="a + b = 400").to_batches()
        os.utime(path, ns=(1, 1))
        with pytest.raises(FileChangedError):
            list(batches)
        assert len(CONDITIONS) == 0

    def test_while_a_row_group_without_a_match_is_read(self, path, monkeypatch):
        fetching = LocalFile.fetch_into

        def fetch_and_touch(file, ranges, target):
            fetching(file, ranges, target)
            os.utime(path, ns=(1, 1))

        monkeypatch.setattr(LocalFile, "fetch_into", fetch_and_touch)
        monkeypatch.setattr(LocalFile, "descriptor", lambda _: -1)
        with pytest.raises(FileChangedError):
            scan(path, "odd = 500")
        assert len(CONDITIONS) == 0


def test_many_threads_get_the_same_rows(path):
    conditions = [f"a < {n} AND b < {100 - n}" for n in (3, 20, 50)] + ["a < 20", "b < 50"]
    answers = {condition: expected(path, condition) for condition in conditions}
    wrong = []

    def work(turn):
        for n in range(10):
            condition = conditions[(n * turn + turn) % len(conditions)]
            # So little memory that entries come and go.
            answer, _ = scan(path, condition, condition_cache_bytes=40_000)
            if answer != answers[condition]:
                wrong.append(condition)

    threads = [threading.Thread(target=work, args=(turn,)) for turn in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert lm.condition_cache_bytes() <= 40_000


class TestShare:
    def share(self, path, condition, **options):
        return cached_share(
            make_plan(lm.dataset(path, options=lm.ScanOptions(**options)), condition)
        )

    def test_grows_with_what_was_scanned(self, path):
        condition = "a < 3 AND id < 20000"
        assert self.share(path, condition).share == 0.0
        answer, _ = scan(path, condition)
        found = self.share(path, condition)
        # Statistics rule out half of the row groups.
        assert (found.row_groups, found.row_groups_known, found.share) == (4, 4, 1.0)
        assert found.rows_known == answer.num_rows
        assert self.share(path, condition, condition_cache_bytes=0).share == 0.0
        assert self.share(path, f"{condition} AND b = 3").share == 0.0

    def test_of_parts_it_says_at_most_how_many_rows(self, path):
        rows = [scan(path, condition)[0].num_rows for condition in ("a < 50", "b < 3")]
        found = self.share(path, "a < 50 AND b < 3")
        assert found.share == 1.0
        assert found.rows_known == min(rows)

    def test_of_nothing_left_to_ask(self, path):
        assert self.share(path, "id < -1").share == 1.0
        assert self.share(path, "id >= 0").share == 1.0


def test_what_another_condition_says_about_nan_is_no_fact_of_one(tmp_path):
    """In `x > 31 AND x < 100` NaN need not be feared, in `x > 31` it passes."""
    path = str(tmp_path / "nan.parquet")
    values = (
        [float(i % 10) for i in range(99)] + [float("nan")] + [20.0 + i % 41 for i in range(100)]
    )
    pq.write_table(pa.table({"x": values}), path, max_rows_per_page=100, write_page_index=True)
    dataset = lm.dataset(path, options=ScanOptions(reorder_filters=False))
    both = dataset.to_table(filter="x > 31 AND x < 100").num_rows
    assert both == sum(31 < x < 100 for x in values)
    assert dataset.to_table(filter="x > 31").num_rows == both + 1
