"""Random files with a sort key, and the checks that reverse scans and first rows are right.

In: a `random.Random`. Out: nothing, or an `AssertionError` that shows the case.

The oracle is DataFusion over the same rows in memory, in one batch. Rows are distinguished by `id`,
their position in the table.
"""

from __future__ import annotations

import decimal
import itertools
import math
import pathlib
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from datafusion import SessionConfig, SessionContext

import lm_datafusion as lm
from lm_datafusion.dataset.extent import Extent
from lm_datafusion.plan import FirstRows

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

CODECS = ["NONE", "SNAPPY", "GZIP", "ZSTD", "LZ4", "BROTLI"]
NEGATIVE_NAN = -math.nan
FLOATS = [math.nan, NEGATIVE_NAN, math.inf, -math.inf, 0.0, -0.0]


def _double(rng: random.Random) -> float:
    return rng.choice(FLOATS) if rng.random() < 0.2 else rng.uniform(-10, 10)


KEYS: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "int32": (pa.int32(), lambda rng: rng.randint(-50, 50)),
    "int64": (pa.int64(), lambda rng: rng.randint(-(2**63), 2**63 - 1)),
    "uint64": (pa.uint64(), lambda rng: rng.randint(0, 2**64 - 1)),
    "string": (pa.string(), lambda rng: "".join(rng.choices("aéz", k=rng.randint(0, 4)))),
    # Longer than what writers keep of a bound.
    "long string": (pa.string(), lambda rng: "x" * 70 + str(rng.randint(0, 30))),
    "binary": (pa.binary(), lambda rng: bytes(rng.choices(b"\x00a\xff", k=rng.randint(0, 3)))),
    "bool": (pa.bool_(), lambda rng: rng.random() < 0.5),
    "double": (pa.float64(), _double),
    "plain double": (pa.float64(), lambda rng: rng.uniform(-10, 10)),
    "float": (pa.float32(), _double),
    "timestamp": (pa.timestamp("us"), lambda rng: rng.randint(0, 10**6)),
    "decimal": (pa.decimal128(20, 2), lambda rng: decimal.Decimal(rng.randint(-(10**6), 10**6))),
}


@dataclass
class OrderCase:
    table: pa.Table
    files: list[pa.Table]
    write_options: dict[str, Any]
    scan_options: dict[str, Any]
    condition: str | None
    columns: list[str]
    descending: bool
    nulls_first: bool
    row_count: int

    def __str__(self) -> str:
        return (
            f"rows: {self.table.num_rows} in {len(self.files)} files, key {self.table['k'].type}\n"
            f"condition: {self.condition}, columns: {self.columns}\n"
            f"descending: {self.descending}, nulls first: {self.nulls_first}, n: {self.row_count}\n"
            f"write: {self.write_options}\nscan: {self.scan_options}"
        )


def draw_keys(rng: random.Random, kind: str, count: int) -> pa.Array:
    """Sorted, sorted the other way, nearly sorted, clustered or in no order; with nulls or not."""
    data_type, draw = KEYS[kind]
    domain = [draw(rng) for _ in range(rng.choice([1, 5, count or 1]))]
    values = [rng.choice(domain) for _ in range(count)]
    shape = rng.choice(["ascending", "descending", "nearly", "clustered", "random"])
    if shape != "random":
        values.sort(key=lambda v: (v != v, v), reverse=shape == "descending")  # noqa: PLR0124 NaN
    if shape == "nearly" and count > 1:
        for _ in range(3):
            one, other = rng.randrange(count), rng.randrange(count)
            values[one], values[other] = values[other], values[one]
    if shape == "clustered":
        size = max(1, count // 7)
        parts = [values[start : start + size] for start in range(0, count, size)]
        rng.shuffle(parts)
        values = [value for part in parts for value in part]
    nulls = rng.choice(["none", "none", "some", "some", "some", "start", "end", "all"])
    share = {"none": 0.0, "some": 0.3, "start": 0.0, "end": 0.0, "all": 1.0}[nulls]
    values = [None if rng.random() < share else value for value in values]
    if nulls in ("start", "end"):
        edge = count * 3 // 10
        empty = [None] * edge
        values = [*empty, *values[edge:]] if nulls == "start" else [*values[edge:], *empty]
    if pa.types.is_timestamp(data_type):
        return pa.array(values, pa.int64()).cast(data_type)
    return pa.array(values, data_type)


def draw_order_case(rng: random.Random) -> OrderCase:
    rows = rng.choice([0, 1, 30, 200, 200, 400, 400, 700])
    keys = draw_keys(rng, rng.choice(list(KEYS)), rows)
    table = pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "k": keys,
            "f": pa.array([rng.randrange(20) for _ in range(rows)], pa.int32()),
            "s": pa.array(
                [None if rng.random() < 0.3 else f"word {rng.randrange(9)}" for _ in range(rows)],
                pa.string(),
            ),
            "l": pa.array(
                [
                    None if rng.random() < 0.2 else list(range(rng.randrange(4)))
                    for _ in range(rows)
                ],
                pa.list_(pa.int32()),
            ),
        }
    )
    cuts = sorted(rng.randrange(rows + 1) for _ in range(rng.choice([0, 0, 1, 2])))
    edges = [0, *cuts, rows]
    files = [table.slice(a, b - a) for a, b in itertools.pairwise(edges)]
    page_rows = rng.choice([1, 7, 7, 20, 20, 50, 1000])
    return OrderCase(
        table=table,
        files=files,
        write_options={
            "compression": rng.choice(CODECS),
            "data_page_version": rng.choice(["1.0", "2.0"]),
            "row_group_size": rng.choice([max(1, rows), max(1, rows // 2), max(1, rows // 6)]),
            "max_rows_per_page": page_rows,
            "data_page_size": rng.choice([64, 1 << 20]),
            "write_batch_size": rng.choice([1, 7, 1024]),
            "use_dictionary": rng.choice([True, False]),
            "write_page_index": rng.random() < 0.7,
            "write_statistics": rng.random() < 0.9,
        },
        scan_options={
            "threads": rng.choice([1, 2, 3]),
            "window_bytes": rng.choice([64, 1 << 24]),
            "batch_rows": rng.choice([1, 17, 1 << 17]),
            "prune_statistics": rng.random() < 0.8,
            "prune_page_index": rng.random() < 0.8,
            "string_type": rng.choice(["string", "string_view"]),
        },
        condition=rng.choice(
            [
                None,
                None,
                None,
                "f = 3",
                "f < 10",
                "f = 99",
                "f >= 0",
                "s = 'word 1'",
                "f < 9 AND s LIKE '%3'",
            ]
        ),
        columns=rng.choice([["id"], ["id", "k"], ["id", "k", "f", "s", "l"], ["l", "s", "id"]]),
        descending=rng.random() < 0.5,
        nulls_first=rng.random() < 0.5,
        row_count=rng.choice([0, 1, 3, 20, 50, 50, page_rows, rows // 2, rows + 5]),
    )


def run_order_case(rng: random.Random) -> lm.ScanReport | None:
    """Draws a case and checks it; the report of its scan for first rows."""
    case = draw_order_case(rng)
    with tempfile.TemporaryDirectory(prefix="lm-orders-") as folder:
        paths = []
        for number, table in enumerate(case.files):
            paths.append(str(pathlib.Path(folder) / f"part-{number}.parquet"))
            pq.write_table(table, paths[-1], **case.write_options)
        dataset = lm.dataset(paths, options=lm.ScanOptions(**case.scan_options))
        try:
            check_reverse(case, dataset)
            return check_first_rows(case, dataset)
        except Exception as error:
            raise AssertionError(f"{error!r}\n{case}") from error


def matching(case: OrderCase) -> pa.Table:
    """The rows that match, in the order of the table."""
    session = SessionContext(SessionConfig().with_target_partitions(1))
    session.from_arrow(case.table.combine_chunks(), "t")
    where = f"WHERE {case.condition}" if case.condition else ""
    return session.sql(f"SELECT * FROM t {where} ORDER BY id").to_arrow_table()


def in_order(case: OrderCase, further: str = "") -> pa.Table:
    """The rows that match, in DataFusion's order."""
    session = SessionContext(SessionConfig().with_target_partitions(1))
    session.from_arrow(case.table.combine_chunks(), "t")
    order = "DESC" if case.descending else "ASC"
    nulls = "FIRST" if case.nulls_first else "LAST"
    where = f"WHERE {case.condition}" if case.condition else ""
    return session.sql(
        f"SELECT * FROM t {where} ORDER BY k {order} NULLS {nulls}, id {further}"
    ).to_arrow_table()


def values_of(table: pa.Table, columns: list[str]) -> list[str]:
    """Rows as text that is equal only for equal values, NaN and signed zeros included."""
    return [repr(list(row.values())) for row in table.select(columns).to_pylist()]


def key_text(key: Any) -> str:
    """Equal for keys that tie: a NaN ties with one of its sign only."""
    return f"{key!r} {math.copysign(1, key)}" if isinstance(key, float) else repr(key)


def check_reverse(case: OrderCase, dataset: lm.LateDataset) -> None:
    expected = values_of(matching(case), case.columns)
    n = case.row_count
    wanted = {"columns": case.columns, "filter": case.condition}
    assert values_of(dataset.to_table(**wanted), case.columns) == expected
    backwards = values_of(dataset.to_table(**wanted, reverse=True), case.columns)
    assert backwards == expected[::-1], "reverse"
    table = dataset.to_table(**wanted, reverse=True, limit=n)
    assert values_of(table, case.columns) == expected[::-1][:n], "reverse, limit"
    assert dataset.scan_reports()[-1].rows_selected == table.num_rows
    assert values_of(dataset.to_table(**wanted, limit=n), case.columns) == expected[:n], "limit"
    assert values_of(dataset.head(n, **wanted), case.columns) == expected[:n], "head"
    assert dataset.count_rows(case.condition, reverse=True, limit=n) == min(n, len(expected))
    some = dataset.with_extent(Extent(limit=n, is_any_order=True)).to_table(**wanted)
    found = values_of(some, case.columns)
    assert len(found) == min(n, len(expected)), "any order"
    if "id" in case.columns:
        assert len(set(found)) == len(found)
        assert set(found) <= set(expected)


def check_first_rows(case: OrderCase, dataset: lm.LateDataset) -> lm.ScanReport:
    n = case.row_count
    ordered = in_order(case)
    keys = [key_text(key) for key in ordered["k"].to_pylist()]
    stop = n
    while 0 < stop < len(keys) and keys[stop] == keys[stop - 1]:
        stop += 1
    wanted = sorted(ordered["id"].to_pylist()[:stop])
    first = FirstRows(
        column="k", descending=case.descending, nulls_first=case.nulls_first, row_count=n
    )
    some = dataset.with_extent(Extent(first=first))
    table = some.to_table(columns=case.columns, filter=case.condition)
    everything = values_of(case.table, case.columns)
    assert values_of(table, case.columns) == [everything[i] for i in wanted], "first rows"
    report = dataset_report(some)
    assert report.rows_selected == len(wanted)
    assert some.count_rows(case.condition) == len(wanted), "count of first rows"
    direction = "descending" if case.descending else "ascending"
    for further in ("ASC", "DESC"):
        expected = values_of(in_order(case, further), case.columns)[:n]
        second = "ascending" if further == "ASC" else "descending"
        table = dataset.to_table(
            columns=case.columns,
            filter=case.condition,
            order_by=[("k", direction), ("id", second)],
            null_placement="at_start" if case.nulls_first else "at_end",
            limit=n,
        )
        assert values_of(table, case.columns) == expected, "order_by"
    return report


def dataset_report(dataset: lm.LateDataset) -> lm.ScanReport:
    return dataset.scan_reports()[-1]
