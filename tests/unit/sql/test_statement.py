from __future__ import annotations

import pytest

from lm_datafusion.sql.statement import parse_create_view, parse_query, split_explain


def names(text):
    return sorted(reference.name for reference in parse_query(text).references)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM hits", [("hits",)]),
        ("SELECT * FROM Hits", [("hits",)]),
        ('SELECT * FROM "Hits"', [("Hits",)]),
        ("SELECT * FROM public.hits", [("public", "hits")]),
        ("SELECT * FROM a JOIN b USING (k), c", [("a",), ("b",), ("c",)]),
        ("WITH a AS (SELECT * FROM b) SELECT * FROM a", [("b",)]),
        (
            "SELECT (SELECT max(x) FROM b) FROM a WHERE k IN (SELECT k FROM c)",
            [("a",), ("b",), ("c",)],
        ),
        ("SELECT x FROM a UNION SELECT x FROM b", [("a",), ("b",)]),
        ("SELECT * FROM read_parquet('x')", []),
        ("SELECT * FROM a TABLESAMPLE (10)", []),
        ("SELECT 1", []),
        ("SELECT * FROM a WHERE x = 'E' OR x = 'B' OR x LIKE'n'", [("a",)]),
    ],
)
def test_references(text, expected):
    assert names(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t VALUES (1)",
        "CREATE TABLE t AS SELECT 1",
        "EXPLAIN SELECT 1",
        "SELECT 1; SELECT 2",
        "SELEC 1",
        "SET x = 1",
        "SELECT public.a.x FROM public.a",
        r"SELECT * FROM a WHERE s = E'\\'' AND t = 'x'",
        "SELECT * FROM a WHERE s = N'x'",
        "",
    ],
)
def test_everything_else_is_left_alone(text):
    assert parse_query(text) is None


def test_only_the_names_change():
    text = 'select a . x -- from a\n from a, "B c" as b where a.x in (select x from a /* a */)'
    query = parse_query(text)
    renamed = query.spliced({i: f'"t{i}"' for i in range(len(query.references))})
    back = renamed
    for index, reference in enumerate(query.references):
        alias = "" if reference.has_alias else f' AS "{reference.alias}"'
        back = back.replace(f'"t{index}"{alias}', text[reference.start : reference.stop])
    assert back == text
    assert "-- from a\n" in renamed
    assert "/* a */" in renamed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE VIEW v AS SELECT 1", (("v",), "SELECT 1")),
        (
            'create or replace view s."V" as\nselect * from x -- c\n;',
            (("s", "V"), "select * from x"),
        ),
        ("CREATE TABLE t AS SELECT 1", None),
        ("SELECT 1 AS view", None),
        ("CREATE VIEW v", None),
    ],
)
def test_the_query_of_a_view(text, expected):
    assert parse_create_view(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("EXPLAIN SELECT 1", ("EXPLAIN ", "SELECT 1")),
        (" explain analyze verbose select 1", (" explain analyze verbose ", "select 1")),
        ("-- why\nEXPLAIN FORMAT tree SELECT 1", ("-- why\nEXPLAIN FORMAT tree ", "SELECT 1")),
        ("SELECT 'EXPLAIN '", None),
        ("EXPLAINED", None),
    ],
)
def test_what_an_explain_explains(text, expected):
    assert split_explain(text) == expected
