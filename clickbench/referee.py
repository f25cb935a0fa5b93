"""Whether an answer is right, ties included.

In: a query and the answers engines gave. Out: per answer nothing, or what is wrong with it.

Most queries end in `ORDER BY c DESC LIMIT 10`, where several rows share the last `c`, so that more
than one answer is right; `LIMIT` without `ORDER BY` allows even more. DuckDB is asked, apart from
any timing:

1. Which sort keys stand at which position: the query itself, with its keys as further columns.
   Ties do not change these.
2. Which of the rows that any engine gave are there at all without the limit, with which sort
   keys, and how often.

Guaranteed of an answer that passes: it has the right number of rows; the row at each position is
a row of the unlimited result, with the sort keys of that position; and no row is there more often
than the unlimited result has it with these keys. Together these say that the answer is one that
SQL allows. Rows of keys that lie wholly inside the limit are thereby compared exactly; of a group
of ties that the limit or offset cuts, any members will do.

Values are compared as `clickbench.answers` has them: floats within a relative 1e-9, and sort keys
that close count as tied. An error that DuckDB shares with an engine is not found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import sqlglot
from sqlglot import exp

from clickbench.answers import is_same_row, is_same_value, to_rows
from clickbench.dialects import translate
from clickbench.engines.duckdb_engine import DuckDB
from lm_datafusion.sql.dialect import DataFusion

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from clickbench.answers import Row

_SHOWN = 200
_FRACTIONS = ("FLOAT", "DOUBLE", "DECIMAL")


class Referee:
    """DuckDB over the same files, asked about answers."""

    def __init__(self, files: Sequence[str], threads: int) -> None:
        self._files = files
        self._threads = threads

    def judge(self, sql: str, answers: Mapping[str, list[Row]]) -> dict[str, str | None]:
        """What is wrong with each answer; None where nothing is."""
        duckdb = DuckDB()
        duckdb.open(self._files, self._threads)
        try:
            keyed, unlimited, key_count = _with_keys(sql)
            expected = to_rows(duckdb.run(keyed))
            width = (len(expected[0]) if expected else _width(duckdb, keyed)) - key_count
            rows = [row for answer in answers.values() for row in answer if len(row) == width]
            members = _members(duckdb, unlimited, rows, width)
        finally:
            duckdb.close()
        return {name: _fault(answer, expected, members, width) for name, answer in answers.items()}


def _with_keys(sql: str) -> tuple[str, str, int]:
    """A query with its sort keys as last columns, limited as it was and unlimited."""
    tree = sqlglot.parse_one(sql, dialect=DataFusion)
    assert isinstance(tree, exp.Select), sql
    order = tree.args.get("order")
    aliases = {
        item.alias.lower(): item.this for item in tree.expressions if isinstance(item, exp.Alias)
    }
    keys = [_meant(term.this, aliases) for term in (order.expressions if order else [])]
    for number, key in enumerate(keys):
        tree.append("expressions", exp.alias_(key, f"__key{number}"))
    limited = tree.sql(dialect=DataFusion)
    for part in ("order", "limit", "offset"):
        tree.set(part, None)
    return limited, tree.sql(dialect=DataFusion), len(keys)


def _meant(key: exp.Expression, aliases: Mapping[str, exp.Expression]) -> exp.Expression:
    """A sort key with names of the select list replaced by what they stand for."""

    def replaced(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Column) and not node.this.args.get("quoted"):
            return aliases.get(node.name.lower(), node).copy()
        return node

    return key.copy().transform(replaced)


def _width(duckdb: DuckDB, sql: str) -> int:
    return len(duckdb.connection.sql(translate(sql, "duckdb")).columns)


def _members(duckdb: DuckDB, unlimited: str, rows: list[Row], width: int) -> _Members:
    """Rows of the unlimited result that some engine gave, with sort keys and how often."""
    text = translate(unlimited, "duckdb")
    types = [str(kind) for kind in duckdb.connection.sql(text).types]
    exact = [i for i in range(width) if not types[i].startswith(_FRACTIONS)]
    distinct = {tuple(row[i] for i in exact) for row in rows}
    candidates = pa.table(
        {f"c{i}": _texts(row[at] for row in distinct) for at, i in enumerate(exact)}
    )
    names = ", ".join(f"c{i}" for i in range(len(types)))
    semi_join = ""
    if exact:
        duckdb.connection.register("candidates", candidates)
        casts = ", ".join(f"TRY_CAST(c{i} AS {types[i]}) AS c{i}" for i in exact)
        same = " AND ".join(f"u.c{i} IS NOT DISTINCT FROM c.c{i}" for i in exact)
        semi_join = f" SEMI JOIN (SELECT {casts} FROM candidates) AS c ON {same}"
    found = duckdb.connection.sql(
        f"SELECT u.*, COUNT(*) FROM ({text}) AS u({names}){semi_join} GROUP BY ALL"
    )
    return _Members(to_rows(found.to_arrow_table()), exact, width)


def _texts(values: Iterable[Any]) -> pa.Array:
    return pa.array([None if value is None else str(value) for value in values], pa.string())


class _Members:
    """Rows by their exact values, each with its sort keys and how often it is there."""

    def __init__(self, found: list[Row], exact: list[int], width: int) -> None:
        self._exact = exact
        self._rows: dict[tuple[Any, ...], list[tuple[Row, Row, int]]] = {}
        for row in found:
            name = tuple(row[i] for i in exact)
            entry = (row[:width], row[width:-1], int(row[-1]))
            self._rows.setdefault(name, []).append(entry)

    def of(self, row: Row) -> list[tuple[Row, Row, int]]:
        """Entries that could be this row: all but floats are equal."""
        return self._rows.get(tuple(row[i] for i in self._exact), [])


def _fault(answer: list[Row], expected: list[Row], members: _Members, width: int) -> str | None:
    """What is wrong with an answer."""
    if len(answer) != len(expected):
        return f"{len(answer)} rows, and {len(expected)} are right"
    used: dict[int, int] = {}
    for position, (row, right) in enumerate(zip(answer, expected, strict=True)):
        if len(row) != width:
            return f"{len(row)} columns, and {width} are right"
        keys = right[width:]
        entries = [
            entry
            for entry in members.of(row)
            if is_same_row(entry[0], row) and all(map(is_same_value, entry[1], keys))
        ]
        free = next((e for e in entries if used.get(id(e), 0) < e[2]), None)
        if free is None:
            why = "is there too often" if entries else "cannot be there"
            return f"row {position} {why}: {_shown(row)}; possible is {_shown(right[:width])}"
        used[id(free)] = used.get(id(free), 0) + 1
    return None


def _shown(row: Row) -> str:
    text = repr(row)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ..."
