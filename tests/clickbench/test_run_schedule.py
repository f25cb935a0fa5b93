"""Engines take turns; what goes wrong with one is noted and stops no other."""

from __future__ import annotations

import pytest

from clickbench.contender import CapError, ContenderError
from clickbench.machine import DataError, check_unchanged, fingerprint
from clickbench.queries import Query
from clickbench.results import Results, ResultsError, load_results
from clickbench.schedule import Manner, Schedule, wrong_engines

QUERIES = (Query(name="q00", sql="zero"), Query(name="q01", sql="one"))


class Fake:
    """Answers every query with 1, in a time that does not matter."""

    def __init__(self, word, calls):
        self.word = word
        self.calls = calls
        self.answer = [[1]]
        self.fails_with = None
        self.counts_calls = False

    def run(self, sql):
        self.calls.append((sql, self.word))
        if self.fails_with:
            raise self.fails_with
        rows = self.answer
        peak_bytes = len(self.calls) if self.counts_calls else 1
        cost = {"wall_s": 1.0, "cpu_s": 1.0, "peak_bytes": peak_bytes, "start_bytes": 1}
        return {**cost, "digest": str(rows), "rows": rows}

    def close(self):
        self.calls.append(("close", self.word))

    def pruned(self, sql):
        raise ContenderError("does not tell")


class FakeReferee:
    def judge(self, sql, answers):
        return {name: None if rows == [[1]] else "not 1" for name, rows in answers.items()}


@pytest.fixture
def calls():
    return []


@pytest.fixture
def fakes(calls):
    return [Fake(word, calls) for word in "abc"]


@pytest.fixture
def results(tmp_path):
    return Results.begin(str(tmp_path / "results.json"), {"engines": ["a", "b", "c"]}, {})


def make(results, fakes, repeats=2, guard=lambda: None, restarts=False, warm_ups=1):
    return Schedule(
        results=results,
        contenders=fakes,
        referee=FakeReferee(),
        manner=Manner(repeats=repeats, warm_ups=warm_ups, restarts=restarts),
        say=lambda line: None,
        guard=guard,
    )


def test_engines_take_turns_in_a_rotating_order(results, fakes, calls):
    make(results, fakes).run(QUERIES)
    order = "".join(word for sql, word in calls if sql == "zero")
    assert order == "abc" + "abc" + "acb", "a run to warm up, then two repeats"
    order = "".join(word for sql, word in calls if sql == "one")
    assert order == "bca" + "bca" + "bac"
    runs = results.data["queries"]["q00"]["engines"]["a"]["runs"]
    assert len(runs) == 2


def test_runs_that_are_there_are_not_made_again(results, fakes, calls):
    make(results, fakes).run(QUERIES)
    kept = load_results(results.path)
    del results.data["queries"]["q01"]["engines"]["b"]["runs"][1]
    calls.clear()
    make(results, fakes).run(QUERIES)
    assert calls == [("one", "b")] * 2, "one run to warm up and the one that was missing"
    assert load_results(results.path) == kept


def test_runs_to_warm_up_are_made_in_turns(results, fakes, calls):
    make(results, fakes, repeats=1, warm_ups=2).run(QUERIES[:1])
    assert "".join(word for _, word in calls) == "abcabcabc"


def test_each_query_may_begin_with_new_processes(results, fakes, calls):
    fakes[1].counts_calls = True
    make(results, fakes, repeats=1, restarts=True).run(QUERIES)
    begins = [index for index, (sql, _) in enumerate(calls) if sql == "close"]
    assert begins == [0, 1, 2, 9, 10, 11], "before the runs of each query, all three"
    part = results.data["queries"]["q00"]["engines"]["b"]
    assert part["first"]["peak_bytes"] == 5, "after three ends and one run"
    assert [run["peak_bytes"] for run in part["runs"]] == [8]
    calls.clear()
    make(results, fakes, repeats=1, restarts=True).run(QUERIES)
    assert not calls, "nothing is missing"


def test_first_runs_are_kept_of_new_processes_only(results, fakes):
    make(results, fakes, repeats=1).run(QUERIES)
    assert "first" not in results.data["queries"]["q00"]["engines"]["a"]


def test_a_wrong_answer_is_found(results, fakes):
    fakes[1].answer = [[2]]
    make(results, fakes).run(QUERIES)
    assert wrong_engines(results.data["queries"]["q00"]) == {"b": "not 1"}


def test_an_engine_over_the_cap_is_not_asked_again(results, fakes, calls):
    fakes[2].fails_with = CapError("too long")
    make(results, fakes).run(QUERIES)
    assert calls.count(("zero", "c")) == 1
    part = results.data["queries"]["q00"]["engines"]["c"]
    assert (part["state"], part["runs"]) == ("capped", [])
    assert len(results.data["queries"]["q00"]["engines"]["a"]["runs"]) == 2


def test_an_engine_that_fails_is_noted(results, fakes):
    fakes[0].fails_with = ContenderError("no such function")
    make(results, fakes).run(QUERIES)
    part = results.data["queries"]["q01"]["engines"]["a"]
    assert (part["state"], part["error"]) == ("failed", "no such function")


def test_data_that_changes_stops_the_run(tmp_path, results, fakes, calls):
    file = tmp_path / "hits.parquet"
    file.write_bytes(b"old")
    known = fingerprint((str(file),))
    schedule = make(results, fakes, guard=lambda: check_unchanged((str(file),), known))
    schedule.run(QUERIES[:1])
    for change in (lambda: file.write_bytes(b"newer"), file.unlink):
        change()
        calls.clear()
        with pytest.raises(DataError, match="changed while"):
            schedule.run(QUERIES)
        assert not calls


def test_other_settings_are_not_mixed(results):
    Results.resume(results.path, {"engines": ["a", "b", "c"]})
    with pytest.raises(ResultsError, match=r"other settings \(engines\).*--fresh"):
        Results.resume(results.path, {"engines": ["a"]})


def test_what_is_no_results_file(tmp_path):
    with pytest.raises(ResultsError, match="is not there"):
        load_results(str(tmp_path / "none.json"))
    for text in ("{", "[]", '{"format": 99}'):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(ResultsError):
            load_results(str(tmp_path / "bad.json"))
