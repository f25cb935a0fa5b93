"""Random ORC files and selections against PyArrow: the whole file read, then rows taken.

    python -m tests.property.orc_cases --cases 5000
    python -m tests.property.orc_cases --seed 123 --cases 1     # replays one case

Case i of a run has the seed `--seed` + i. A case writes a table of random types with a random
codec, stride and encoding, reads random stripes, columns and rows of it, and checks that the rows
a condition selects are among those that statistics leave. Then `lm.dataset`, and now and then a
session, answer random conditions, limits and orders as DataFusion does over the rows in memory.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
import traceback
from typing import TYPE_CHECKING

import datafusion
import numpy as np
import pyarrow as pa
from pyarrow import orc

import lm_datafusion as lm
from lm_datafusion.formats.orc import column, read
from lm_datafusion.predicate.conjunct import bind_conjuncts
from lm_datafusion.selection.filters import filter_to_mask
from lm_datafusion.sql import parse_condition
from tests.dataset_files import same_values
from tests.orc_files import CODECS, makers, write

if TYPE_CHECKING:
    from collections.abc import Callable

CONDITIONS = {
    "boolean": ("{c}", "NOT {c}", "{c} IS NULL"),
    "byte": ("{c} = {v}", "{c} > {v}", "{c} IS NULL"),
    "short": ("{c} < {v}", "{c} <> {v}"),
    "integer": ("{c} BETWEEN {v} AND {v} + 10", "{c} IN ({v}, 7, 8)", "{c} <= {v}"),
    "long": ("{c} = {v}", "{c} >= {v}", "{c} IS NOT NULL"),
    "float": ("{c} > 0.5", "{c} = 0.0", "{c} < 0.1", "{c} IN (-0.0, 0.5)"),
    "double": ("{c} > 3", "{c} = {v}", "{c} BETWEEN -1 AND 1"),
    "string": ("{c} = {v}", "{c} LIKE 'a%'", "{c} > {v}", "{c} IN ({v}, 'b')", "{c} IS NULL"),
    "date": ("{c} > {v}", "{c} = {v}"),
    "timestamp": ("{c} > {v}", "{c} = {v}", "{c} < {v}"),
    "instant": ("{c} >= {v}", "{c} = {v}"),
    "long_decimal": ("{c} > 0", "{c} IS NULL"),
    "decimal": ("{c} < 0",),
    "struct": ("{c}['a'] = 3", "{c}['a'] IS NULL"),
}

SORTED = {"byte", "short", "integer", "long", "double", "string", "date", "timestamp", "decimal"}


def run_case(chance: random.Random, folder: str) -> dict[str, int]:
    """Checks one file; returns what was met."""
    table = random_table(chance)
    path = os.path.join(folder, "case.orc")
    options = {
        "compression": chance.choice(CODECS),
        "row_index_stride": chance.choice((8, 97, 100, 333, 1000, 1024, 10_000)),
        "dictionary_key_size_threshold": chance.choice((0, 1)),
        "stripe_size": chance.choice((1024, 300_000, 64 << 20)),
        "batch_size": chance.choice((64, 100, 1024)),
        "file_version": chance.choice(("0.12", "0.12", "0.11")),
        "bloom_filter_columns": [i for i in range(1, 9) if chance.random() < 0.3],
    }
    write(path, table, **options)
    file = orc.ORCFile(path)
    reader = lm.orc_reader(path, options=lm.ScanOptions(batch_rows=chance.choice((100, 131_072))))
    assert reader.schema.equals(file.schema, check_metadata=True)
    read.WINDOW_ROWS = column.WINDOW_ROWS = chance.choice((100, 1000, 1 << 19))
    stripes = [file.read_stripe(index) for index in range(file.nstripes)]
    whole = pa.Table.from_batches(stripes, file.schema)
    # PyArrow's writer sometimes stores values of null structs, and nobody can tell where a row
    # group of such a column begins.
    if not all(
        is_stored(table[name], whole[name])
        for name in {"list", "map", "struct"} & {*table.column_names}
    ):
        return {"rows": 0, "stripes": 0, "pruned_rows": 0, "broken": 1}
    same_values(reader.to_table(), whole)
    for _ in range(3):
        check_selection(chance, reader, stripes)
    pruned = check_pruning(chance, reader, whole)
    check_dataset(chance, path, whole)
    return {"rows": whole.num_rows, "stripes": len(stripes), "pruned_rows": pruned}


def is_stored(source: pa.ChunkedArray, found: pa.ChunkedArray) -> bool:
    """Whether PyArrow reads what it wrote."""
    return bool(source.equals(found)) or repr(source.to_pylist()) == repr(found.to_pylist())


def random_table(chance: random.Random) -> pa.Table:
    """A table of one to six columns, in blocks of rows of different kinds."""
    length = chance.choice((0, 1, 7, 300, 1000, 4000))
    kinds = chance.sample(sorted(makers(chance)), chance.randint(1, 6))
    columns = {}
    for kind in kinds:
        if kind == "union":
            columns[kind] = makers(chance)[kind](length)
            continue
        cut = chance.randint(0, length)
        parts = [makers(chance)[kind](cut), makers(chance)[kind](length - cut)]
        columns[kind] = pa.concat_arrays(parts)
    return pa.table(columns)


def check_selection(
    chance: random.Random, reader: lm.OrcReader, stripes: list[pa.RecordBatch]
) -> None:
    """Random stripes, columns and rows, against rows taken from whole stripes."""
    chosen = chance.sample(range(len(stripes)), chance.randint(0, len(stripes)))
    names = reader.file_schema.names
    columns = chance.sample(names, chance.randint(0, len(names)))
    rows = sum(stripes[index].num_rows for index in chosen)
    selection = random_selection(chance, rows)
    narrowed = reader.with_stripes(chosen).with_row_selection(selection).with_columns(columns)
    schema = narrowed.schema
    batches = [stripes[index].select(columns) for index in chosen]
    expected = pa.Table.from_batches(batches, schema) if columns else None
    found = narrowed.to_table()
    indices = selection.to_indices()
    assert found.num_rows == len(indices)
    if expected is not None:
        same_values(found, expected.combine_chunks().take(pa.array(indices)))
    size = os.path.getsize(reader.version.path)
    for offset, length in narrowed.scan_ranges():
        assert offset >= 0
        assert offset + length <= size


def random_selection(chance: random.Random, rows: int) -> lm.RowSelection:
    """All rows, scattered rows, a few runs, or a selection that ends early."""
    kind = chance.randrange(4)
    if kind == 0:
        return lm.RowSelection.all(rows)
    if kind == 1:
        share = chance.choice((0.001, 0.1, 0.9))
        bits = np.random.default_rng(chance.randrange(1 << 30)).random(rows) < share
        return lm.RowSelection.from_mask(bits)
    borders = sorted(chance.randint(0, rows) for _ in range(2 * chance.randint(1, 3)))
    selection = lm.RowSelection.from_consecutive_ranges(
        list(zip(borders[::2], borders[1::2], strict=True)), rows
    )
    return selection.trim() if kind == 2 else selection


def check_pruning(chance: random.Random, reader: lm.OrcReader, whole: pa.Table) -> int:
    """The rows that meet a condition are among those left; returns how many rows were pruned."""
    # DataFusion has no unions.
    names = [name for name in whole.column_names if name in CONDITIONS]
    if not names or not whole.num_rows:
        return 0
    pruned = 0
    for _ in range(2):
        name = chance.choice(names)
        value = whole[name][chance.randrange(whole.num_rows)].as_py()
        text = chance.choice(CONDITIONS[name]).format(c=f'"{name}"', v=literal(name, value))
        narrow = whole.select([name]).combine_chunks()
        conjuncts = bind_conjuncts(parse_condition(text, narrow.schema), narrow.schema)
        meets = np.ones(whole.num_rows, bool)
        for conjunct in conjuncts:
            (batch,) = narrow.to_batches()
            meets &= filter_to_mask(conjunct.evaluate(batch))
        left = reader.row_selection_from_row_index(text)
        assert left.total_rows == whole.num_rows
        lost = meets & ~left.to_mask()
        assert not lost.any(), f"{text}: rows {np.flatnonzero(lost)[:5]} are lost"
        stripes = reader.stripes_from_statistics(text)
        kept = [np.full(n, i in stripes) for i, n in enumerate(reader.stripe_rows)]
        assert not (meets & ~np.concatenate(kept)).any(), f"{text}: a stripe is lost"
        pruned += left.skipped_row_count
    return pruned


def check_dataset(chance: random.Random, path: str, whole: pa.Table) -> None:
    """Scans of a dataset, and a query, against DataFusion over the same rows in memory."""
    known = [name for name in whole.column_names if not pa.types.is_union(whole[name].type)]
    if not known or not whole.num_rows:
        return
    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
    numbered = whole.select(known).append_column("row_number", pa.array(range(whole.num_rows)))
    context.register_record_batches("t", [numbered.combine_chunks().to_batches()])
    dataset = lm.dataset(path, options=random_options(chance))
    text = random_condition(chance, whole)
    where = "" if text is None else f"WHERE {text}"

    def rows(rest: str) -> pa.Array:
        found = context.sql(f"SELECT row_number FROM t {where} {rest}").to_arrow_table()
        return found["row_number"].combine_chunks().cast(pa.int64())

    columns = chance.sample(whole.column_names, chance.randint(1, len(whole.column_names)))
    in_order, chosen = rows("ORDER BY row_number"), whole.select(columns)
    given = {"columns": columns, "filter": text}
    same_values(dataset.to_table(**given), chosen.take(in_order))
    way = chance.randrange(5)
    if way == 0:
        same_values(dataset.to_table(**given, reverse=True), chosen.take(in_order[::-1]))
    elif way == 1:
        count = chance.choice((0, 1, 5, 100))
        same_values(dataset.to_table(**given, limit=count), chosen.take(in_order[:count]))
    elif way == 2:
        check_first_rows(chance, dataset, whole, rows, given)
    elif way == 3:
        assert dataset.count_rows(filter=text) == len(in_order)
        same_values(dataset.to_table(**given), chosen.take(in_order))
    elif known == whole.column_names and not compares_null(where):
        session = lm.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
        session.register_orc("t", path, options=lm.ScanOptions(threads=1))
        names = ", ".join(f'"{name}"' for name in columns)
        found = session.sql(f"SELECT {names} FROM t {where}").to_arrow_table()
        same_values(found, chosen.take(in_order))


def compares_null(where: str) -> bool:
    """Whether a condition compares with NULL: DataFusion 55 cannot hand that to any dataset.

    It makes a PyArrow scalar of NULL, and a scalar of PyArrow's has no OR.
    """
    return "NULL" in where.replace("IS NULL", "").replace("IS NOT NULL", "")


def check_first_rows(
    chance: random.Random,
    dataset: lm.LateDataset,
    whole: pa.Table,
    rows: Callable[[str], pa.Array],
    given: dict[str, object],
) -> None:
    """The first rows of a random order; rows that tie are in the order of the table."""
    keys = [name for name in whole.column_names if name in SORTED]
    if not keys:
        return
    key, count = chance.choice(keys), chance.choice((1, 10, 200))
    direction, words = chance.choice((("ascending", "ASC"), ("descending", "DESC")))
    nulls = chance.choice(("at_start", "at_end"))
    rest = f'"{key}" {words} NULLS {"FIRST" if nulls == "at_start" else "LAST"}, row_number'
    expected = rows(f"ORDER BY {rest} LIMIT {count}")
    found = dataset.to_table(
        **given, order_by=[(key, direction)], null_placement=nulls, limit=count
    )
    same_values(found, whole.select(given["columns"]).take(expected))


def random_options(chance: random.Random) -> lm.ScanOptions:
    """Small windows and batches, and any of the ways to prune switched off."""
    switches = ("prune_statistics", "prune_page_index", "prune_bloom_filter", "reorder_filters")
    return lm.ScanOptions(
        threads=chance.choice((1, 2, 3)),
        batch_rows=chance.choice((7, 100, 131_072)),
        window_bytes=chance.choice((100, 5_000, 1 << 25)),
        condition_cache_bytes=chance.choice((0, 1 << 20)),
        **{name: chance.random() < 0.8 for name in switches},
    )


def random_condition(chance: random.Random, whole: pa.Table) -> str | None:
    """One or two conditions on random columns; None for all rows."""
    names = [name for name in whole.column_names if name in CONDITIONS]
    if not names or chance.random() < 0.1:
        return None
    parts = []
    for _ in range(chance.choice((1, 1, 2))):
        name = chance.choice(names)
        value = whole[name][chance.randrange(whole.num_rows)].as_py()
        parts.append(chance.choice(CONDITIONS[name]).format(c=f'"{name}"', v=literal(name, value)))
    return chance.choice((" AND ", " OR ")).join(f"({part})" for part in parts)


def literal(name: str, value: object) -> str:
    """A value of a column as SQL."""
    if value is None or name in {"boolean", "struct"}:
        return "NULL" if name != "double" else "1.5"
    if name == "string":
        return f"'{value}'"
    if name in {"date", "timestamp", "instant"}:
        kind = {"date": "DATE", "timestamp": "TIMESTAMP", "instant": "TIMESTAMPTZ"}[name]
        return f"{kind} '{getattr(value, 'isoformat', lambda: value)()}'"
    if name == "double":
        return str(value) if value not in (float("inf"), float("-inf")) else "1e308"
    return str(value)


def run_seed(seed: int) -> tuple[str | None, dict[str, int]]:
    """The failure of a case, or None; and what was met."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return None, run_case(random.Random(seed), folder)
        except BaseException:  # noqa: BLE001 reported with its seed
            return traceback.format_exc(), {}


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Random ORC files against PyArrow, and DataFusion in memory."
    )
    parser.add_argument("--cases", type=int, default=2000, help="how many cases to run")
    parser.add_argument("--seed", type=int, help="seed of the first case (default: random)")
    parser.add_argument("--stop-after", type=int, default=5, help="failures to show, then stop")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 31) if arguments.seed is None else arguments.seed
    print(f"seed {seed}, {arguments.cases} cases", flush=True)  # noqa: T201
    failures, started, seen = (
        0,
        time.monotonic(),
        {"rows": 0, "stripes": 0, "pruned_rows": 0, "broken": 0},
    )
    for done in range(arguments.cases):
        failure, counts = run_seed(seed + done)
        seen = {name: seen[name] + counts.get(name, 0) for name in seen}
        if failure:
            failures += 1
            print(f"seed {seed + done}:\n{failure}", flush=True)  # noqa: T201
            if failures >= arguments.stop_after:
                break
    print(f"{failures} failures in {time.monotonic() - started:.0f} s; {seen}")  # noqa: T201
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
