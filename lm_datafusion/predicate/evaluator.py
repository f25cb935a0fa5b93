"""Evaluates predicates with DataFusion; its only user below the engine.

In: SQL text over named columns, and record batches of those columns. Out: boolean arrays, folded
expressions, constants.

Why DataFusion: a predicate then means exactly what it means in the query (NaN, NULL, casts,
collation), runs at native speed and releases the GIL. `read_batch` is used because, unlike
`from_arrow`, it leaves nothing registered in the context.

DataFusion cannot be called from one of its own threads (a dataset fragment's `to_batches`): that
would start a runtime inside a runtime. So `evaluate` calls it on a separate thread, unless the
current thread is known to be ours (`may_call_here`).

Invariant: a row with a null answer does not pass.
"""

from __future__ import annotations

import functools
import re
import threading
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa

from lm_datafusion.errors import ColumnNotFoundError, LateError, SqlError
from lm_datafusion.predicate.kinds import without_unions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from datafusion import DataFrame, Expr, SessionContext

Answer = TypeVar("Answer")

# Longer texts contain lists of values; their parsed form is not cached.
KEPT_TEXT: Final = 2000
_NO_FIELD = re.compile(r"No field named (?:\?table\?\.)?\"?(?P<name>[^\s\"]+)\"?\.")


class EvaluationError(LateError, ValueError):
    """A predicate failed on the data, such as a cast of a string that is not a number."""


@functools.cache
def _context() -> SessionContext:
    """One context for the process; one partition, because scan threads provide the parallelism.

    Folding must see each predicate whole, so common subexpressions are not extracted.
    """
    from datafusion import SessionConfig, SessionContext

    config = SessionConfig().with_target_partitions(1).with_batch_size(1 << 20)
    context = SessionContext(config)
    context.remove_optimizer_rule("common_sub_expression_eliminate")
    return context


def fold(texts: Sequence[str], schema: pa.Schema) -> list[Expr]:
    """Binds conditions to a schema and lets DataFusion's optimizer coerce and fold them.

    Args:
        texts: SQL conditions.
        schema: The columns they may name.

    Returns:
        One folded expression per condition.

    Raises:
        SqlError: DataFusion rejects a condition, or it is not a condition.
        ColumnNotFoundError: The schema does not have a column.
    """
    if not texts:
        return []
    try:
        frame = _context().read_batch(_empty_batch(schema))
        expressions = [frame.parse_sql_expr(text) for text in texts]
        selected = frame.select(*(e.alias(f"p{i}") for i, e in enumerate(expressions)))
        _check_boolean(selected, texts)
        _check_scalar(expressions, texts)
        plan = selected.optimized_logical_plan().to_variant()
    except SqlError:
        raise
    except Exception as error:
        raise _translated(error, schema) from error
    return [_unaliased(expression) for expression in plan.projections()]


def parsed_conjuncts(text: str, schema: pa.Schema) -> list[str]:
    """The conjuncts of a condition as DataFusion parses and prints it.

    Two texts with equal lists mean the same to DataFusion.
    """
    try:
        frame = _context().read_batch(_empty_batch(schema))
        expression = frame.parse_sql_expr(text)
    except Exception as error:
        raise _translated(error, schema) from error
    return [part.canonical_name() for part in _split_conjunction(expression)]


def evaluate(text: str, batch: pa.RecordBatch) -> pa.BooleanArray:
    """Evaluates a condition on a batch: one boolean per row, null as in SQL.

    Raises:
        EvaluationError: The condition fails on a value of the batch.
    """
    try:
        results = _called(lambda: _evaluated(text, batch))
    except Exception as error:
        raise EvaluationError(f"{text}: {_message(error)}") from error
    arrays = [as_boolean(result.column(0)) for result in results]
    answer = arrays[0] if len(arrays) == 1 else pa.concat_arrays([pa.nulls(0, pa.bool_()), *arrays])
    if len(answer) != batch.num_rows:
        raise EvaluationError(f"{text}: {len(answer)} results for {batch.num_rows} rows")
    return answer


def _evaluated(text: str, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    return _context().read_batch(batch).select(_parsed(text, batch.schema)).collect()


class _Thread(threading.local):
    """Whether the current thread is known not to be DataFusion's."""

    is_ours = False


_THREAD: Final = _Thread()


def may_call_here() -> None:
    """Marks the current thread as ours, so that DataFusion can be called on it."""
    _THREAD.is_ours = True


def _called(call: Callable[[], Answer]) -> Answer:
    return call() if _THREAD.is_ours else call_aside(call)


def call_aside(call: Callable[[], Answer]) -> Answer:
    """Calls on a separate thread and waits."""
    results: list[Answer] = []
    errors: list[BaseException] = []

    def work() -> None:
        may_call_here()
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001 raised again by the caller
            errors.append(error)

    thread = threading.Thread(target=work, name="lm-evaluate", daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _parsed(text: str, schema: pa.Schema) -> Expr:
    """A condition as an expression; cached, unless it is long: lists of values would pile up."""
    return (_parse_again if len(text) <= KEPT_TEXT else _parse)(text, schema)


def _parse(text: str, schema: pa.Schema) -> Expr:
    return _context().read_batch(_empty_batch(schema)).parse_sql_expr(text).alias("p")


# The same condition is evaluated on every row group.
_parse_again = functools.lru_cache(maxsize=256)(_parse)


def constants(texts: Sequence[str]) -> list[pa.Scalar]:
    """Current values of expressions without columns, all computed at the same time."""
    wanted = ", ".join(f"{text} AS value{index}" for index, text in enumerate(texts))
    try:
        rows = _context().sql(f"SELECT {wanted}").collect()
    except Exception as error:
        raise SqlError(_message(error)) from error
    return [column[0] for column in rows[0].columns]


def constant(text: str) -> pa.Scalar:
    """The value of one expression without columns."""
    return constants([text])[0]


def as_boolean(array: pa.Array) -> pa.BooleanArray:
    """The array as booleans: a condition that is NULL for every row has the null type."""
    return array.cast(pa.bool_()) if pa.types.is_null(array.type) else array


def _empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    # Without metadata, which may be bytes: DataFusion accepts text only.
    bare = pa.schema([pa.field(f.name, f.type, f.nullable) for f in without_unions(schema)])
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in bare], schema=bare)


def _check_boolean(selected: DataFrame, texts: Sequence[str]) -> None:
    for field, text in zip(selected.schema(), texts, strict=True):
        if not (pa.types.is_boolean(field.type) or pa.types.is_null(field.type)):
            raise SqlError(f"{text} is a value of type {field.type}, not a condition")


def _check_scalar(expressions: Sequence[Expr], texts: Sequence[str]) -> None:
    for expression, text in zip(expressions, texts, strict=True):
        if _has_aggregate(expression):
            raise SqlError(f"a filter cannot hold an aggregate or window function: {text}")


def _has_aggregate(expression: Expr) -> bool:
    # An explicit stack: hundreds of ORs nest deeper than Python's recursion limit.
    waiting = [expression]
    while waiting:
        expression = waiting.pop()
        kind = expression.variant_name()
        if kind in {"AggregateFunction", "WindowFunction"}:
            return True
        if kind in {"Column", "Literal"}:
            continue
        try:
            waiting += expression.rex_call_operands()
        except Exception:  # noqa: BLE001, S112 kinds that Python cannot inspect
            continue
    return False


def _unaliased(expression: Expr) -> Expr:
    while expression.variant_name() == "Alias":
        expression = expression.rex_call_operands()[0]
    return expression


def _split_conjunction(expression: Expr) -> list[Expr]:
    return operands_of("AND", expression)


def operands_of(operator: str, expression: Expr) -> list[Expr]:
    """The operands of a chain of one binary operator, from left to right, of any length."""
    found, waiting = [], [expression]
    while waiting:
        expression = waiting.pop()
        if expression.variant_name() == "BinaryExpr" and expression.rex_call_operator() == operator:
            left, right = expression.rex_call_operands()
            waiting += [right, left]
        else:
            found.append(expression)
    return found


def _translated(error: Exception, schema: pa.Schema) -> LateError:
    missing = _NO_FIELD.search(str(error))
    if missing is not None:
        return ColumnNotFoundError(missing["name"].rsplit(".", 1)[-1], without_unions(schema).names)
    return SqlError(_message(error))


def _message(error: Exception) -> str:
    """DataFusion's message without its prefixes."""
    text = str(error).removeprefix("DataFusion error: ")
    return text.split("\ncaused by\n")[-1].strip()
