from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.predicate.conjunct import Conjunct, bind_conjuncts
from lm_datafusion.scan.memory import footer_answers
from lm_datafusion.scan.memory.footer_answers import ANSWERS, FooterAnswers, lasting_keys, question
from lm_datafusion.scan.pruning import file_pruning
from lm_datafusion.storage import FileVersion

SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.float64())])
VERSIONS = (FileVersion("a", 1, "t"), FileVersion("b", 2, "t"))


def asked(text, *, kind="verdicts", versions=VERSIONS, schema=SCHEMA, **changes):
    bound = bind_conjuncts([Conjunct(text=text, columns=("x",), **changes)], schema)
    return question(kind, versions, lasting_keys(bound, schema))


class TestQuestion:
    def test_depends_on_all_that_the_answer_depends_on(self):
        assert asked("x > 1") == asked("x > 1")
        wider = pa.schema([("x", pa.int32()), ("y", pa.float64())])
        others = [
            asked("x > 2"),
            asked("x > 1", kind="estimates"),
            asked("x > 1", versions=VERSIONS[:1]),
            asked("x > 1", schema=wider),
        ]
        assert asked("x > 1") not in others

    def test_is_not_asked_where_the_answer_may_change(self):
        assert asked("x > random()", is_volatile=True) is None
        assert asked("x > 1", is_momentary=True) is None
        assert asked("x > 1", expression=pc.field("x") > 1) is None


class TestAnswers:
    def test_are_kept_and_cannot_be_changed(self):
        answers = FooterAnswers()
        assert answers.find(asked("x > 1")) is None
        answers.keep(asked("x > 1"), np.ones(3, np.uint8))
        found = answers.find(asked("x > 1"))
        assert found.tolist() == [1, 1, 1]
        with pytest.raises(ValueError, match="read-only"):
            found[0] = 0
        answers.clear()
        assert len(answers) == 0
        assert answers.find(asked("x > 1")) is None

    def test_without_a_question_nothing_is_kept(self):
        answers = FooterAnswers()
        answers.keep(None, np.ones(3, np.uint8))
        assert len(answers) == 0
        assert answers.find(None) is None

    def test_the_least_recently_used_go_first(self, monkeypatch):
        monkeypatch.setattr(footer_answers, "MOST_BYTES", 3000)
        answers = FooterAnswers()
        for number in range(3):
            answers.keep(asked(f"x > {number}"), np.zeros(100, np.uint8))
        answers.find(asked("x > 0"))
        answers.keep(asked("x > 3"), np.zeros(1000, np.uint8))
        left = [n for n in range(4) if answers.find(asked(f"x > {n}")) is not None]
        assert left == [0, 3]


@pytest.fixture
def folder(tmp_path):
    for number in range(3):
        table = pa.table({"x": range(number * 10, number * 10 + 10), "y": [float(number)] * 10})
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=5)
    return tmp_path


@pytest.fixture
def judged(monkeypatch):
    calls = []
    judge = file_pruning.judge

    def counted(tree, *arguments):
        calls.append(str(tree))
        return judge(tree, *arguments)

    monkeypatch.setattr(file_pruning, "judge", counted)
    return calls


def test_a_condition_is_judged_once_per_version_of_the_files(folder, judged):
    dataset = lm.dataset(folder, options=lm.ScanOptions(condition_cache_bytes=0))
    reports = []
    for _ in range(3):
        assert dataset.count_rows(filter="x >= 7 AND x < 12 AND y < 5") == 5
        report = dataset.scan_reports()[-1]
        reports.append((report.row_groups_total, report.row_groups_pruned_statistics))
    assert len(judged) == 3
    assert reports == [(6, 4)] * 3
    table = pa.table({"x": range(0, 50, 5), "y": [1.0] * 10})
    pq.write_table(table, folder / "0.parquet", row_group_size=5)
    assert dataset.count_rows(filter="x >= 7 AND x < 12 AND y < 5") == 2 + 1
    assert len(judged) == 6


def test_what_cannot_be_judged_is_asked_again(folder, monkeypatch):
    def fail(*_):
        raise TypeError

    monkeypatch.setattr(file_pruning, "judge", fail)
    monkeypatch.setattr("lm_datafusion.scan.pruning.prune.judge", fail)
    ANSWERS.clear()
    dataset = lm.dataset(folder, options=lm.ScanOptions(condition_cache_bytes=0))
    for _ in range(2):
        assert dataset.count_rows(filter="x >= 7") == 23
        assert dataset.scan_reports()[-1].predicate_evaluation_errors >= 3


def test_fragments_are_judged_with_their_dataset(folder, judged):
    options = lm.ScanOptions(condition_cache_bytes=0, threads=2)
    dataset = lm.dataset(folder, options=options).filter("x >= 7")
    fragments = list(dataset.get_fragments())
    assert len(fragments) == 2
    assert len(judged) == 1
    assert sum(fragment.count_rows() for fragment in fragments) == 23
    assert len(judged) == 1
    # Asked for something else, they are judged again.
    assert sum(fragment.count_rows("x < 9") for fragment in fragments) == 2
    assert len(judged) > 1
