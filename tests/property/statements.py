"""Random statements over three tables, and the check that every path gives DataFusion's rows.

In: a `random.Random`. Out: nothing, or an `AssertionError` that shows the statement.

Statements are drawn from a small grammar: joins of every kind, subqueries in every place, CTEs
(used once or twice), set operations, grouping, windows, limits under a total order. NULLs are in
every column. Rows are compared as multisets; the tables have integers and text only, so that no
sum depends on the order of rows.

The oracle is DataFusion over the same files. It has bugs of its own: 55 keeps rows of an outer join
that `t1.n = t1.n` should drop when it reads them from Parquet, and not when it reads them from
memory; and now and then it is wrong from both. Where the late path differs from DataFusion over
files, DataFusion over memory or else DuckDB decides.
"""

from __future__ import annotations

import functools
import pathlib
import random
import tempfile
from typing import TYPE_CHECKING

import datafusion
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import lm_datafusion as lm

if TYPE_CHECKING:
    from collections.abc import Sequence

COLUMNS = {"id": "int", "grp": "int", "name": "text", "n": "int", "Flag": "bool"}
TABLES = ("ta", "tb", "tc")
PATHS = ("late", "native_pushdown", "native")


@functools.cache
def _folder() -> pathlib.Path:
    return pathlib.Path(tempfile.mkdtemp(prefix="lm-statements-"))


def file_of(name: str) -> str:
    """Where a table is."""
    return str(_folder() / f"{name}.parquet")


@functools.cache
def contexts() -> tuple[
    datafusion.SessionContext, datafusion.SessionContext, dict[str, lm.SessionContext]
]:
    """Plain DataFusion over files and over memory, and a session of ours per path."""
    rng = random.Random(11)
    plain = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(2))
    memory = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(2))
    sessions = {
        path: lm.SessionContext(
            datafusion.SessionConfig().with_target_partitions(2),
            options=lm.ScanOptions(path=path),
        )
        for path in PATHS
    }
    for name, rows in zip(TABLES, (120, 60, 25), strict=True):
        file = file_of(name)
        table = _table(rng, rows)
        pq.write_table(table, file, row_group_size=30, max_rows_per_page=10, write_page_index=True)
        memory.from_arrow(table, name=name)
        for context in (plain, *sessions.values()):
            context.register_parquet(name, file)
    return plain, memory, sessions


def _table(rng: random.Random, rows: int) -> pa.Table:
    def column(draw):
        return [None if rng.random() < 0.2 else draw() for _ in range(rows)]

    return pa.table(
        {
            "id": pa.array(column(lambda: rng.randrange(15)), pa.int64()),
            "grp": pa.array(column(lambda: rng.randrange(4)), pa.int32()),
            "name": column(lambda: rng.choice(["ann", "bob", "eve", "Zoe", "", "a%"])),
            "n": pa.array(column(lambda: rng.randrange(-20, 20)), pa.int64()),
            "Flag": column(lambda: rng.random() < 0.5),
        }
    )


class Statements:
    """Draws statements."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.names = 0

    def alias(self) -> str:
        self.names += 1
        return f"t{self.names}"

    def statement(self) -> str:
        kind = self.rng.random()
        if kind < 0.15:
            word = self.rng.choice(["UNION", "UNION ALL", "INTERSECT", "EXCEPT"])
            return f"{self.narrow()} {word} {self.narrow()}"
        if kind < 0.3:
            return self.with_cte()
        return self.select()

    def narrow(self) -> str:
        source, aliases = self.source(1)
        column = self.column(aliases, "int")
        return f"SELECT {column} AS k FROM {source}{self.where(aliases)}"

    def with_cte(self) -> str:
        table = self.rng.choice(TABLES)
        where = self.where([table])
        body = f'SELECT id, grp, name, n, "Flag" FROM {table}{where}'
        if self.rng.random() < 0.3:
            body += ' ORDER BY id, grp, name, n, "Flag" LIMIT 9'
        if self.rng.random() < 0.5:
            return f"WITH w AS ({body}) SELECT * FROM w{self.where(['w'])}"
        where = self.where(["x", "y"])
        return f"WITH w AS ({body}) SELECT x.id, y.name FROM w x JOIN w y ON x.id = y.grp{where}"

    def select(self) -> str:
        source, aliases = self.source(self.rng.choice([1, 1, 2, 3]))
        where = self.where(aliases)
        kind = self.rng.random()
        if kind < 0.25:
            key = self.column(aliases)
            value = self.column(aliases, "int")
            having = self.rng.choice(["", " HAVING count(*) > 1", f" HAVING max({value}) > 3"])
            return (
                f"SELECT {key} AS k, count(*), sum({value}), min({value}) FROM {source}{where}"
                f" GROUP BY {key}{having}"
            )
        if kind < 0.35:
            part, order = self.column(aliases), self.column(aliases, "int")
            return (
                f"SELECT * FROM (SELECT {order} AS o, {part} AS p, rank() OVER (PARTITION BY {part}"
                f" ORDER BY {order}) AS r FROM {source}{where}) z WHERE r < 4 AND p IS NOT NULL"
            )
        if kind < 0.45:
            return f"SELECT DISTINCT {self.column(aliases)} AS k FROM {source}{where}"
        columns = [f"{self.column(aliases)} AS c{i}" for i in range(self.rng.randint(1, 4))]
        if kind < 0.6:
            order = ", ".join(f"c{i}" for i in range(len(columns)))
            limit = f" LIMIT {self.rng.randint(0, 9)} OFFSET {self.rng.randint(0, 3)}"
            return f"SELECT {', '.join(columns)} FROM {source}{where} ORDER BY {order}{limit}"
        return f"SELECT {', '.join(columns)} FROM {source}{where}"

    def source(self, count: int) -> tuple[str, list[str]]:
        text, first = self.table()
        aliases = [first]
        for _ in range(count - 1):
            other, alias = self.table()
            kind = self.rng.choice(
                [
                    "JOIN",
                    "JOIN",
                    "LEFT JOIN",
                    "RIGHT JOIN",
                    "FULL JOIN",
                    "CROSS JOIN",
                    "LEFT SEMI JOIN",
                    "LEFT ANTI JOIN",
                ]
            )
            if kind == "CROSS JOIN":
                text += f" CROSS JOIN {other}"
            else:
                left = self.rng.choice(aliases)
                on = f"{left}.id = {alias}.{self.rng.choice(['id', 'grp'])}"
                if self.rng.random() < 0.4:
                    on += f" AND {self.condition([left, alias], 0)}"
                text += f" {kind} {other} ON {on}"
            if "SEMI" not in kind and "ANTI" not in kind:
                aliases.append(alias)
        return text, aliases

    def table(self) -> tuple[str, str]:
        alias = self.alias()
        name = self.rng.choice(TABLES)
        kind = self.rng.random()
        if kind < 0.7:
            return f"{name} {self.rng.choice(['AS ', ''])}{alias}", alias
        inner = f"SELECT * FROM {name}{self.where([name])}"
        if kind > 0.9:
            inner += ' ORDER BY id, grp, name, n, "Flag" LIMIT 12'
        return f"({inner}) AS {alias}", alias

    def column(self, aliases: Sequence[str], kind: str | None = None) -> str:
        names = [name for name, of in COLUMNS.items() if kind in (None, of)]
        name = self.rng.choice(names)
        return f"{self.rng.choice(list(aliases))}." + (f'"{name}"' if name == "Flag" else name)

    def where(self, aliases: Sequence[str]) -> str:
        if self.rng.random() < 0.15:
            return ""
        parts = [self.condition(aliases, 2) for _ in range(self.rng.randint(1, 3))]
        return " WHERE " + " AND ".join(parts)

    def condition(self, aliases: Sequence[str], depth: int) -> str:
        kind = self.rng.random()
        if depth and kind < 0.25:
            left, right = (self.condition(aliases, depth - 1) for _ in range(2))
            return f"({left} {self.rng.choice(['AND', 'OR', 'OR'])} {right})"
        if depth and kind < 0.32:
            return f"NOT ({self.condition(aliases, depth - 1)})"
        if depth and kind < 0.47:
            return self.subquery(aliases)
        return self.atom(aliases)

    def subquery(self, aliases: Sequence[str]) -> str:
        alias, table = self.alias(), self.rng.choice(TABLES)
        source = f"FROM {table} {alias} WHERE {self.condition([alias], 0)}"
        outer = self.column(aliases, "int")
        return self.rng.choice(
            [
                f"{outer} IN (SELECT {alias}.grp {source})",
                f"{outer} NOT IN (SELECT {alias}.id {source} AND {alias}.id IS NOT NULL)",
                f"EXISTS (SELECT 1 {source} AND {alias}.id = {outer})",
                f"NOT EXISTS (SELECT 1 {source} AND {alias}.grp = {outer})",
                f"{outer} > (SELECT min({alias}.n) {source})",
            ]
        )

    def atom(self, aliases: Sequence[str]) -> str:
        number, text = self.column(aliases, "int"), self.column(aliases, "text")
        flag, value = self.column(aliases, "bool"), self.rng.randint(-3, 12)
        word = self.rng.choice(["ann", "bob", "", "a%", "Zoe"])
        return self.rng.choice(
            [
                f"{number} {self.rng.choice(['=', '<', '>', '<=', '>=', '<>'])} {value}",
                f"{number} {self.rng.choice(['IN', 'NOT IN'])} ({value}, 1, 2, 3, 5)",
                f"{number} BETWEEN 1 AND {value}",
                f"{number} % 3 = 1",
                f"{number} = {self.column(aliases, 'int')}",
                f"{text} = '{word}'",
                f"{text} {self.rng.choice(['LIKE', 'NOT LIKE'])} '{word[:1]}%'",
                f"length({text}) > 2",
                f"upper({text}) = 'ANN'",
                f"{self.column(aliases)} IS {self.rng.choice(['', 'NOT '])}NULL",
                f"{number} IS {self.rng.choice(['', 'NOT '])}DISTINCT FROM {value}",
                f"{flag}",
                f"NOT {flag}",
                f"coalesce({number}, 0) > {value}",
                f"CASE WHEN {number} > 1 THEN {flag} ELSE {text} = 'eve' END",
            ]
        )


def run_statement(rng: random.Random) -> None:
    """Draws a statement and compares every path with plain DataFusion."""
    statement = Statements(rng).statement()
    plain, memory, sessions = contexts()
    try:
        frame = plain.sql(statement)
        schema, expected = frame.schema(), rows_of(frame)
    except Exception as error:  # noqa: BLE001 what DataFusion rejects, all reject
        for path, session in sessions.items():
            _must_fail(session, statement, path, error)
        return
    for path, session in sessions.items():
        try:
            served = session.sql(statement)
            found = rows_of(served)
        except Exception as error:
            raise AssertionError(f"{path} failed: {error!r}\n{statement}") from error
        assert served.schema() == schema, f"{path}: another schema\n{statement}"
        is_same = found == expected or (
            path == "late"
            and (found == rows_of(memory.sql(statement)) or found == _rows_of_duckdb(statement))
        )
        assert is_same, f"{path}: {len(found)} rows instead of {len(expected)}\n{statement}"


def _must_fail(session: lm.SessionContext, statement: str, path: str, error: Exception) -> None:
    try:
        rows_of(session.sql(statement))
    except Exception:  # noqa: BLE001 as it should
        return
    raise AssertionError(f"{path} answers what DataFusion rejects ({error!r})\n{statement}")


def rows_of(frame: datafusion.DataFrame) -> list[str]:
    return sorted(repr(tuple(row.values())) for row in frame.to_arrow_table().to_pylist())


def _rows_of_duckdb(statement: str) -> list[str]:
    """A second oracle; it writes semi and anti joins in its own way."""
    own = statement.replace("LEFT SEMI JOIN", "SEMI JOIN").replace("LEFT ANTI JOIN", "ANTI JOIN")
    _, _, sessions = contexts()
    with duckdb.connect() as connection:
        for name in TABLES:
            connection.read_parquet(sessions["late"]._tables[name]).create_view(name)
        return sorted(repr(row) for row in connection.sql(own).fetchall())
