"""Plans of statements, and which queries have run."""

from __future__ import annotations

import pytest

from lm_datafusion.engine import plan_cache
from lm_datafusion.engine.plan_cache import PlanCache, PlannedQuery

KEY = ("SELECT 1", None)


def planned():
    return PlannedQuery(offer=None, frame=None)


def test_a_plan_is_used_by_one_run_at_a_time():
    cache, first, second = PlanCache(), planned(), planned()
    cache.put(KEY, 1, first)
    assert cache.has(KEY, 1)
    assert cache.take(KEY, 1) is first
    assert not cache.has(KEY, 1)
    assert cache.take(KEY, 1) is None
    cache.put(KEY, 1, first)
    cache.put(KEY, 1, second)
    assert {id(cache.take(KEY, 1)), id(cache.take(KEY, 1))} == {id(first), id(second)}


def test_a_plan_of_another_version_is_not_used():
    cache = PlanCache()
    cache.put(KEY, 1, planned())
    assert not cache.has(KEY, 2)
    assert cache.take(KEY, 2) is None
    newer = planned()
    cache.put(KEY, 2, newer)
    assert cache.take(KEY, 1) is None
    assert cache.take(KEY, 2) is newer


def test_the_least_recently_used_plan_goes_first(monkeypatch):
    monkeypatch.setattr(plan_cache, "STATEMENTS_KEPT", 2)
    cache = PlanCache()
    for text in ("a", "b"):
        cache.put((text, None), 1, planned())
    cache.put(("a", None), 1, cache.take(("a", None), 1))
    cache.put(("c", None), 1, planned())
    assert [cache.has((text, None), 1) for text in "abc"] == [True, False, True]


def test_runs_of_queries_are_counted_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(plan_cache, "QUERIES_REMEMBERED", 2)
    cache = PlanCache()
    assert cache.runs("a") == 0
    for text in ("a", "b", "a", "c"):
        cache.note_run(text)
    assert [cache.runs(text) for text in "abc"] == [2, 0, 1]


@pytest.mark.parametrize("options", [None, "other"])
def test_options_are_part_of_the_key(options):
    cache = PlanCache()
    cache.put(("SELECT 1", "some"), 1, planned())
    assert not cache.has(("SELECT 1", options), 1)
