from __future__ import annotations

import pytest

from lm_datafusion.cli.box import BoxTable, cut, plain_table, text_width, visible


def lines_of(names, rows, **options):
    table = BoxTable(names, rows, **({"is_right": [False] * len(names)} | options))
    return [*table.head(), *map(table.line, rows), *table.rule()], table


def test_columns_are_aligned():
    lines, _ = lines_of(["n", "text"], [["1", "a"], ["10", "längst"]], is_right=[True, False])
    assert lines == [
        "+----+--------+",
        "|  n | text   |",
        "+----+--------+",
        "|  1 | a      |",
        "| 10 | längst |",
        "+----+--------+",
    ]


def test_no_rows():
    lines, _ = lines_of(["a"], [])
    assert lines == ["+---+", "| a |", "+---+", "+---+"]


@pytest.mark.parametrize("width", [20, 40, 80, 137])
@pytest.mark.parametrize("count", [1, 2, 3, 10, 100])
def test_no_line_is_wider_than_asked_for(count, width):
    names = [f"column {index}" for index in range(count)]
    lines, table = lines_of(names, [["x" * (index * 3) for index in range(count)]], width=width)
    assert {text_width(line) for line in lines} == {text_width(lines[0])}
    assert text_width(lines[0]) <= width
    if table.hidden_count:
        assert "…" in lines[1]
        assert table.hidden_count < count


def test_first_and_last_columns_stay():
    names = [f"c{index:02}" for index in range(50)]
    lines, table = lines_of(names, [["12345678"] * 50], width=60)
    assert "c00" in lines[1]
    assert "c49" in lines[1]
    assert table.hidden_count == 50 - (lines[1].count("c"))


def test_the_widest_column_gives_way():
    lines, table = lines_of(["id", "url"], [["12345678", "u" * 100]], width=40)
    assert table.hidden_count == 0
    assert "12345678" in lines[3]
    assert "u…" in lines[3]


def test_a_later_cell_that_is_wider_sticks_out_only_without_a_limit():
    table = BoxTable(["a"], [["x"]], is_right=[False])
    assert table.line(["long"]) == "| long |"
    table = BoxTable(["a"], [["x"]], is_right=[False], width=80)
    assert table.line(["long"]) == "| … |"


def test_wide_and_combining_characters():
    assert text_width("日本") == 4
    assert text_width("e\u0301") == 1
    assert cut("日本語", 5) == "日本…"
    assert cut("abc", 3) == "abc"


def test_control_characters_are_escaped():
    assert visible("a\nb\t\x1b[31m\x7f") == "a\\nb\\t\\x1b[31m\\x7f"
    assert visible("plain ä") == "plain ä"


def test_plain_table_has_no_borders():
    lines = plain_table(["a", "b"], [["x", "1"]], is_right=[False, True], width=80)
    assert lines == ["a  b", "x  1"]
