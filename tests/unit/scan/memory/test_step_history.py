from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.scan.memory.condition_cache import ConjunctKey
from lm_datafusion.scan.memory.step_history import STEPS, Measured, StepHistory
from lm_datafusion.storage import FileVersion

A = FileVersion("a.parquet", 1, "1")
B = FileVersion("b.parquet", 1, "1")
KEYS = {0: ConjunctKey("datafusion", "x = 1", "x: int64")}
MUCH = Measured(
    rows_in=1_000_000, rows_dropped=900_000, rows_decoded=2_000_000, decode_s=2.0, evaluate_s=1.0
)


class TestHistory:
    def test_files_of_a_table_share_it(self):
        history = StepHistory()
        history.keep([A, B], KEYS, {0: MUCH})
        other = FileVersion("c.parquet", 1, "1")
        for versions in ([A], [B], [other, B]):
            (found,) = history.recall(versions, KEYS).values()
            assert found == Measured(
                rows_in=100_000,
                rows_dropped=90_000,
                rows_decoded=200_000,
                decode_s=0.2,
                evaluate_s=0.1,
            )
        assert history.recall([other], KEYS) == {}

    def test_a_file_that_changed_is_another(self):
        history = StepHistory()
        history.keep([A], KEYS, {0: MUCH})
        assert history.recall([FileVersion("a.parquet", 1, "2")], KEYS) == {}

    def test_few_rows_measure_nothing(self):
        history = StepHistory()
        history.keep([A], KEYS, {0: Measured(rows_in=9_999, rows_dropped=9, evaluate_s=1.0)})
        assert len(history) == 0

    def test_is_bounded_and_drops_what_was_not_used(self, monkeypatch):
        monkeypatch.setattr("lm_datafusion.scan.memory.step_history._MOST_ENTRIES", 3)
        history = StepHistory()
        files = [FileVersion(str(n), 1, "1") for n in range(4)]
        for file in files[:3]:
            history.keep([file], KEYS, {0: MUCH})
        history.recall([files[0]], KEYS)
        history.keep([files[3]], KEYS, {0: MUCH})
        assert len(history) == 3
        assert [bool(history.recall([file], KEYS)) for file in files] == [True, False, True, True]

    def test_what_is_new_soon_outweighs_what_is_old(self):
        fresh = Measured(rows_in=900_000, rows_dropped=0, evaluate_s=0.9)
        both = MUCH.faded().plus(fresh)
        assert (both.rows_in, both.rows_dropped) == (1_000_000, 90_000)


@pytest.fixture
def path(tmp_path):
    path = str(tmp_path / "t.parquet")
    rng = np.random.default_rng(8)
    count = 60_000
    # By bounds and width the first looks better; it drops nothing, though.
    table = pa.table(
        {
            "narrow": np.where(np.arange(count) % 6000 == 0, 99, 0).astype(np.int8),
            "word": np.char.add("some longer text ", rng.integers(0, 1 << 30, count).astype(str)),
            "wide": rng.random(count),
        }
    )
    pq.write_table(table, path, row_group_size=count, use_dictionary=False)
    return path


def rows_in_by_step(path, **options):
    options = lm.ScanOptions(threads=1, condition_cache_bytes=0, **options)
    dataset = lm.dataset(path, options=options)
    dataset.to_table(columns=["wide"], filter="narrow < 50 AND word LIKE '%123'")
    return {step.predicate[:4]: step.rows_in for step in dataset.scan_reports()[-1].steps}


def test_the_second_scan_starts_in_the_order_that_the_first_learned(path):
    assert rows_in_by_step(path)["narr"] == 60_000
    again = rows_in_by_step(path)
    assert again["word"] == 60_000
    assert again["narr"] < 6_000
    STEPS.clear()
    assert rows_in_by_step(path)["narr"] == 60_000


def test_the_order_as_written_is_not_changed(path):
    for _ in range(2):
        assert rows_in_by_step(path, reorder_filters=False)["narr"] == 60_000
