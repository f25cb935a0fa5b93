from __future__ import annotations

import pyarrow as pa
import pytest

from lm_datafusion.errors import ColumnNotFoundError, SqlError
from lm_datafusion.predicate import evaluator
from lm_datafusion.sql import condition, parse_condition

SCHEMA = pa.schema(
    [
        ("a", pa.int64()),
        ("b", pa.int64()),
        ("c", pa.bool_()),
        ("s", pa.string()),
        ("ts", pa.timestamp("ns")),
        ("d", pa.date32()),
        ("st", pa.struct([("x", pa.int64())])),
        ("l", pa.list_(pa.int64())),
        ("A b", pa.int64()),
        ("bin", pa.binary()),
    ]
)

# Text: conjuncts, each with its columns.
CASES = [
    ("a > 1", [("a > 1", "a")]),
    ("a > 1 AND b < 2", [("a > 1", "a"), ("b < 2", "b")]),
    ("(a = 1 AND (b = 2 AND (c)))", [("a = 1", "a"), ("b = 2", "b"), ("c", "c")]),
    ("a BETWEEN 1 AND 2 AND c", [("a BETWEEN 1 AND 2", "a"), ("c", "c")]),
    ("a = 1 OR b = 2 AND c", [("a = 1 OR b = 2 AND c", "abc")]),
    ("NOT (a = 1 AND b = 2)", [("NOT (a = 1 AND b = 2)", "ab")]),
    ("a NOT IN (1, 2) AND s NOT LIKE 'x%'", [("a NOT IN (1, 2)", "a"), ("s NOT LIKE 'x%'", "s")]),
    ("a IS NOT NULL AND s !~ 'x'", [("a IS NOT NULL", "a"), ("s !~ 'x'", "s")]),
    ("A = 1", [("A = 1", "a")]),
    ('"A b" = 1', [('"A b" = 1', ["A b"])]),
    ("st.x = 1 AND st['x'] > 0", [("st.x = 1", ["st"]), ("st['x'] > 0", ["st"])]),
    ("s::int = 4 AND b = 1", [("CAST(s AS INT) = 4", "s"), ("b = 1", "b")]),
    ("bin = x'00ff'", [("bin = x'00ff'", ["bin"])]),
    ("strpos(s, 'a') = 1 AND b = 1", [("STRPOS(s, 'a') = 1", "s"), ("b = 1", "b")]),
    ("position('a' IN s) > 1", [("POSITION('a' IN s) > 1", "s")]),
    ("array_has(l, 3) AND c", [("ARRAY_HAS(l, 3)", "l"), ("c", "c")]),
    ("date_part('year', ts) = 2020", [("DATE_PART('year', ts) = 2020", ["ts"])]),
    ("ts > ts + INTERVAL '1' DAY", [("ts > ts + INTERVAL '1 DAY'", ["ts"])]),
    ("CASE WHEN a > 1 THEN c ELSE FALSE END", [("CASE WHEN a > 1 THEN c ELSE FALSE END", "ac")]),
]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[case[0] for case in CASES])
def test_conjuncts(text, expected):
    conjuncts = parse_condition(text, SCHEMA)
    assert [c.text for c in conjuncts] == [part for part, _ in expected]
    assert [sorted(c.columns) for c in conjuncts] == [sorted(columns) for _, columns in expected]


@pytest.mark.parametrize("text", [case[0] for case in CASES])
def test_datafusion_reads_the_same_from_the_parts(text):
    parts = [
        name
        for conjunct in parse_condition(text, SCHEMA)
        for name in evaluator.parsed_conjuncts(conjunct.text, SCHEMA)
    ]
    assert parts == evaluator.parsed_conjuncts(text, SCHEMA)


def test_what_cannot_be_shown_to_be_the_same_stays_whole():
    # sqlglot reads IS UNKNOWN as IS NULL, which DataFusion prints otherwise.
    (conjunct,) = parse_condition("c IS UNKNOWN AND a = 1", SCHEMA)
    assert conjunct.text == "c IS UNKNOWN AND a = 1"
    assert set(conjunct.columns) == {"a", "c"}


def test_what_only_datafusion_can_read_stays_whole():
    (conjunct,) = parse_condition("substring(s from 1 for 2) = 'ab'", SCHEMA)
    assert conjunct.text == "substring(s from 1 for 2) = 'ab'"
    assert "s" in conjunct.columns


def test_volatile_functions_are_marked():
    volatile, stable = parse_condition("random() < 0.5 AND a = 1", SCHEMA)
    assert volatile.is_volatile
    assert not stable.is_volatile


def test_one_scan_sees_one_time():
    (conjunct,) = parse_condition("ts < now()", SCHEMA)
    assert "now" not in conjunct.text.lower()
    assert str(evaluator.fold([conjunct.text], SCHEMA)) == str(
        evaluator.fold([conjunct.text], SCHEMA)
    )
    (today,) = parse_condition("d = current_date", SCHEMA)
    assert "current_date" not in today.text.lower()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a >", "Expected"),
        ("a > > 3", "Expected"),
        ("", "Expected"),
        ("a = 1; DROP TABLE t", "end of expression"),
        ("a IN (SELECT 1)", "subquery"),
        ("EXISTS (SELECT 1)", "subquery"),
        ("row_number() OVER () = 1", "window"),
    ],
)
def test_text_that_is_no_condition(text, message):
    with pytest.raises(SqlError, match=message) as caught:
        parse_condition(text, SCHEMA)
    assert isinstance(caught.value, ValueError)


def test_the_message_points_at_the_place():
    with pytest.raises(SqlError) as caught:
        parse_condition("a = 1 AND b =", SCHEMA)
    assert "a = 1 AND b =\n" in str(caught.value)
    assert str(caught.value).rstrip().endswith("^")


def test_an_unknown_column_comes_with_near_names():
    with pytest.raises(ColumnNotFoundError, match='did you mean "st"') as caught:
        parse_condition("sta = 1", SCHEMA)
    assert isinstance(caught.value, KeyError)


class TestKnownConditions:
    def test_the_same_schema_is_asked_once(self, monkeypatch):
        schema = pa.schema([("known", pa.int64())])
        first = parse_condition("known > 5 AND known < 9", schema)
        monkeypatch.setattr(condition, "_parsed", None)
        assert parse_condition("known > 5 AND known < 9", schema) is first

    def test_another_schema_is_asked_again(self):
        assert parse_condition("known > 6", pa.schema([("known", pa.int64())]))
        with pytest.raises(ColumnNotFoundError):
            parse_condition("known > 6", pa.schema([("other", pa.int64())]))

    def test_the_time_is_read_each_time(self):
        schema = pa.schema([("at", pa.timestamp("us"))])
        (first,) = parse_condition("at < now()", schema)
        (second,) = parse_condition("at < now()", schema)
        assert first.text != second.text
