"""Random statements with LIMIT and no order: any rows will do, but they must be rows.

In: a `random.Random`. Out: counts of what was met, or an `AssertionError` that shows the statement.

Every path has to give as many rows as the statement without its limit would leave, each of them
one of its rows and none more often than it is there. That one is asked of DataFusion over memory.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tests.property.statements import RUNS, Statements, contexts, rows_of

if TYPE_CHECKING:
    import random


def run_limit(rng: random.Random) -> dict[str, int]:
    """Draws a statement and looks at the rows of every path; counts what was met."""
    drawn = Statements(rng)
    source, aliases = drawn.source(1)
    columns = ", ".join(f"{drawn.column(aliases)} AS c{i}" for i in range(rng.randint(1, 4)))
    whole = f"SELECT {columns} FROM {source}{drawn.where(aliases)}"
    limit, offset = rng.choice([0, 1, 3, 9, 200]), rng.choice([0, 0, 2, 40])
    statement = f"{whole} LIMIT {limit}" + (f" OFFSET {offset}" if offset else "")
    _, memory, sessions = contexts()
    try:
        every = Counter(rows_of(memory.sql(whole, param_values=drawn.parameters)))
    except Exception:  # noqa: BLE001 what all reject is looked at where there is no limit
        return {"rejected": 1}
    count = max(0, min(limit, every.total() - offset))
    met = {"limits": 1, "rows": count}
    for path, session in sessions.items():
        for _ in range(RUNS.get(path, 1)):
            found = Counter(rows_of(session.sql(statement, param_values=drawn.parameters)))
            shown = f"{path}: {found.total()} rows instead of {count}\n{statement}"
            assert found.total() == count, f"{shown}\n{drawn.parameters}"
            assert found <= every, f"{path}: rows that are none\n{statement}\n{drawn.parameters}"
        reports = session.scan_reports()
        stops = any("stops after" in report.mechanism for report in reports)
        met[f"a {path} scan that stops"] = int(stops)
    return met
