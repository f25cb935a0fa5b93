"""How plans are written for people."""

from __future__ import annotations

import pytest

from lm_datafusion.metrics.plan_text import byte_size, counted, listed, percent, readable, wrapped


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ("(\"a\" > arrow_cast('5', 'Int64'))", '"a" > 5'),
        ("(\"a\" = arrow_cast('x', 'Utf8View'))", "\"a\" = 'x'"),
        ('("a" > (-5))', '"a" > -5'),
        ('("a" IS NULL)', '"a" IS NULL'),
        ('(("a" > 5) OR ("b" < 1))', '(("a" > 5) OR ("b" < 1))'),
    ],
)
def test_conditions_lose_what_only_a_parser_needs(condition, text):
    assert readable(condition) == text


def test_long_texts_are_indented_below_their_label():
    first, *others = wrapped("why", "word " * 60)
    assert first.startswith("  why      word")
    assert others
    assert all(line.startswith(" " * 11 + "word") for line in others)
    assert max(map(len, [first, *others])) <= 96


def test_an_empty_text_has_its_label():
    assert wrapped("why", "") == ["  why      "]


def test_of_many_columns_the_first_are_named():
    assert listed(("a", "b")) == "a, b"
    assert listed(tuple("abcdefghijklmnop")).startswith("16 columns: a, b, c")
    assert listed(tuple("abcdefghijklmnop")).endswith("l and 4 more")


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (counted(1, "row group"), "1 row group"),
        (counted(1200, "row group"), "1,200 row groups"),
        (percent(0.0123), "1.23%"),
        (percent(0.5), "50%"),
        (byte_size(999), "999 bytes"),
        (byte_size(1500), "1.5 KB"),
        (byte_size(2_500_000_000), "2.5 GB"),
        (byte_size(7_000_000_000_000), "7,000.0 GB"),
    ],
)
def test_numbers(shown, expected):
    assert shown == expected
