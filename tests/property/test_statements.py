"""Random statements give DataFusion's rows on every path.

The long-running mode is `make fuzz ARGS=--statements`.
"""

from __future__ import annotations

import random

import datafusion
import pytest

from tests.property.statements import TABLES, contexts, file_of, rows_of, run_statement


@pytest.mark.parametrize("seed", range(60))
def test_statement(seed):
    run_statement(random.Random(3_000_000 + seed))


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
