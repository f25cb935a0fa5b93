from __future__ import annotations

import pytest

from lm_datafusion.sql.where import find_conditions, without

VIEW = """(
SELECT * EXCEPT ("E"), CAST("E" AS DATE) AS "E" FROM "t0" AS raw
)"""


def found(text):
    return [(c.table, c.text) for c in find_conditions(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT x FROM t WHERE a = 1", [("t", "a = 1")]),
        ("SELECT x FROM t AS u WHERE u.a = 1 AND b > 2", [("t", "a = 1"), ("t", "b > 2")]),
        (
            "SELECT x FROM t WHERE a BETWEEN 1 AND 2 AND b LIKE 'x%' GROUP BY x",
            [("t", "a BETWEEN 1 AND 2"), ("t", "b LIKE 'x%'")],
        ),
        ("SELECT x FROM t WHERE (a = 1 OR b = 2) ORDER BY x", [("t", "(a = 1 OR b = 2)")]),
        (
            "SELECT x FROM t WHERE CASE WHEN a = 1 AND b = 2 THEN c ELSE d END",
            [("t", "CASE WHEN a = 1 AND b = 2 THEN c ELSE d END")],
        ),
        # Inner joins keep a row of each side in every row.
        (
            "SELECT 1 FROM t JOIN u ON t.k = u.k WHERE t.a = 1 AND u.b = 2 AND t.c = u.c",
            [("t", "a = 1"), ("u", "b = 2")],
        ),
        # A name without its table could be of either.
        ("SELECT 1 FROM t JOIN u ON t.k = u.k WHERE a = 1", []),
        # What drops the rows without a partner has to stay.
        ("SELECT 1 FROM t LEFT JOIN u ON t.k = u.k WHERE u.a = 1 AND t.b = 1", []),
        ("SELECT 1 FROM t FULL JOIN u ON t.k = u.k WHERE t.a = 1", []),
        ("SELECT 1 FROM t LEFT ANTI JOIN u ON t.k = u.k WHERE t.a = 1", []),
        # Behind a subquery that only chooses columns.
        (f"SELECT 1 FROM {VIEW} AS v WHERE \"U\" LIKE 'x'", [("t0", "\"U\" LIKE 'x'")]),
        (f"SELECT 1 FROM {VIEW} AS v WHERE \"E\" = 'x'", []),
        ("SELECT 1 FROM (SELECT a AS b, b AS a FROM t) AS v WHERE a = 1", []),
        ("SELECT 1 FROM (SELECT a, b FROM t) AS v WHERE a = 1", [("t", "a = 1")]),
        ("SELECT 1 FROM (SELECT * REPLACE (a + 1 AS a) FROM t) AS v WHERE a = 1", []),
        ("SELECT 1 FROM (SELECT * FROM t LIMIT 3) AS v WHERE a = 1", []),
        ("SELECT 1 FROM (SELECT DISTINCT a FROM t) AS v WHERE a = 1", []),
        ("SELECT 1 FROM (SELECT a, count(*) FROM t GROUP BY a) AS v WHERE a = 1", []),
        ("SELECT 1 FROM (SELECT a, rank() OVER (ORDER BY b) AS b FROM t) v WHERE a = 1", []),
        # Not about one row.
        ("SELECT 1 FROM t WHERE a IN (SELECT b FROM u WHERE c = 1)", [("u", "c = 1")]),
        ("SELECT 1 FROM t WHERE a = $1 AND b = $name", []),
        ("SELECT count(*) FILTER (WHERE a = 1) FROM t WHERE b = 2", [("t", "b = 2")]),
        ("SELECT 1 FROM t WHERE TRUE", []),
        ("SELEC", []),
    ],
)
def test_conditions_that_may_leave(text, expected):
    assert found(text) == expected


def test_only_the_conditions_leave():
    text = "select x -- where a = 1\nfrom t u where u.a=1 and /* and */ b between 1 and 2 limit 3"
    conditions = find_conditions(text)
    assert [text[c.start : c.stop] for c in conditions] == ["u.a=1", "b between 1 and 2"]
    left = without(text, conditions)
    assert left == "select x -- where a = 1\nfrom t u where TRUE and /* and */ TRUE limit 3"
