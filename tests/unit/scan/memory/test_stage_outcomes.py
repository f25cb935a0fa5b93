from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.formats.parquet.facts import ParquetFacts
from lm_datafusion.scan.memory.condition_cache import ConjunctKey
from lm_datafusion.scan.memory.stage_outcomes import OUTCOMES, Stage, StageOutcomes
from lm_datafusion.storage import FileVersion

A = FileVersion("a.parquet", 1, "1")
KEY = ConjunctKey("datafusion", "x = 1", "x: int64")


class TestOutcomes:
    def test_what_is_kept_is_recalled_and_no_more(self):
        outcomes = StageOutcomes()
        outcomes.keep(A, KEY, Stage.PAGE_INDEX, 3, None)
        outcomes.keep(A, KEY, Stage.DICTIONARY, 4, 2)
        assert outcomes.recall(A, KEY, Stage.PAGE_INDEX, 3) == (None,)
        assert outcomes.recall(A, KEY, Stage.DICTIONARY, 4) == (2,)
        assert outcomes.recall(A, KEY, Stage.PAGE_INDEX, 2) is None
        assert outcomes.recall(A, KEY, Stage.DICTIONARY, 3) is None
        changed = FileVersion("a.parquet", 1, "2")
        assert outcomes.recall(changed, KEY, Stage.PAGE_INDEX, 3) is None
        other = ConjunctKey("datafusion", "x = 2", "x: int64")
        assert outcomes.recall(A, other, Stage.PAGE_INDEX, 3) is None

    def test_what_has_no_name_is_not_kept(self):
        outcomes = StageOutcomes()
        outcomes.keep(A, None, Stage.PAGE_INDEX, 0, 1)
        assert outcomes.recall(A, None, Stage.PAGE_INDEX, 0) is None
        assert len(outcomes) == 0

    def test_is_bounded(self, monkeypatch):
        monkeypatch.setattr("lm_datafusion.scan.memory.stage_outcomes._LIMIT_BYTES", 10_000)
        outcomes = StageOutcomes()
        files = [FileVersion(str(n), 1, "1") for n in range(50)]
        for file in files:
            outcomes.keep(file, KEY, Stage.PASSES, 0, np.ones(1000, np.bool_))
        assert outcomes.memory_bytes() <= 10_000
        known = [outcomes.recall(file, KEY, Stage.PASSES, 0) is not None for file in files]
        assert known == [False] * 42 + [True] * 8
        outcomes.clear()
        assert (outcomes.memory_bytes(), len(outcomes)) == (0, 0)


ROWS = 4_000


def write(path, *, is_sorted):
    """Two row groups of ten pages; `even` and `word` hold the same values in each page."""
    rows = np.arange(ROWS)
    key = rows if is_sorted else (rows * 7919) % ROWS
    table = pa.table(
        {"key": key, "even": rows % 2, "word": np.char.add("w", (rows % 5).astype(str))}
    )
    pq.write_table(
        table,
        path,
        row_group_size=ROWS // 2,
        write_page_index=True,
        data_page_size=1,
        write_batch_size=200,
    )


@pytest.fixture
def path(tmp_path):
    path = str(tmp_path / "t.parquet")
    write(path, is_sorted=True)
    return path


@pytest.fixture
def tried(monkeypatch):
    """Stages that were tried: which, and for which columns."""
    seen = []
    load, statistics = ParquetFacts.load_dictionary, ParquetFacts.page_bounds

    def loaded(facts, row_group, column, *arguments, **named):
        seen.append(("dictionary", facts.schema.field(column).name))
        return load(facts, row_group, column, *arguments, **named)

    def judged(facts, row_group, columns, *arguments):
        columns = list(columns)
        seen.append(("pages", columns[0][0]))
        return statistics(facts, row_group, columns, *arguments)

    monkeypatch.setattr(ParquetFacts, "load_dictionary", loaded)
    monkeypatch.setattr(ParquetFacts, "page_bounds", judged)
    return seen


def scan(path, condition):
    """Rows and pruned pages of a scan that remembers no rows."""
    dataset = lm.dataset(path, options=lm.ScanOptions(condition_cache_bytes=0))
    rows = dataset.to_table(columns=["key"], filter=condition).num_rows
    (report,) = dataset.scan_reports()
    return rows, report.pages_pruned


def test_a_stage_that_found_nothing_is_not_tried_again(path, tried):
    first = scan(path, "even <> 0 AND word <> 'w3'")
    assert set(tried) == {(s, c) for s in ("dictionary", "pages") for c in ("even", "word")}
    tried.clear()
    assert scan(path, "even <> 0 AND word <> 'w3'") == first == (1600, 0)
    assert tried == []
    assert scan(path, "even <> 1")[0] == ROWS // 2
    assert ("pages", "even") in tried, "another condition"


def test_what_a_stage_found_is_found_again_without_it(path, tried):
    first = scan(path, "key < 300 AND even = 1")
    assert ("pages", "key") in tried
    tried.clear()
    assert scan(path, "key < 300 AND even = 1") == first
    assert first[0] == 150
    assert first[1] > 0
    assert not [stage for stage, _ in tried if stage == "pages"]


def test_a_file_that_changed_is_looked_at_anew(path):
    write(path, is_sorted=False)
    rows, pruned = scan(path, "key < 300")
    assert (rows, pruned) == (300, 0)
    assert len(OUTCOMES) == 2, "of the conjunct, and of all conjuncts together"
    write(path, is_sorted=True)
    rows, pruned = scan(path, "key < 300")
    assert rows == 300
    assert pruned > 0


def test_pruning_that_failed_is_tried_again(path, monkeypatch):
    def fail(*_):
        raise OSError("the page index cannot be read")

    with monkeypatch.context() as broken:
        broken.setattr(ParquetFacts, "page_bounds", fail)
        assert scan(path, "key < 300") == (300, 0)
    rows, pruned = scan(path, "key < 300")
    assert rows == 300
    assert pruned > 0


def test_what_holds_beside_another_condition_is_not_said_without_it(tmp_path):
    """`x < 8` rules NaN out of `x > 5`; alone, NaN is above all numbers."""
    path = str(tmp_path / "nan.parquet")
    numbers = [float(row // 100) for row in range(1000)]
    numbers[250] = float("nan")
    inner = pa.StructArray.from_arrays([pa.array(numbers)], ["x"])
    table = pa.table({"key": range(1000), "f": numbers, "st": inner})
    pq.write_table(table, path, write_page_index=True, max_rows_per_page=100, use_dictionary=False)
    for name in ("f", "st['x']"):
        assert scan(path, f"{name} > 5 AND {name} < 8")[0] == 200
        assert scan(path, f"{name} > 5")[0] == 401
