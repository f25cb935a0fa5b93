from __future__ import annotations

import pytest
import sqlglot

from lm_datafusion.cli.statements import (
    is_definition,
    is_query,
    quoted_tables,
    split_statements,
)
from lm_datafusion.sql.dialect import DataFusion


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("", []),
        (" ;; \n ; ", []),
        ("-- nothing; here\n/* nor; here */", []),
        ("select 1", ["select 1"]),
        ("select 1;", ["select 1"]),
        ("select 1; select 2 ;", ["select 1", "select 2"]),
        ("select ';'; select 2", ["select ';'", "select 2"]),
        ("select 'it''s; ok'; select 2", ["select 'it''s; ok'", "select 2"]),
        (r"select 'a\'; select 2", [r"select 'a\'", "select 2"]),
        (r"select E'a\';b'; select 2", [r"select E'a\';b'", "select 2"]),
        ('select 1 as "a"";b"; select 2', ['select 1 as "a"";b"', "select 2"]),
        ("select 1 as `a;b`; select 2", ["select 1 as `a;b`", "select 2"]),
        ("select $$a;b$$; select 2", ["select $$a;b$$", "select 2"]),
        ("select $t$a;$$;b$t$; select 2", ["select $t$a;$$;b$t$", "select 2"]),
        ("select a$b$c; select d$b$", ["select a$b$c", "select d$b$"]),
        ("select $1; select $2", ["select $1", "select $2"]),
        ("select 1 -- one; two\n, 2; select 3", ["select 1 -- one; two\n, 2", "select 3"]),
        ("select 1 /* a /* b; */ c; */; select 2", ["select 1 /* a /* b; */ c; */", "select 2"]),
        ("select 'open; end", ["select 'open; end"]),
        ("select 1 /* open; end", ["select 1 /* open; end"]),
        ("select 1 - -1; select 4/2", ["select 1 - -1", "select 4/2"]),
    ],
)
def test_statements_are_split(text, statements):
    assert split_statements(text) == statements


@pytest.mark.parametrize(
    "text",
    ["select ';' ; select \"x;y\" -- ;\n; select 3", "select $$;$$; with t as (select 1) table t"],
)
def test_as_many_statements_as_sqlglot_finds(text):
    assert len(split_statements(text)) == len(sqlglot.parse(text, dialect=DataFusion))


def test_long_text_is_split_in_one_pass():
    text = "select '" + "x;''" * 200_000 + "'; select 2"
    assert len(split_statements(text)) == 2


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("select * from 'a.parquet'", ["a.parquet"]),
        ('SELECT * FROM "a.parquet" x', ["a.parquet"]),
        ("select * from 'a''s.parquet'", ["a's.parquet"]),
        ("select * from 'a' join 'b' on 1 = 1", ["a", "b"]),
        ("select * from 'a', 'b' x, 'c' as y, 'd' \"z\", 'e'", ["a", "b", "c", "d", "e"]),
        ("select * from (select * from 'a') left join 'b' using (k)", ["a", "b"]),
        ("select 'a', 'b' from t", []),
        ("select * from t where x in ('a', 'b')", []),
        ("select * from 'a' where x in ('a', 'b')", ["a"]),
        ("select * from 'a' order by x, 'b'", ["a"]),
        ("select x is distinct from 'a' from 'b'", ["b"]),
        ("select * from -- 'no'\n 'a'", ["a"]),
        ("create view v as select * from 'a'", ["a"]),
    ],
)
def test_quoted_tables_are_found(statement, names):
    found = quoted_tables(statement)
    assert [table.name for table in found] == names
    for table in found:
        assert statement[table.start] == statement[table.stop - 1]


@pytest.mark.parametrize(
    ("rest", "has_alias"),
    [
        ("", False),
        (" x", True),
        (" AS x", True),
        (' "x"', True),
        (" where a = 1", False),
        (" LEFT JOIN t", False),
        (", t", False),
        (") y", False),
        ("\n-- c\nORDER BY 1", False),
        (" union all select 1", False),
    ],
)
def test_aliases_of_quoted_tables(rest, has_alias):
    (table,) = quoted_tables(f"select * from 'a'{rest}")
    assert table.has_alias == has_alias
    assert table.is_string


@pytest.mark.parametrize(
    "statement", ["select 1", "-- x\n(SELECT 1)", "with t as (select 1) table t"]
)
def test_queries(statement):
    assert is_query(statement)
    assert not is_definition(statement)


@pytest.mark.parametrize(
    "statement", ["create view v as select 1", "SET a = 1", "/* x */ drop view v"]
)
def test_definitions(statement):
    assert is_definition(statement)
    assert not is_query(statement)


def test_neither():
    assert not is_query("insert into t values (1)")
    assert not is_definition("'x'")
    assert not is_query("")
