from __future__ import annotations

import threading

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lm_datafusion.predicate.conjunct import Conjunct
from lm_datafusion.predicate.expression import Meaning, translate_expression
from lm_datafusion.scan.memory.condition_cache import (
    ConditionCache,
    ConjunctKey,
    WaitingParts,
    conjunct_key,
)
from lm_datafusion.selection import RowSelection
from lm_datafusion.selection.packed import pack
from lm_datafusion.sql import parse_condition
from lm_datafusion.storage import FileVersion

ROOMY = 1 << 20
FILE = FileVersion("a.parquet", 100, "1")
SCHEMA = pa.schema([("x", pa.int64()), ("s", pa.string()), ("t", pa.timestamp("us"))])


def keys(*texts):
    return frozenset(ConjunctKey("datafusion", text, "x: int64") for text in texts)


def rows(*indices, total=1000):
    return pack(RowSelection.from_indices(list(indices), total))


def found(cache, conjuncts, version=FILE):
    return {
        tuple(sorted(key.text for key in members)): {
            group: packed.unpack().to_indices().tolist() for group, packed in groups.items()
        }
        for members, groups in cache.find(version, conjuncts)
    }


class TestKeys:
    def key(self, text, schema=SCHEMA):
        (conjunct,) = parse_condition(text, schema)
        return conjunct_key(conjunct, schema)

    def test_what_the_answer_depends_on(self):
        assert self.key("x = 5") == self.key("x=5")
        assert self.key("x = 5") != self.key("x = 6")
        other = SCHEMA.set(0, pa.field("x", pa.string()))
        assert self.key("x = 5") != self.key("x = 5", other)

    @pytest.mark.parametrize("text", ["random() < 0.5", "t < now()", "1 = 1", "x < random() * 9"])
    def test_what_is_not_kept(self, text):
        assert self.key(text) is None

    def test_what_is_not_kept_whoever_made_it(self):
        assert conjunct_key(Conjunct(text="t < now()", columns=("t",)), SCHEMA) is None

    def test_a_condition_of_pyarrow_is_not_that_of_datafusion(self):
        keys = [
            conjunct_key(translate_expression(pc.field("x") == 5, SCHEMA, meaning)[0], SCHEMA)
            for meaning in Meaning
        ]
        assert None not in keys
        assert len(set(keys)) == 2

    def test_a_function_of_pyarrow_is_not_kept(self):
        (conjunct,) = translate_expression(pc.utf8_is_alpha(pc.field("s")), SCHEMA, Meaning.PYARROW)
        assert conjunct_key(conjunct, SCHEMA) is None

    def test_long_texts_are_short_and_still_differ(self):
        one, other = (self.key(f"x IN ({', '.join(map(str, range(n)))})") for n in (999, 1000))
        assert len(one.text) < 100
        assert one != other


class TestFinding:
    def test_parts_of_a_conjunction_largest_first(self):
        cache = ConditionCache()
        cache.put(FILE, keys("a"), 0, rows(1, 2, 3), limit_bytes=ROOMY)
        cache.put(FILE, keys("a", "b"), 0, rows(2), limit_bytes=ROOMY)
        cache.put(FILE, keys("a", "z"), 0, rows(9), limit_bytes=ROOMY)
        expected = {("a", "b"): {0: [2]}, ("a",): {0: [1, 2, 3]}}
        assert found(cache, keys("a", "b", "c")) == expected
        assert list(found(cache, keys("a", "b", "c"))) == [("a", "b"), ("a",)]

    def test_more_than_was_asked_is_no_answer(self):
        cache = ConditionCache()
        cache.put(FILE, keys("a", "b"), 0, rows(2), limit_bytes=ROOMY)
        assert found(cache, keys("a")) == {}
        assert found(cache, keys("b")) == {}

    def test_row_groups_add_up_and_the_first_word_stands(self):
        cache = ConditionCache()
        cache.put(FILE, keys("a"), 0, rows(1), limit_bytes=ROOMY)
        cache.put(FILE, keys("a"), 4, rows(5), limit_bytes=ROOMY)
        size = cache.memory_bytes()
        cache.put(FILE, keys("a"), 4, rows(5), limit_bytes=ROOMY)
        assert found(cache, keys("a")) == {("a",): {0: [1], 4: [5]}}
        assert cache.memory_bytes() == size

    def test_another_version_of_a_file_is_another_file(self):
        cache = ConditionCache()
        other = FileVersion("b.parquet", 100, "1")
        cache.put(FILE, keys("a"), 0, rows(1), limit_bytes=ROOMY)
        cache.put(other, keys("a"), 0, rows(2), limit_bytes=ROOMY)
        changed = FileVersion("a.parquet", 100, "2")
        assert found(cache, keys("a"), changed) == {}
        # What was known before the change is gone, and nothing else.
        assert found(cache, keys("a")) == {}
        assert found(cache, keys("a"), other) == {("a",): {0: [2]}}
        assert len(cache) == 1


class TestLimit:
    def test_the_least_recently_used_goes_first(self):
        cache = ConditionCache()
        for text in "abcdef":
            cache.put(FILE, keys(text), 0, rows(1), limit_bytes=ROOMY)
        found(cache, keys("a"))
        limit = cache.memory_bytes()
        cache.put(FILE, keys("g"), 0, rows(1), limit_bytes=limit)
        assert cache.memory_bytes() <= limit
        assert found(cache, keys("b")) == {}
        assert found(cache, keys("a")) == {("a",): {0: [1]}}
        assert found(cache, keys("g")) == {("g",): {0: [1]}}

    def test_one_condition_does_not_push_out_all_others(self):
        cache = ConditionCache()
        cache.put(FILE, keys("a"), 0, rows(1), limit_bytes=20_000)
        large = pack(RowSelection.from_indices(range(0, 8000, 2), 8000))
        for row_group in range(100):
            cache.put(FILE, keys("b"), row_group, large, limit_bytes=20_000)
        assert found(cache, keys("a")) == {("a",): {0: [1]}}
        # What it has stays of use.
        assert 1 <= len(found(cache, keys("b"))["b",]) <= 5

    def test_what_never_fits_leaves_nothing_behind(self):
        cache = ConditionCache()
        cache.put(FILE, keys("a"), 0, rows(1), limit_bytes=100)
        assert (len(cache), cache.memory_bytes()) == (0, 0)

    def test_clearing(self):
        cache = ConditionCache()
        cache.put(FILE, keys("a"), 0, rows(1), limit_bytes=ROOMY)
        cache.clear()
        assert (len(cache), cache.memory_bytes(), found(cache, keys("a"))) == (0, 0, {})


def test_threads_leave_it_whole():
    cache = ConditionCache()
    errors = []

    def work(seed):
        try:
            for turn in range(300):
                version = FileVersion("a.parquet", 100, str((turn + seed) // 150))
                text = "abcdefgh"[(turn * seed) % 8]
                cache.put(version, keys(text), turn % 7, rows(seed), limit_bytes=9_000)
                for _, groups in cache.find(version, keys(*"abcdefgh")):
                    assert all(packed.row_count == 1 for packed in list(groups.values()))
        except Exception as error:  # noqa: BLE001 raised by the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    held = sum(entry.size_bytes for entry in cache._entries.values())
    assert cache.memory_bytes() == held <= 9_000
    assert {s for sets in cache._by_member.values() for s in sets} == {
        conjuncts for _, conjuncts in cache._entries
    }


class TestParts:
    KEY = (FILE, keys("x = 1"), 3)

    def put(self, parts, part, *indices, key=KEY):
        found = parts.put(key, part, rows(*indices))
        return None if found is None else found.unpack().to_indices().tolist()

    def test_a_row_group_is_known_once_all_its_parts_are(self):
        parts = WaitingParts()
        assert self.put(parts, (400, 1000), 400, 999) is None
        assert self.put(parts, (0, 300), 7) is None
        assert self.put(parts, (300, 400)) == [7, 400, 999]
        assert len(parts) == 0

    def test_scans_may_cut_in_different_places(self):
        parts = WaitingParts()
        assert self.put(parts, (0, 500), 7, 450) is None
        assert self.put(parts, (0, 500), 7, 450) is None
        assert self.put(parts, (600, 1000), 700) is None
        assert self.put(parts, (400, 700), 450, 550) == [7, 450, 550, 700]

    def test_other_conjuncts_versions_and_row_groups_are_others(self):
        parts = WaitingParts()
        others = [
            (FILE, keys("x = 2"), 3),
            (FileVersion("a.parquet", 100, "2"), keys("x = 1"), 3),
            (FILE, keys("x = 1"), 4),
        ]
        assert self.put(parts, (0, 500), 1) is None
        for key in others:
            assert self.put(parts, (500, 1000), 2, key=key) is None
        assert self.put(parts, (500, 1000), 900) == [1, 900]

    def test_not_many_wait(self):
        parts = WaitingParts()
        for number in range(1000):
            self.put(parts, (0, 500), 1, key=(FILE, keys("x = 1"), number))
        assert len(parts) < 100
        parts.clear()
        assert len(parts) == 0


def test_files_that_are_gone_leave_nothing():
    cache = ConditionCache()
    for number in range(500):
        version = FileVersion(f"{number}.parquet", 100, "1")
        cache.put(version, keys("a"), 0, rows(1), limit_bytes=9_000)
    assert len(cache) < 20
    assert len(cache._current) == len(cache._entry_counts) == len(cache)
