"""What is asked of a table, and which answers are right.

In: an answer, and the versions that each file may have been met in. Out: None, or what is wrong.

An answer is right if there is one version per file, current at some moment of the query, whose
rows together give it. Two files may have been met at different moments.

Invariant: a question's condition means the same here, in PyArrow, as in SQL.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tests.soak.contents import GROUPS, WORDS
from tests.soak.ledger import ABSENT

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Rows = list[tuple[object, ...]]
    Candidates = Mapping[int, Sequence[int]]
    # The rows of a version of a file.
    Contents = Callable[[int, int], pa.Table]

# Sums that a count may have, beyond which it is not judged.
MOST_SUMS = 20_000
LIMIT = 20


@dataclass(frozen=True)
class Condition:
    """A condition in SQL and in PyArrow."""

    sql: str
    expression: pc.Expression = field(compare=False)


def any_condition(rng: random.Random) -> Condition:
    """One of a few dozen, so that they come again and caches have something to know."""
    kinds = (_group, _group_and_x, _like, _word, _range, _either)
    return rng.choice(kinds)(rng)


def _group(rng: random.Random) -> Condition:
    group = rng.randrange(GROUPS)
    return Condition(f"grp = {group}", pc.field("grp") == group)


def _group_and_x(rng: random.Random) -> Condition:
    group, least = rng.randrange(GROUPS), rng.choice([-500, 0, 900])
    return Condition(
        f"grp <> {group} AND x > {least}", (pc.field("grp") != group) & (pc.field("x") > least)
    )


def _like(rng: random.Random) -> Condition:
    part = rng.choice(["amma", "eta 0", "ff", "zeta", "a 1"])
    return Condition(f"text LIKE '%{part}%'", pc.match_substring(pc.field("text"), part))


def _word(rng: random.Random) -> Condition:
    word = rng.choice([*WORDS, "omega"])
    return Condition(f"word = '{word}'", pc.field("word") == word)


def _range(rng: random.Random) -> Condition:
    least = rng.choice([0, 100, 3_000])
    return Condition(
        f"id >= {least} AND id < {least + 150}",
        (pc.field("id") >= least) & (pc.field("id") < least + 150),
    )


def _either(rng: random.Random) -> Condition:
    word = rng.choice(WORDS)
    return Condition(
        f"(word = '{word}' OR x IS NULL) AND upper(text) <> 'Q'",
        (pc.field("word") == word) | pc.field("x").is_null(),
    )


@dataclass(frozen=True)
class Question:
    """Something asked of a table; kinds differ in what they select and how answers are judged."""

    condition: Condition

    def sql(self, table: str) -> str:
        """The statement."""
        raise NotImplementedError

    def judge(self, answer: pa.Table, candidates: Candidates, contents: Contents) -> str | None:
        """None for a right answer, else what is wrong with it."""
        raise NotImplementedError

    def matching(self, file: int, version: int, contents: Contents) -> pa.Table:
        """The rows of a version that meet the condition."""
        rows = contents(file, max(version, 0))
        return rows.slice(0, 0) if version == ABSENT else rows.filter(self.condition.expression)


class PerFile(Question):
    """Rows that each belong to one file: what is there of a file has to be of one version."""

    def expected(self, rows: pa.Table) -> Rows:
        """What the answer holds of a file with these matching rows, in any order."""
        raise NotImplementedError

    def judge(self, answer: pa.Table, candidates: Candidates, contents: Contents) -> str | None:
        found: dict[int, Rows] = {}
        for row in rows_of(answer):
            found.setdefault(int(str(row[0])), []).append(row)
        if unknown := found.keys() - candidates.keys():
            return f"rows of files that were not there: {sorted(unknown)}"
        for file, versions in candidates.items():
            own = sorted(found.get(file, []), key=repr)
            if not any(self._is(own, file, version, contents) for version in set(versions)):
                met = sorted({row[1] for row in own}, key=repr)
                return (
                    f"file {file}: {len(own)} rows of versions {met}, which are all rows of none"
                    f" of the versions {sorted(set(versions))}"
                )
        return None

    def _is(self, own: Rows, file: int, version: int, contents: Contents) -> bool:
        expected = self.expected(self.matching(file, version, contents))
        return len(own) == len(expected) and own == sorted(expected, key=repr)


class AllRows(PerFile):
    """The rows that match."""

    def sql(self, table: str) -> str:
        return f"SELECT file, version, id, text, x FROM {table} WHERE {self.condition.sql}"

    def expected(self, rows: pa.Table) -> Rows:
        return rows_of(rows.select(["file", "version", "id", "text", "x"]))


class Grouped(PerFile):
    """Counts and sums by group."""

    def sql(self, table: str) -> str:
        return (
            f"SELECT file, version, grp, count(*) AS n, sum(id) AS s FROM {table}"
            f" WHERE {self.condition.sql} GROUP BY file, version, grp"
        )

    def grouped(self, rows: pa.Table) -> pa.Table:
        """Rows as the statement groups them."""
        grouped = rows.group_by(["file", "version", "grp"])
        found = grouped.aggregate([([], "count_all"), ("id", "sum")])
        return found.select(["file", "version", "grp", "count_all", "id_sum"])

    def expected(self, rows: pa.Table) -> Rows:
        return rows_of(self.grouped(rows))


class Counted(Question):
    """How many rows match, of all files together."""

    def sql(self, table: str) -> str:
        return f"SELECT count(*) AS n FROM {table} WHERE {self.condition.sql}"

    def judge(self, answer: pa.Table, candidates: Candidates, contents: Contents) -> str | None:
        count = answer.column(0)[0].as_py()
        sums = self.sums(candidates, contents)
        return None if sums is None or count in sums else f"{count} rows, not one of {sorted(sums)}"

    def sums(self, candidates: Candidates, contents: Contents) -> set[int] | None:
        """Every count there can be; None if there are too many."""
        return _sums(
            {self.matching(file, version, contents).num_rows for version in set(versions)}
            for file, versions in candidates.items()
        )


class SomeRows(Counted):
    """Any few rows that match."""

    def sql(self, table: str) -> str:
        return f"SELECT file, version, id FROM {table} WHERE {self.condition.sql} LIMIT {LIMIT}"

    def judge(self, answer: pa.Table, candidates: Candidates, contents: Contents) -> str | None:
        sums = self.sums(candidates, contents)
        counts = None if sums is None else {min(LIMIT, count) for count in sums}
        if counts is not None and answer.num_rows not in counts:
            return f"{answer.num_rows} rows, not one of {sorted(counts)}"
        met: dict[object, set[object]] = {}
        for file, version, row in rows_of(answer):
            met.setdefault(file, set()).add(version)
            if version not in candidates.get(int(str(file)), ()):
                return f"a row of file {file}, version {version}, which was not there"
            matching = self.matching(int(str(file)), int(str(version)), contents)
            if row not in matching["id"].to_pylist():
                return f"row {row} of file {file}, version {version}, does not match"
        mixed = {file: versions for file, versions in met.items() if len(versions) > 1}
        return f"rows of several versions: {mixed}" if mixed else None


class FirstRows(Question):
    """The first rows of an order; no two rows have one key."""

    def sql(self, table: str) -> str:
        return (
            f"SELECT file, version, id, key FROM {table} WHERE {self.condition.sql}"
            f" ORDER BY key DESC LIMIT {LIMIT}"
        )

    def judge(self, answer: pa.Table, candidates: Candidates, contents: Contents) -> str | None:
        rows = rows_of(answer)
        keys = [int(str(row[3])) for row in rows]
        if keys != sorted(keys, reverse=True) or len(set(keys)) < len(keys):
            return "not in the order asked for"
        last = keys[-1] if len(keys) == LIMIT else None
        found: dict[int, Rows] = {}
        for row in rows:
            found.setdefault(int(str(row[0])), []).append(row)
        if unknown := found.keys() - candidates.keys():
            return f"rows of files that were not there: {sorted(unknown)}"
        for file, versions in candidates.items():
            own = sorted(found.get(file, []), key=repr)
            if not any(
                own == self._first(file, version, last, contents) for version in set(versions)
            ):
                return f"file {file}: rows {own} are the first of none of {sorted(set(versions))}"
        return None

    def _first(self, file: int, version: int, last: int | None, contents: Contents) -> Rows:
        """The rows of a version that are as good as the last of the answer."""
        rows = self.matching(file, version, contents)
        if last is not None:
            rows = rows.filter(pc.field("key") >= last)
        return sorted(rows_of(rows.select(["file", "version", "id", "key"])), key=repr)


KINDS: tuple[type[Question], ...] = (AllRows, Grouped, Counted, SomeRows, FirstRows)


def any_question(rng: random.Random) -> Question:
    """A question of some kind."""
    return rng.choice(KINDS)(any_condition(rng))


def rows_of(table: pa.Table) -> Rows:
    """A table as rows."""
    columns = [column.to_pylist() for column in table.columns]
    return list(zip(*columns, strict=True))


def _sums(choices: Iterable[set[int]]) -> set[int] | None:
    sums = {0}
    for own in choices:
        sums = {total + count for total, count in itertools.product(sums, own)}
        if len(sums) > MOST_SUMS:
            return None
    return sums
