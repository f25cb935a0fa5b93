"""Conjuncts: the parts of a condition that must all hold; each is one filter step.

In: conjuncts as split by the rooms above. Out: `BoundConjunct`s, with tree and evaluator.

A conjunct has the semantics of one of two engines: DataFusion's for SQL text and for filters that
DataFusion pushes into a dataset, PyArrow's for a PyArrow expression from a user, DuckDB or Polars.
They differ on NaN and on NULL in lists, so each engine evaluates its own.

Invariant: a `Conjunct` is frozen and picklable; a bound conjunct follows from it and the schema
alone.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lm_datafusion.errors import ColumnNotFoundError, LateError, OptionError, SqlError
from lm_datafusion.predicate import evaluator
from lm_datafusion.predicate.fold import Translator
from lm_datafusion.predicate.kernel import find_answer
from lm_datafusion.predicate.kinds import without_unions
from lm_datafusion.predicate.tree import Predicate, Residual
from lm_datafusion.predicate.volatility import may_change

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow.compute as pc


@dataclass(frozen=True, slots=True, kw_only=True)
class Conjunct:
    """One condition that every row of the result meets.

    Attributes:
        text: The condition as SQL in DataFusion's dialect (for display, and for evaluation
            unless `expression` is set). Empty if SQL cannot express it.
        columns: Top-level columns it needs, in no particular order.
        is_volatile: Its result may differ each time; never cached, never evaluated twice.
        is_momentary: It contains a value read from the clock, which will not recur.
        expression: A PyArrow expression; if set, PyArrow evaluates it.
        can_prune: Whether `text` may be used for pruning. False if PyArrow and DataFusion could
            differ on what the text means.
    """

    text: str
    columns: tuple[str, ...]
    is_volatile: bool = False
    is_momentary: bool = False
    expression: pc.Expression | None = None
    can_prune: bool = True

    def __str__(self) -> str:
        return self.text or str(self.expression)

    def is_same(self, other: Conjunct) -> bool:
        """Whether two conjuncts are known to be equal; PyArrow expressions cannot be compared."""
        if self.expression is not None or other.expression is not None:
            return self is other
        return self == other


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundConjunct:
    """A conjunct bound to a schema: `tree` for pruning, `evaluate` for filtering.

    `can_fail` means that a value could make the evaluation fail, so it must not move before a
    conjunct written earlier.
    """

    conjunct: Conjunct
    tree: Predicate
    can_fail: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """Top-level columns the conjunct needs."""
        return self.conjunct.columns

    def __str__(self) -> str:
        return str(self.conjunct)

    def evaluate(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """One boolean per row of a batch with the conjunct's columns; null does not pass."""
        expression = self.conjunct.expression
        if expression is None:
            return evaluator.evaluate(self.conjunct.text, batch)
        return _evaluate_expression(expression, batch)

    def answer(self, values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray | None:
        """What `evaluate` would return for values of the only column; None if it must be called."""
        is_answerable = len(self.columns) == 1 and self.conjunct.expression is None
        return find_answer(self.tree, values) if is_answerable else None


def bind_conjuncts(conjuncts: Sequence[Conjunct], schema: pa.Schema) -> tuple[BoundConjunct, ...]:
    """Binds conjuncts to the schema of the dataset.

    Raises:
        ColumnNotFoundError: A conjunct names a column that does not exist.
        SqlError: DataFusion rejects a conjunct over this schema.
    """
    needed = {name for conjunct in conjuncts for name in conjunct.columns}
    missing = needed.difference(schema.names)
    if missing:
        raise ColumnNotFoundError(min(missing), schema.names)
    narrow = pa.schema([schema.field(name) for name in sorted(needed)])
    try:
        if all(map(_is_repeatable, conjuncts)):
            return _bind_again(tuple(conjuncts), narrow)
        return _bind(conjuncts, narrow)
    except SqlError:
        whole = _as_one(conjuncts)
        if whole is None:
            raise
        # DataFusion may fold a whole condition where it cannot fold a part alone: a literal that
        # overflows, next to a part that is false anyway.
        return _bind([whole], narrow)


def check_expressions(conjuncts: Iterable[BoundConjunct], schema: pa.Schema) -> None:
    """Checks PyArrow expressions before they are evaluated.

    Not part of binding: DataFusion binds what it will push down only to learn the schema, and
    PyArrow need not be able to evaluate that.

    Raises:
        OptionError: PyArrow does not accept an expression as a condition over this schema.
    """
    for conjunct in conjuncts:
        if conjunct.conjunct.expression is not None:
            _check_expression(conjunct.conjunct.expression, schema)


def _check_expression(expression: pc.Expression, schema: pa.Schema) -> None:
    plain = pa.schema(
        [pa.field(field.name, _without_view(field.type)) for field in without_unions(schema)]
    )
    from pyarrow import dataset as ds

    source = ds.InMemoryDataset(plain.empty_table())
    try:
        found = source.scanner(columns={"p": expression}).projected_schema.field(0).type
    except pa.ArrowException as error:
        raise OptionError(f"the filter {expression} cannot be evaluated: {error}") from error
    if not (pa.types.is_boolean(found) or pa.types.is_null(found)):
        raise OptionError(f"the filter {expression} is a value of type {found}, not a condition")


def _as_one(conjuncts: Sequence[Conjunct]) -> Conjunct | None:
    """All conjuncts as a single one, if DataFusion evaluates all of them."""
    if len(conjuncts) < 2 or any(c.expression is not None for c in conjuncts):  # noqa: PLR2004 two
        return None
    return Conjunct(
        text=" AND ".join(f"({conjunct.text})" for conjunct in conjuncts),
        columns=tuple(dict.fromkeys(name for c in conjuncts for name in c.columns)),
        is_volatile=any(conjunct.is_volatile for conjunct in conjuncts),
        is_momentary=any(conjunct.is_momentary for conjunct in conjuncts),
    )


def _is_repeatable(conjunct: Conjunct) -> bool:
    """Whether binding a conjunct is deterministic and the result small enough to cache."""
    return (
        conjunct.expression is None
        and not conjunct.is_volatile
        and len(conjunct.text) <= evaluator.KEPT_TEXT
        and not may_change(conjunct.text)
    )


# An engine plans a scan several times, and DataFusion takes 0.2 ms to bind.
@functools.lru_cache(maxsize=256)
def _bind_again(conjuncts: tuple[Conjunct, ...], narrow: pa.Schema) -> tuple[BoundConjunct, ...]:
    return _bind(conjuncts, narrow)


def _bind(conjuncts: Sequence[Conjunct], narrow: pa.Schema) -> tuple[BoundConjunct, ...]:
    sayable = [c for c in conjuncts if c.expression is None or (c.text and c.can_prune)]
    trees = dict(zip(map(id, sayable), _fold_all(sayable, narrow), strict=True))
    return tuple(
        BoundConjunct(conjunct=conjunct, tree=tree, can_fail=can_fail)
        for conjunct in conjuncts
        for tree, can_fail in [trees.get(id(conjunct), (Residual(), True))]
    )


def _fold_all(conjuncts: Sequence[Conjunct], schema: pa.Schema) -> list[tuple[Predicate, bool]]:
    try:
        expressions = evaluator.fold([conjunct.text for conjunct in conjuncts], schema)
    except LateError:
        # DataFusion must accept what it evaluates; PyArrow may evaluate more.
        if any(conjunct.expression is None for conjunct in conjuncts):
            raise
        return [(Residual(), True)] * len(conjuncts)
    trees = []
    for expression in expressions:
        translator = Translator(schema)
        tree = translator.translate(expression)
        trees.append((tree, translator.can_fail))
    return trees


def _evaluate_expression(expression: pc.Expression, batch: pa.RecordBatch) -> pa.BooleanArray:
    from pyarrow import dataset as ds

    # PyArrow has no kernels for views.
    arrays = [column.cast(_without_view(column.type)) for column in batch.columns]
    table = pa.Table.from_arrays(arrays, names=batch.schema.names)
    scanner = ds.InMemoryDataset(table).scanner(columns={"p": expression}, use_threads=False)
    try:
        return evaluator.as_boolean(scanner.to_table().column(0).combine_chunks())
    except pa.ArrowException as error:
        raise evaluator.EvaluationError(f"{expression}: {error}") from error


def _without_view(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(data_type):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(data_type) else data_type
