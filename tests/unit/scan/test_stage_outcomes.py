from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.scan import prune
from lm_datafusion.scan.condition_cache import ConjunctKey
from lm_datafusion.scan.fruitless import FRUITLESS, FruitlessStages, Stage
from lm_datafusion.storage import FileVersion

A = FileVersion("a.parquet", 1, "1")
KEY = ConjunctKey("datafusion", "x = 1", "x: int64")


class TestStages:
    def test_what_is_noted_is_known_and_no_more(self):
        stages = FruitlessStages()
        stages.note(A, KEY, Stage.PAGE_INDEX, 3)
        assert stages.knows(A, KEY, Stage.PAGE_INDEX, 3)
        assert not stages.knows(A, KEY, Stage.PAGE_INDEX, 2)
        assert not stages.knows(A, KEY, Stage.DICTIONARY, 3)
        assert not stages.knows(FileVersion("a.parquet", 1, "2"), KEY, Stage.PAGE_INDEX, 3)
        other = ConjunctKey("datafusion", "x = 2", "x: int64")
        assert not stages.knows(A, other, Stage.PAGE_INDEX, 3)

    def test_what_has_no_name_is_not_kept(self):
        stages = FruitlessStages()
        stages.note(A, None, Stage.PAGE_INDEX, 0)
        assert not stages.knows(A, None, Stage.PAGE_INDEX, 0)
        assert len(stages) == 0

    def test_is_bounded_and_drops_what_was_not_used(self, monkeypatch):
        monkeypatch.setattr("lm_datafusion.scan.fruitless._MOST_ENTRIES", 2)
        stages = FruitlessStages()
        files = [FileVersion(str(n), 1, "1") for n in range(3)]
        for file in files[:2]:
            stages.note(file, KEY, Stage.DICTIONARY, 0)
        assert stages.knows(files[0], KEY, Stage.DICTIONARY, 0)
        stages.note(files[2], KEY, Stage.DICTIONARY, 0)
        known = [stages.knows(file, KEY, Stage.DICTIONARY, 0) for file in files]
        assert known == [True, False, True]


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
    load, statistics = prune.load_dictionary, prune.PageStatistics

    def loaded(facts, row_group, column, *arguments, **named):
        seen.append(("dictionary", facts.schema.field(column).name))
        return load(facts, row_group, column, *arguments, **named)

    def judged(facts, row_group, columns, *arguments):
        columns = list(columns)
        seen.append(("pages", columns[0][0]))
        return statistics(facts, row_group, columns, *arguments)

    monkeypatch.setattr(prune, "load_dictionary", loaded)
    monkeypatch.setattr(prune, "PageStatistics", judged)
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


def test_a_stage_that_found_something_finds_it_again(path, tried):
    first = scan(path, "key < 300 AND even = 1")
    tried.clear()
    assert scan(path, "key < 300 AND even = 1") == first
    assert first[0] == 150
    assert first[1] > 0
    assert ("pages", "key") in tried
    assert ("pages", "even") not in tried


def test_a_file_that_changed_is_looked_at_anew(path):
    write(path, is_sorted=False)
    rows, pruned = scan(path, "key < 300")
    assert (rows, pruned) == (300, 0)
    assert len(FRUITLESS) == 1
    write(path, is_sorted=True)
    rows, pruned = scan(path, "key < 300")
    assert rows == 300
    assert pruned > 0
