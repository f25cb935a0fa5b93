"""The same records in plain DataFusion sessions and in ours.

In: records, and a function that makes a folder for a session to run in. Out: a `Result`.

Two plain sessions are the judges: one has the tables as the records make them, the other has them
as Parquet files (`tests.suites.replicas`), as ours have. A query of ours that scans a Parquet table
runs three times: for the first time, made ready, and ready; one that scans none runs once, as
nothing of ours remembers it. It is right if it gives what one of the judges gives. Where the judge
over Parquet files gives this now and that then, only the schema and the number of rows are
compared.
"""

from __future__ import annotations

import collections
import contextlib
import os
import pathlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import datafusion

import lm_datafusion as lm
from tests.eager import EAGER, eager
from tests.suites.outcomes import Outcome, outcome_of
from tests.suites.replicas import Replicas

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.suites.records import Record

MEMORY, PARQUET = "memory", "parquet"
# `eager` is `auto` that takes no table for small.
PATHS = ("auto", "eager", "late")
# One judge has to show that an answer is always the same, no more.
RUNS = {MEMORY: 1, PARQUET: 2}
OUR_RUNS = 3
_ORDERED = re.compile(r"\bORDER\s+BY\b", re.IGNORECASE)
_KEY = re.compile(r"\bORDER\s+BY\s+(?:\w+\.)?(?P<name>\"[^\"]*\"|\S*?)(?=[\s,;]|$)", re.IGNORECASE)
_INNERMOST = re.compile(r"\([^()]*\)")
_ANY_ROWS = re.compile(r"\b(?:LIMIT|FETCH|TABLESAMPLE)\b", re.IGNORECASE)
# What these give depends on the order in which rows come.
_BY_ORDER = re.compile(
    r"\b(?:array_agg|string_agg|first_value|last_value|any_value|nth_value|row_number|ntile|lag|lead"
    r"|approx_\w+|collect_\w+|DISTINCT\s+ON)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Difference:
    """A query that gave something else than plain DataFusion.

    Attributes:
        record: The query.
        path: On which path.
        run: In which run, from 0 on.
        kind: `rows`, `order`, `schema` or `error`; with `?` if rows may come in any order.
        wanted: What plain DataFusion gave over the same files.
        found: What ours gave.
        history: What made the session's state.
    """

    record: Record
    path: str
    run: int
    kind: str
    wanted: Outcome
    found: Outcome
    history: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Result:
    """What a comparison found.

    Attributes:
        counts: Numbers by name.
        differences: In the order of the records.
    """

    counts: collections.Counter[str] = field(default_factory=collections.Counter)
    differences: list[Difference] = field(default_factory=list)


@dataclass(slots=True)
class _Side:
    """What a session gave: per record its outcomes, the state before it, and the paths it took."""

    outcomes: list[list[Outcome]] = field(default_factory=list)
    states: list[int] = field(default_factory=list)
    paths: list[frozenset[str]] = field(default_factory=list)
    history: list[tuple[str, str]] = field(default_factory=list)


def compare(
    records: Sequence[Record],
    folder_of: Callable[[str], pathlib.Path],
    paths: Sequence[str],
    prepare: Callable[[datafusion.SessionContext], datafusion.SessionContext] = lambda s: s,
    note: Callable[[str], None] = lambda _: None,
) -> Result:
    """Runs records on every side and compares.

    Args:
        records: What runs.
        folder_of: The folder that a side runs in, by its name.
        paths: Paths of ours.
        prepare: Adds to a new session what the records expect to be there.
        note: Is called with what runs next.
    """
    files: dict[bytes, bytes] = {}
    sides = {
        name: _run(records, name, folder_of(name), prepare, note, files)
        for name in (MEMORY, PARQUET, *paths)
    }
    result = Result()
    for index, record in enumerate(records):
        _count(result.counts, record, index, sides, paths)
        if not record.is_query and not record.is_explain:
            continue
        judges = [sides[name].outcomes[index] for name in (PARQUET, MEMORY)]
        for path in paths:
            side = sides[path]
            found = _difference(record, judges, side.outcomes[index])
            if found is not None:
                run, kind = found
                outcomes = side.outcomes[index]
                state = tuple(side.history[: side.states[index]])
                result.differences.append(
                    Difference(record, path, run, kind, judges[0][-1], outcomes[run], state)
                )
    return result


def _run(
    records: Sequence[Record],
    name: str,
    folder: pathlib.Path,
    prepare: Callable[[datafusion.SessionContext], datafusion.SessionContext],
    note: Callable[[str], None],
    files: dict[bytes, bytes],
) -> _Side:
    side = _Side()
    with contextlib.chdir(folder), _eager(name):
        session = prepare(new_session(name))
        texts = [record.text for record in records]
        replicas = Replicas(session, pathlib.Path(folder), texts, files)
        for record in records:
            note(f"{name} {record.file}:{record.line}")
            side.states.append(len(replicas.history))
            if name != MEMORY:
                replicas.before(record.text)
            runs = RUNS.get(name, OUR_RUNS) if record.is_query else 1
            outcomes, seen = [], set()
            for _ in range(runs):
                outcomes.append(
                    outcome_of(
                        lambda text=record.text: session.sql(text).to_arrow_table(), str(folder)
                    )
                )
                if isinstance(session, lm.SessionContext) and record.is_query:
                    seen |= {report.path for report in session.scan_reports()}
                    if not seen:
                        break
            side.outcomes.append(outcomes)
            side.paths.append(frozenset(seen))
            is_done = not record.is_query and not record.is_explain and not outcomes[0].error
            if is_done and name != MEMORY:
                replicas.after(record.text)
        side.history = replicas.history
    return side


def new_session(name: str) -> datafusion.SessionContext:
    """A session of a side."""
    config = datafusion.SessionConfig().with_target_partitions(4)
    if name in (MEMORY, PARQUET):
        return datafusion.SessionContext(config)
    path = "auto" if name == "eager" else name
    return lm.SessionContext(config, options=lm.ScanOptions(path=path))


def _eager(name: str) -> contextlib.AbstractContextManager[None]:
    """Lets `auto` take no table for small, while a block lasts."""
    return eager() if name == "eager" else contextlib.nullcontext()


def _count(
    counts: collections.Counter[str],
    record: Record,
    index: int,
    sides: dict[str, _Side],
    paths: Sequence[str],
) -> None:
    plain = sides[PARQUET].outcomes[index]
    kind = "queries" if record.is_query else "explains" if record.is_explain else "statements"
    counts[kind] += 1
    if plain[0].error:
        counts[f"{kind} that fail in DataFusion"] += 1
    if record.is_query:
        if not plain[0].is_same(sides[MEMORY].outcomes[index][0]):
            counts["queries that differ between memory and Parquet in DataFusion"] += 1
        for path in paths:
            for served in sides[path].paths[index]:
                counts[f"queries on {path} read by {served}"] += 1


def _difference(
    record: Record, judges: list[list[Outcome]], outcomes: list[Outcome]
) -> tuple[int, str] | None:
    """The first run that is not what a judge gave, and what is wrong with it."""
    wanted = [outcome for judge in judges for outcome in judge]
    for run, found in enumerate(outcomes):
        if record.is_explain:
            if bool(found.error) != bool(judges[0][0].error):
                return run, "error"
            continue
        key = _order_of(record.text)
        is_judged = judges[0][0].rows == judges[1][0].rows
        if any(found.is_same(other, key if is_judged else None) for other in wanted):
            continue
        kind = _kind(found, judges[0][0], wanted)
        is_open = len({other.bag for other in judges[0]}) > 1 or (
            _ANY_ROWS.search(record.text) and not _ORDERED.search(record.text)
        )
        if kind == "rows" and is_open and len(found.rows) == len(judges[0][0].rows):
            continue
        return run, kind + ("?" if kind == "rows" and _BY_ORDER.search(record.text) else "")
    return None


def _order_of(text: str) -> str | None:
    """The order of the rows of a query: an ORDER BY outside of all parentheses."""
    before = ""
    while text != before:
        before, text = text, _INNERMOST.sub(" ", text)
    found = _KEY.search(text)
    return None if found is None else found["name"].strip('"')


def _kind(found: Outcome, plain: Outcome, wanted: list[Outcome]) -> str:
    if found.error or plain.error:
        return "error"
    if all(found.schema != other.schema for other in wanted):
        return "schema"
    return "order" if any(found.is_same(other) for other in wanted) else "rows"


def reproduction(difference: Difference, folder: pathlib.Path, home: pathlib.Path) -> str:
    """A script that shows a difference by itself.

    Args:
        difference: What it shows.
        folder: Where the Parquet files go that it needs.
        home: Where relative paths of its statements start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    steps = []
    for kind, text in difference.history:
        if kind == "sql":
            steps.append(("sql", text))
            continue
        name, _, path = text.partition("=")
        kept = folder / os.path.basename(path)
        kept.write_bytes(pathlib.Path(path).read_bytes())
        steps.append(("parquet", name, str(kept)))
    record, path = difference.record, difference.path
    options = "auto" if path == "eager" else path
    lines = "\n".join(f"    {step!r}," for step in steps)
    return _SCRIPT.format(
        where=f"{record.file}:{record.line}",
        kind=difference.kind,
        path=options,
        run=difference.run + 1,
        steps=lines,
        query=record.text,
        eager=EAGER if path == "eager" else {},
        home=str(home),
    )


_SCRIPT = '''"""{where}: {kind} on the path {path}, run {run}."""
import importlib
import os

import datafusion
import lm_datafusion as lm

STEPS = [
{steps}
]
QUERY = r"""
{query}
"""
os.chdir({home!r})
for module, constants in {eager!r}.items():
    for name, value in constants.items():
        setattr(importlib.import_module(module), name, value)
config = datafusion.SessionConfig().with_target_partitions(4)
plain = datafusion.SessionContext(config)
ours = lm.SessionContext(config, options=lm.ScanOptions(path={path!r}))
for session in (plain, ours):
    for kind, *step in STEPS:
        if kind == "sql":
            session.sql(step[0]).collect()
        else:
            session.deregister_table(step[0])
            session.register_parquet(*step)
for session in (plain, ours, ours, ours):
    try:
        print(session.sql(QUERY).to_arrow_table())
    except Exception as error:
        print(type(error), error)
'''
