"""The same steps in a plain DataFusion session and in one of ours.

In: steps, functions of a session and a folder of its own. Out: what came of them, to be compared:
a frame's schema and rows, a value, or an error's type and text.
"""

from __future__ import annotations

import contextlib
import pathlib
import random
import re
import tempfile

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq

import lm_datafusion as lm

PATHS = ("auto", "native", "late")
# Of functions whose names are as near, DataFusion names one or another.
_GUESS = re.compile(r"(?<=Invalid function ).*Did you mean '.*'", re.DOTALL)
_QUERY_ID = re.compile(r"view_[0-9a-f_]{36}|[0-9a-f]{32}")


def make_table(seed, rows):
    """Five columns with NULLs in each but `grp`; one name needs quotes."""
    rng = random.Random(seed)

    def maybe(value):
        return None if rng.random() < 0.15 else value

    return pa.table(
        {
            "id": pa.array([maybe(rng.randrange(40)) for _ in range(rows)], pa.int64()),
            "grp": pa.array([rng.randrange(5) for _ in range(rows)], pa.int32()),
            "name": [maybe(rng.choice(["ann", "bob", "eve", "Zoe", ""])) for _ in range(rows)],
            "x": [maybe(round(rng.uniform(-9, 9), 2)) for _ in range(rows)],
            "Day": pa.array([maybe(rng.randrange(40)) for _ in range(rows)], pa.date32()),
        }
    )


def write_table(table, path, rows=60):
    """A file of several row groups with a page index."""
    pq.write_table(table, path, row_group_size=rows, max_rows_per_page=20, write_page_index=True)


def write_tables(folder):
    """a, b and c, of 300, 120 and 40 rows."""
    for name, rows in [("a", 300), ("b", 120), ("c", 40)]:
        write_table(make_table(name, rows), folder / f"{name}.parquet")


@contextlib.contextmanager
def two_sessions(path):
    """Pairs of a session and its folder: plain DataFusion first, then ours; a, b, c, m in both."""
    with contextlib.ExitStack() as stack:
        pairs = []
        for ours in (False, True):
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
            write_tables(folder)
            pairs.append((new_session(path if ours else None, folder), folder))
        yield pairs


def new_session(path, folder, config=None):
    """A session of ours on a path, or DataFusion's for None."""
    config = config or datafusion.SessionConfig()
    config = config.with_target_partitions(2).with_information_schema(True)
    if path is None:
        session = datafusion.SessionContext(config)
    else:
        session = lm.SessionContext(config, options=lm.ScanOptions(path=path))
    for name in "abc":
        session.register_parquet(name, str(folder / f"{name}.parquet"))
    session.from_pydict({"id": [7, 8, None], "tag": ["p", "q", "r"]}, name="m")
    return session


def assert_same(path, *steps):
    """Every step, one after the other, gives the same in both sessions."""
    with two_sessions(path) as (plain, ours):
        for index, step in enumerate(steps):
            expected, found = outcome(step, *plain), outcome(step, *ours)
            if path == "native_pushdown" and is_of_the_reader(found):
                # DataFusion's own message for a filter that fails in its reader.
                found, expected = found[0], expected[0]
            assert found == expected, f"step {index}: {step}"


def is_of_the_reader(found):
    """Whether an outcome is an error that DataFusion's reader of Parquet words in its own way."""
    return isinstance(found, tuple) and "Parquet error: External: " in found[1][0]


def outcome(step, session, folder):
    """What comes of one step: SQL text (`{folder}` is the folder) or a function."""
    try:
        if isinstance(step, str):
            return shown(session.sql(step.replace("{folder}", str(folder))))
        return shown(step(session, folder))
    except Exception as error:  # noqa: BLE001 compared
        return type(error), _without_places(str(error), folder)


def shown(value):
    """Something that can be compared: rows in any order, floats without their last digits."""
    if isinstance(value, datafusion.DataFrame):
        table = value.to_arrow_table()
        return [*_fields(value.schema()), *_fields(table.schema), *rows_of(table)]
    if isinstance(value, pa.Table):
        return [*_fields(value.schema), *rows_of(value)]
    if isinstance(value, pa.RecordBatch):
        return shown(pa.table(value))
    if isinstance(value, list | tuple):
        return [shown(part) for part in value]
    return value


def rows_of(table):
    """The rows of a table in any order."""
    return sorted(
        repr(tuple(round(v, 9) if isinstance(v, float) else v for v in row))
        for row in zip(*(column.to_pylist() for column in table.columns), strict=True)
    )


def _fields(schema):
    return [(f.name, str(f.type), f.nullable, f.metadata) for f in schema]


def _without_places(text, folder):
    for written in (str(folder), str(folder).lstrip("/")):
        text = text.replace(written, "{folder}")
    text, _, depend = text.partition("because other tables depend on it: ")
    text = _GUESS.sub("", text)
    return _QUERY_ID.sub("{id}", text), sorted(depend.split(", "))
