"""Random statements give DataFusion's rows on every path.

The long-running mode is `make fuzz ARGS=--statements`.
"""

from __future__ import annotations

import random

import datafusion
import pytest

from tests.property.limits import run_limit
from tests.property.statements import TABLES, contexts, file_of, rows_of, run_statement


@pytest.mark.parametrize("seed", range(60))
def test_statement(seed):
    run_statement(random.Random(3_000_000 + seed))


@pytest.mark.parametrize("seed", range(60))
def test_a_limit_without_an_order(seed):
    run_limit(random.Random(4_000_000 + seed))


LOST = """SELECT t1.n AS c0, t1.id AS c1
FROM (SELECT * FROM ta) AS t1 RIGHT JOIN ta t2 ON t1.id = t2.grp
WHERE ((upper(t1.name) = 'ANN' AND t1.name NOT LIKE 'b%') OR upper(t2.name) = 'ANN')
AND (t2.id NOT IN (9, 1, 2, 3, 5)
  OR NOT EXISTS (SELECT 1 FROM tb t3 WHERE t3.grp = t2.n AND t3.grp BETWEEN 1 AND 6))
AND NOT EXISTS (SELECT 1 FROM tc t4 WHERE t4.grp = t1.grp AND t4.name LIKE 'a%')"""


def test_datafusion_loses_rows_with_pushdown_and_we_do_not():
    """Once DataFusion is right here, `native_pushdown` may serve joins."""
    plain, memory, sessions = contexts()
    config = datafusion.SessionConfig().with_target_partitions(2)
    pushed = datafusion.SessionContext(
        config.set("datafusion.execution.parquet.pushdown_filters", "true")
    )
    for name in TABLES:
        pushed.register_parquet(name, file_of(name))
    expected = rows_of(memory.sql(LOST))
    assert rows_of(plain.sql(LOST)) == expected
    assert rows_of(pushed.sql(LOST)) != expected
    for session in sessions.values():
        assert rows_of(session.sql(LOST)) == expected


# DataFusion filters t4 or t2, which have columns of the same names, by conditions on t3 and t1,
# if it makes them the left side of the join.
MISPLACED = [
    """SELECT t4.n AS c0 FROM (SELECT * FROM tc WHERE upper(tc.name) = 'ANN' AND NOT EXISTS
    (SELECT 1 FROM vd t2 WHERE t2.grp % 3 = 1 AND t2.grp = tc.grp)
    ORDER BY id, grp, name, n, "Flag" LIMIT 12) AS t1 LEFT JOIN tb t3 ON t1.id = t3.id RIGHT JOIN
    (SELECT * FROM ta WHERE strpos(ta.name, 'o') > 1 AND ta.grp BETWEEN 1 AND 8) AS t4
    ON t1.id = t4.id AND t4.name = 'ann' WHERE t3.n = t3.n AND length(t3.name) > 2""",
    """SELECT t1.grp AS k, count(*), sum(t1.id) FROM va AS t1 RIGHT JOIN tc t2
    ON t1.id = t2.grp AND t2.id * 2 - 1 < 7
    WHERE coalesce(t1.grp, 0) > 4 AND (t2."Flag" AND NOT t2."Flag") GROUP BY t1.grp""",
]


@pytest.mark.parametrize("statement", MISPLACED)
def test_filters_above_outer_joins_are_left_to_datafusion(statement):
    plain, _, sessions = contexts()

    def seen(session):
        try:
            return rows_of(session.sql(statement))
        except Exception as error:  # noqa: BLE001 compared
            return str(error)

    expected = seen(plain)
    for session in sessions.values():
        assert seen(session) == expected
        assert {report.path for report in session.scan_reports()} == {"native"}


def test_a_condition_that_is_null_is_not_handed_to_a_dataset():
    """DataFusion's own translation of it for a dataset raises a TypeError."""
    plain, _, sessions = contexts()
    statement = (
        "SELECT t.n FROM tc t JOIN ta u ON t.id = u.id WHERE NOT (t.grp = t.grp) AND t.n > 1"
    )
    for query in (statement, f"{statement} AND t.name IS NOT NULL AND u.id > 2"):
        for session in sessions.values():
            assert rows_of(session.sql(query)) == rows_of(plain.sql(query))
