"""Random Parquet files and predicates, and the check that a scan gives DataFusion's rows.

In: a `random.Random` (Hypothesis drives one, the long-running mode seeds one). Out: nothing, or an
`AssertionError` that shows the case.

The oracle is DataFusion over the same rows in memory, one partition, so that order counts too.
Predicates written as PyArrow expressions are checked against PyArrow over memory.

DataFusion 55 contradicts itself now and then: its optimizer folds `a = 48 AND a IN (48, ...)` to
false when the value is spelled in two ways, and `a NOT IN (1) AND a IN (1, 1, 1, NULL)` to true.
So where its answer to the whole condition is not ours, its answers to the conjuncts one by one
count, put together here.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import pathlib
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from datafusion import SessionConfig, SessionContext

import lm_datafusion as lm
from lm_datafusion.predicate.literals import literal_sql, quote_identifier, quote_string
from lm_datafusion.selection.values import without_views
from tests.parquet_files import every_dictionary, unpacked_encodings

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

CODECS = ["NONE", "SNAPPY", "GZIP", "BROTLI", "ZSTD", "LZ4"]
WORDS = ["", "a", "b", "ab", "abc", "abd", "zebra", "Ab", "a%b", "a_b", "ü", "日本", "x" * 40, "~"]


@dataclass
class Column:
    name: str
    data_type: pa.DataType
    values: list[Any]
    domain: list[Any]


@dataclass
class Case:
    table: pa.Table
    columns: list[Column]
    write_options: dict[str, Any]
    scan_options: dict[str, Any]
    condition: str
    projection: list[str]
    expression: pc.Expression | None = None
    engine: str = "scan"
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"condition: {self.condition}\nexpression: {self.expression}\n"
            f"projection: {self.projection}\nengine: {self.engine}\n"
            f"write: {self.write_options}\nscan: {self.scan_options}\n"
            f"schema: {self.table.schema}\nrows: {self.table.num_rows}"
        )


# --- data ---------------------------------------------------------------------------------------


def _decimal(unscaled: int, scale: int) -> decimal.Decimal:
    return decimal.Decimal(unscaled).scaleb(-scale)


def _integers(low: int, high: int) -> Callable[[random.Random], int]:
    def draw(rng: random.Random) -> int:
        kind = rng.random()
        if kind < 0.1:
            return rng.choice([low, high])
        if kind < 0.6:
            return max(low, min(high, rng.randint(-20, 20)))
        return rng.randint(low, high)

    return draw


def _floats(rng: random.Random) -> float:
    special = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5]
    return rng.choice(special) if rng.random() < 0.4 else rng.uniform(-10, 10)


def _text(rng: random.Random) -> str:
    if rng.random() < 0.5:
        return rng.choice(WORDS)
    return "".join(rng.choice("ab%_xyz") for _ in range(rng.randint(0, 6)))


# Decimals of 30 digits keep to 22 before the point: DataFusion compares them with plain literals as
# DECIMAL(38, 15), and whether one that overflows is an error depends on what it short-circuits.
TYPES: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "i8": (pa.int8(), _integers(-128, 127)),
    "i16": (pa.int16(), _integers(-(2**15), 2**15 - 1)),
    "i32": (pa.int32(), _integers(-(2**31), 2**31 - 1)),
    "i64": (pa.int64(), _integers(-(2**63), 2**63 - 1)),
    "u8": (pa.uint8(), _integers(0, 255)),
    "u32": (pa.uint32(), _integers(0, 2**32 - 1)),
    "u64": (pa.uint64(), _integers(0, 2**64 - 1)),
    "f16": (pa.float16(), _floats),
    "f32": (pa.float32(), _floats),
    "f64": (pa.float64(), _floats),
    "bool": (pa.bool_(), lambda r: r.random() < 0.5),
    "str": (pa.string(), _text),
    "lstr": (pa.large_string(), _text),
    "bin": (pa.binary(), lambda r: _text(r).encode()),
    "dict": (pa.dictionary(pa.int32(), pa.string()), _text),
    "date": (pa.date32(), _integers(-1000, 20000)),
    "ts_ms": (pa.timestamp("ms"), _integers(-(10**12), 10**12)),
    "ts_us": (pa.timestamp("us"), _integers(-(10**15), 10**15)),
    "ts_ns": (pa.timestamp("ns"), _integers(-(10**18), 10**18)),
    "ts_tz": (pa.timestamp("us", "UTC"), _integers(-(10**15), 10**15)),
    "t32": (pa.time32("ms"), _integers(0, 86_399_999)),
    "t64": (pa.time64("us"), _integers(0, 86_399_999_999)),
    "dec9": (pa.decimal128(9, 2), lambda r: _decimal(_integers(-(10**9) + 1, 10**9 - 1)(r), 2)),
    "dec18": (pa.decimal128(18, 3), lambda r: _decimal(_integers(-(10**17), 10**17)(r), 3)),
    "dec30": (pa.decimal128(30, 5), lambda r: _decimal(_integers(-(10**27), 10**27)(r), 5)),
    "fsb": (pa.binary(3), lambda r: bytes(r.choice(b"abz") for _ in range(3))),
    "struct": (
        pa.struct([("x", pa.int64()), ("y", pa.string())]),
        lambda r: {"x": _integers(-50, 50)(r), "y": None if r.random() < 0.2 else _text(r)},
    ),
    "list": (
        pa.list_(pa.int32()),
        lambda r: [None if r.random() < 0.1 else r.randint(0, 9) for _ in range(r.randint(0, 4))],
    ),
    "map": (
        pa.map_(pa.string(), pa.int32()),
        lambda r: [
            (w, r.randint(0, 9)) for w in sorted({_text(r) for _ in range(r.randint(0, 2))})
        ],
    ),
}
NESTED = {"list", "map"}


def draw_column(rng: random.Random, name: str, kind: str, num_rows: int) -> Column:
    data_type, draw = TYPES[kind]
    domain = [draw(rng) for _ in range(rng.choice([1, 3, 8, 40]))]
    wide = rng.random() < 0.4
    values = [draw(rng) if wide else rng.choice(domain) for _ in range(num_rows)]
    if rng.random() < 0.5 and kind not in {"struct", "list", "map", "f16", "f32", "f64"}:
        values.sort()
    null_share = rng.choice([0.0, 0.0, 0.1, 0.5, 1.0])
    values = [None if rng.random() < null_share else value for value in values]
    if num_rows and rng.random() < 0.15:
        start = rng.randrange(num_rows)
        for row in range(start, min(num_rows, start + 30)):
            values[row] = None
    return Column(name, data_type, values, domain + values[:10])


def draw_table(rng: random.Random) -> tuple[pa.Table, list[Column]]:
    num_rows = rng.choice([0, 1, 2, 10, 60, 200, 200, 400])
    kinds = rng.choices(list(TYPES), k=rng.randint(1, 6))
    if not any(kind not in NESTED for kind in kinds):
        kinds.append("i64")
    names = [f"c{i}_{kind}" for i, kind in enumerate(kinds)]
    if rng.random() < 0.1:
        names[0] = rng.choice(["A b", 'q"uo', "select", "dot.ted", "Ü"])
    columns = [draw_column(rng, n, k, num_rows) for n, k in zip(names, kinds, strict=True)]
    fields, arrays = [], []
    for column in columns:
        arrays.append(_array(column.values, column.data_type))
        can_be_required = None not in column.values and rng.random() < 0.5
        fields.append(pa.field(column.name, column.data_type, nullable=not can_be_required))
    return pa.table(arrays, schema=pa.schema(fields)), columns


def _array(values: list[Any], data_type: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(data_type):
        return pa.array(values, data_type.value_type).dictionary_encode().cast(data_type)
    if pa.types.is_temporal(data_type):
        storage = pa.int32() if data_type.bit_width == 32 else pa.int64()
        return pa.array(values, storage).cast(data_type)
    return pa.array(values, data_type)


def scalar(value: Any, data_type: pa.DataType) -> pa.Scalar:
    return _array([value], data_type)[0]


def draw_write_options(rng: random.Random, table: pa.Table) -> dict[str, Any]:
    rows = max(1, table.num_rows)
    options: dict[str, Any] = {
        "compression": rng.choice(CODECS),
        "data_page_version": rng.choice(["1.0", "2.0"]),
        "row_group_size": max(1, rows // rng.choice([1, 2, 5, 12, 30])),
        "max_rows_per_page": rng.choice([1, 5, 20, 50, 1000]),
        "data_page_size": rng.choice([32, 200, 1 << 20]),
        "write_batch_size": rng.choice([1, 7, 1024]),
        "use_dictionary": rng.choice([True, True, False]),
        "dictionary_pagesize_limit": rng.choice([1, 64, 1 << 20]),
        "write_page_index": rng.random() < 0.6,
        "write_statistics": rng.random() < 0.85,
        "store_schema": rng.random() < 0.8,
        "version": "2.6",
    }
    if not options["use_dictionary"] and rng.random() < 0.6:
        kinds = {f.name: f.type for f in table.schema if not _has_no_choice(f.type)}
        options["column_encoding"] = {
            name: rng.choice(["PLAIN", *unpacked_encodings(kind)]) for name, kind in kinds.items()
        }
    blooms = [
        f.name
        for f in table.schema
        if rng.random() < 0.3 and not pa.types.is_nested(f.type) and not pa.types.is_boolean(f.type)
    ]
    if blooms:
        options["bloom_filter_options"] = {name: {"ndv": 100, "fpp": 0.1} for name in blooms}
    return options


def _has_no_choice(data_type: pa.DataType) -> bool:
    """Whether no encoding is chosen for a type."""
    types = pa.types
    return bool(
        types.is_nested(data_type) or types.is_decimal(data_type) or types.is_dictionary(data_type)
    )


def draw_scan_options(rng: random.Random) -> dict[str, Any]:
    return {
        "threads": rng.choice([1, 2]),
        "window_bytes": rng.choice([64, 1000, 1 << 24, 1 << 24]),
        "batch_rows": rng.choice([1, 17, 1 << 17]),
        "prune_statistics": rng.random() < 0.8,
        "prune_bloom_filter": rng.random() < 0.8,
        "prune_dictionary": rng.random() < 0.8,
        "prune_page_index": rng.random() < 0.8,
        "reorder_filters": rng.random() < 0.8,
        "string_type": rng.choice(["string", "string", "string_view"]),
    }


# --- predicates ---------------------------------------------------------------------------------


def draw_literal(rng: random.Random, column: Column) -> pa.Scalar:
    data_type = column.data_type
    if pa.types.is_dictionary(data_type):
        data_type = data_type.value_type
    present = [v for v in column.domain if v is not None]
    value = rng.choice(present) if present else None
    if isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.3:
        moved = value + rng.choice([-1, 1])
        try:
            return scalar(moved, data_type)
        except (pa.ArrowInvalid, OverflowError):
            return scalar(value, data_type)
    return scalar(value, data_type)


def literal_text(rng: random.Random, value: pa.Scalar) -> str:
    """Sometimes typed exactly, sometimes as a user would write it."""
    if not value.is_valid or rng.random() < 0.5:
        return literal_sql(value)
    python = value.as_py()
    if isinstance(python, bool):
        return str(python).upper()
    if isinstance(python, int | decimal.Decimal):
        return f"({python})"
    if isinstance(python, float) and math.isfinite(python):
        return f"({python!r})"
    if isinstance(python, str):
        return quote_string(python)
    if isinstance(python, dt.date) and not isinstance(python, dt.datetime):
        return f"'{python.isoformat()}'" if python.year >= 1 else literal_sql(value)
    return literal_sql(value)


def draw_atom(rng: random.Random, columns: list[Column]) -> str:
    column = rng.choice(
        [
            c
            for c in columns
            if not pa.types.is_list(c.data_type) and not pa.types.is_map(c.data_type)
        ]
    )
    name = quote_identifier(column.name)
    if pa.types.is_struct(column.data_type):
        return draw_struct_atom(rng, column, name)
    if pa.types.is_fixed_size_binary(column.data_type) and not pa.types.is_decimal(
        column.data_type
    ):
        return rng.choice([f"{name} IS NULL", f"{name} IS NOT NULL"])
    literals = [literal_text(rng, draw_literal(rng, column)) for _ in range(rng.randint(1, 7))]
    one = literals[0]
    choices = [
        f"{name} {rng.choice(['=', '<', '<=', '>', '>=', '<>', '!='])} {one}",
        f"{one} {rng.choice(['=', '<', '>='])} {name}",
        f"{name} IN ({', '.join(literals)})",
        f"{name} NOT IN ({', '.join(literals)})",
        f"{name} IN ({', '.join([*literals, 'NULL'])})",
        f"{name} BETWEEN {one} AND {literals[-1]}",
        f"{name} NOT BETWEEN {one} AND {literals[-1]}",
        f"{name} IS {rng.choice(['', 'NOT '])}NULL",
        f"{name} IS {rng.choice(['', 'NOT '])}DISTINCT FROM {rng.choice([one, 'NULL'])}",
        f"coalesce({name} = {one}, FALSE)",
        f"CASE WHEN {name} > {one} THEN TRUE WHEN {name} IS NULL THEN NULL ELSE FALSE END",
    ]
    is_text = (
        pa.types.is_dictionary(column.data_type)
        or pa.types.is_string(column.data_type)
        or (pa.types.is_large_string(column.data_type))
    )
    if is_text:
        pattern = rng.choice(WORDS) + rng.choice(["%", "%%", "_%", "%b", "", "%b%"])
        choices += [
            f"{name} {rng.choice(['LIKE', 'NOT LIKE', 'ILIKE'])} {quote_string(pattern)}",
            f"starts_with({name}, {one})",
            f"length({name}) > {rng.randint(0, 5)}",
            f"upper({name}) = upper({one})",
            f"{name} ~ '^a'",
        ] * 2
    if pa.types.is_boolean(column.data_type):
        choices += [name, f"NOT {name}", f"{name} IS TRUE", f"{name} IS NOT FALSE"] * 3
    if pa.types.is_signed_integer(column.data_type) and column.data_type.bit_width < 64:
        choices += [
            f"{name} % 3 = 1",
            f"CAST({name} AS DOUBLE) > 1.5",
            f"{name} + 1 > {rng.randint(-5, 5)}",
            f"{name} > 2.5",
            f"CAST({name} AS VARCHAR) LIKE '1%'",
        ]
    if pa.types.is_timestamp(column.data_type) and column.data_type.tz is None:
        choices += [f"date_part('year', {name}) = 1970", f"{name} < TIMESTAMP '1970-01-01'"]
    return rng.choice(choices)


def draw_struct_atom(rng: random.Random, column: Column, name: str) -> str:
    present = [v["x"] for v in column.domain if v is not None]
    number = rng.choice(present) if present else 0
    return rng.choice(
        [
            f"{name}['x'] {rng.choice(['=', '<', '>'])} {number}",
            f"{name}['y'] = 'a'",
            f"{name}['y'] IS NULL",
            f"{name} IS NOT NULL",
        ]
    )


def draw_condition(rng: random.Random, columns: list[Column], depth: int = 2) -> str:
    if depth == 0 or rng.random() < 0.4:
        if rng.random() < 0.04:
            return rng.choice(["TRUE", "FALSE", "NULL", "1 = 1"])
        return draw_atom(rng, columns)
    children = [draw_condition(rng, columns, depth - 1) for _ in range(rng.randint(2, 3))]
    kind = rng.random()
    if kind < 0.15:
        return f"NOT ({children[0]})"
    if kind < 0.25:
        return f"(({children[0]}) IS {rng.choice(['', 'NOT '])}{rng.choice(['TRUE', 'FALSE'])})"
    return "(" + rng.choice([" AND ", " AND ", " OR "]).join(children) + ")"


COMPARE = [
    lambda a, b: a == b,
    lambda a, b: a != b,
    lambda a, b: a < b,
    lambda a, b: a <= b,
    lambda a, b: a > b,
    lambda a, b: a >= b,
]


def draw_expression(rng: random.Random, columns: list[Column], depth: int = 2) -> pc.Expression:
    usable = [c for c in columns if not pa.types.is_nested(c.data_type)]
    if not usable:
        return pc.field(columns[0].name).is_valid()
    if depth and rng.random() < 0.6:
        left = draw_expression(rng, columns, depth - 1)
        right = draw_expression(rng, columns, depth - 1)
        return rng.choice(
            [lambda: left & right, lambda: left & right, lambda: left | right, lambda: ~left]
        )()
    column = rng.choice(usable)
    name = pc.field(column.name)
    value_type = column.data_type
    if pa.types.is_dictionary(value_type):
        value_type = value_type.value_type
    if value_type == pa.float16():
        return name.is_null()
    literals = [draw_literal(rng, column) for _ in range(rng.randint(1, 5))]
    values = (
        pa.array([v.as_py() for v in literals], value_type)
        if not pa.types.is_temporal(value_type)
        else pa.array(literals)
    )
    atoms = [
        lambda: rng.choice(COMPARE)(name, literals[0]),
        lambda: name.isin(values),
        lambda: ~name.isin(values),
        name.is_null,
        name.is_valid,
    ]
    if pa.types.is_boolean(value_type):
        atoms.append(lambda: name)
    if pa.types.is_floating(value_type):
        atoms.append(name.is_nan)
    return rng.choice(atoms)()


def draw_case(rng: random.Random) -> Case:
    table, columns = draw_table(rng)
    names = list(table.schema.names)
    projection = rng.sample(names, rng.randint(0, len(names)))
    parts = [draw_condition(rng, columns) for _ in range(rng.randint(1, 3))]
    case = Case(
        table=table,
        columns=columns,
        write_options=draw_write_options(rng, table),
        scan_options=draw_scan_options(rng),
        condition=" AND ".join(f"({part})" for part in parts),
        projection=projection,
    )
    kind = rng.random()
    if kind < 0.15:
        case.engine = "expression"
        case.expression = draw_expression(rng, columns)
    elif kind < 0.3:
        case.engine = "datafusion"
    return case


# --- the check ----------------------------------------------------------------------------------


def run_case(rng: random.Random) -> lm.ScanReport | None:
    """Draws a case, scans it, and compares with the oracle.

    Returns:
        The report of the last scan; None if the oracle rejected the case.
    """
    return check_case(draw_case(rng))


# DataFusion cannot say TRUE AND x, or NULL AND TRUE, as a PyArrow expression, to any dataset.
UNSAYABLE = ("unsupported operand type(s)", "Scalar.__and__", "Scalar.__or__")


def check_case(case: Case) -> lm.ScanReport | None:
    with tempfile.TemporaryDirectory(prefix="lm-fuzz-") as folder, every_dictionary():
        path = str(pathlib.Path(folder) / "case.parquet")
        pq.write_table(case.table, path, **case.write_options)
        memory = pq.ParquetFile(path).read()
        try:
            expected = _expected(case, memory)
        except Exception as error:  # noqa: BLE001 whatever the oracle rejects, we may reject
            _may_fail(case, path, error)
            return None
        try:
            actual, report = _actual(case, path)
        except Exception as error:
            if case.engine == "datafusion" and any(words in str(error) for words in UNSAYABLE):
                return None
            if case.expression is None and _fails_alone(case, memory):
                return None
            raise AssertionError(f"the scan failed: {error!r}\n{case}") from error
        try:
            _compare(expected, actual, case)
        except AssertionError:
            if case.expression is not None:
                raise
            if case.engine == "datafusion" and _loses_a_list(case, path, memory):
                return None
            _compare(_expected_by_conjunct(case, memory), actual, case)
        return report


def _session() -> SessionContext:
    return SessionContext(SessionConfig().with_target_partitions(1))


def _loses_a_list(case: Case, path: str, memory: pa.Table) -> bool:
    """Whether DataFusion drops a list as soon as what stood between two of them is pushed down.

    DataFusion 55 makes `x IN (7)` of `x NOT IN (1, NULL) AND x IN (7)`, over any table.
    """
    ours, plain = _session(), _session()
    ours.register_dataset("t", lm.dataset(path))
    plain.from_arrow(memory, "t")
    plans = [c.sql(f"SELECT * FROM t WHERE {case.condition}") for c in (ours, plain)]
    texts = [plan.optimized_logical_plan().display_indent() for plan in plans]
    return texts[0].count(" NOT IN (") < texts[1].count(" NOT IN (")


def _fails_alone(case: Case, memory: pa.Table) -> bool:
    """Whether DataFusion itself fails on a conjunct that it need not evaluate in the whole.

    A decimal that overflows beside a conjunct that folds to false: whether the error comes to
    light depends on what the optimizer sees together.
    """
    try:
        _expected_by_conjunct(case, memory)
    except Exception:  # noqa: BLE001 any failure is an answer here
        return True
    return False


def _expected_by_conjunct(case: Case, memory: pa.Table) -> pa.Table:
    """DataFusion's answer to each conjunct, put together without its optimizer."""
    frame = _session().from_arrow(memory.combine_chunks())
    waiting = [frame.parse_sql_expr(case.condition)]
    mask = pa.array([True] * memory.num_rows, pa.bool_())
    while waiting:
        expression = waiting.pop()
        is_and = expression.variant_name() == "BinaryExpr" and (
            expression.rex_call_operator() == "AND"
        )
        if is_and:
            waiting += expression.rex_call_operands()
            continue
        answers = frame.select(expression.alias("p")).to_arrow_table().column("p")
        mask = pc.and_(mask, pc.fill_null(answers.cast(pa.bool_()).combine_chunks(), False))
    # PyArrow cannot filter views.
    plain_columns = [without_views(column) for column in memory.columns]
    kept = pa.table(plain_columns, names=memory.column_names).filter(mask)
    return kept.select(case.projection) if case.projection else pa.table({"n": pa.nulls(len(kept))})


def _expected(case: Case, memory: pa.Table) -> pa.Table:
    if case.expression is not None:
        return memory.filter(case.expression).select(case.projection)
    context = _session()
    frame = context.from_arrow(memory.combine_chunks())
    kept = frame.filter(frame.parse_sql_expr(case.condition))
    if not case.projection:
        return pa.table({"n": pa.nulls(kept.count())})
    wanted = [quote_identifier(name) for name in case.projection]
    return kept.select(*(frame.parse_sql_expr(name) for name in wanted)).to_arrow_table()


def _actual(case: Case, path: str) -> tuple[pa.Table, lm.ScanReport | None]:
    dataset = lm.dataset(path, options=lm.ScanOptions(**case.scan_options))
    if case.engine == "datafusion":
        return _through_datafusion(case, dataset), None
    wanted = case.condition if case.expression is None else case.expression
    table = dataset.to_table(columns=case.projection, filter=wanted)
    report = dataset.scan_reports()[-1]
    assert report.rows_selected == table.num_rows
    assert dataset.count_rows(wanted) == table.num_rows
    return table, report


def _through_datafusion(case: Case, dataset: lm.LateDataset) -> pa.Table:
    context = _session()
    context.register_dataset("t", dataset.with_options(threads=1))
    names = ", ".join(quote_identifier(name) for name in case.projection)
    if not case.projection:
        rows = context.sql(f"SELECT count(*) AS n FROM t WHERE {case.condition}").to_pydict()
        return pa.table({"n": pa.nulls(rows["n"][0])})
    return context.sql(f"SELECT {names} FROM t WHERE {case.condition}").to_arrow_table()


def _may_fail(case: Case, path: str, error: Exception) -> None:
    try:
        dataset = lm.dataset(path, options=lm.ScanOptions(**case.scan_options))
        wanted = case.condition if case.expression is None else case.expression
        dataset.to_table(columns=case.projection, filter=wanted)
    except (lm.LateError, pa.ArrowException, NotImplementedError, TypeError):
        return
    except Exception as other:
        raise AssertionError(f"the oracle raised {error!r}, the scan {other!r}\n{case}") from other


def _compare(expected: pa.Table, actual: pa.Table, case: Case) -> None:
    problem = f"{expected.num_rows} rows expected, {actual.num_rows} scanned\n{case}"
    assert expected.num_rows == actual.num_rows, problem
    for name in case.projection:
        left, right = plain(expected.column(name)), plain(actual.column(name))
        assert left == right, f"column {name} differs: {left[:20]} against {right[:20]}\n{case}"


def plain(column: pa.ChunkedArray) -> list[Any]:
    """Values that compare equal only if they are the same, NaN and signed zero included."""
    if pa.types.is_floating(column.type):
        return [None if v is None else repr(v) for v in column.to_pylist()]
    if pa.types.is_temporal(column.type):
        width = column.type.bit_width
        return column.cast(pa.int32() if width == 32 else pa.int64()).to_pylist()
    return column.to_pylist()
