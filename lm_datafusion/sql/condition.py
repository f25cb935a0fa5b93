"""Splits a SQL condition into conjuncts.

In: the text after WHERE, and the schema of its columns. Out: `Conjunct`s.

1. sqlglot parses the text and splits it at AND.
2. DataFusion parses the user's text and the parts: if the conjuncts differ, the user's text becomes
   the only conjunct.
3. `now()` and similar functions are replaced by their current value: one scan sees one time.

Invariant: the conjunction of the parts means the same to DataFusion as the text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError, TokenError

from lm_datafusion.errors import ColumnNotFoundError, SqlError
from lm_datafusion.predicate import evaluator
from lm_datafusion.predicate.conjunct import Conjunct
from lm_datafusion.predicate.literals import literal_sql
from lm_datafusion.predicate.volatility import STABLE_FUNCTIONS, VOLATILE_FUNCTIONS
from lm_datafusion.sql.dialect import DataFusion, normalized

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["parse_condition"]

_STABLE_NODES = (exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime)


# By text. Schemas are compared by identity: comparing one of a hundred columns takes longer than a
# short scan.
_KNOWN: Final[dict[str, tuple[pa.Schema, tuple[Conjunct, ...]]]] = {}
_MOST_KNOWN: Final = 256
_LONGEST_KNOWN: Final = 4096


def parse_condition(text: str, schema: pa.Schema) -> tuple[Conjunct, ...]:
    """Splits a SQL condition into conjuncts; caches those of the same dataset.

    Args:
        text: A condition in DataFusion's dialect; unquoted names are lower-cased.
        schema: The columns it may name.

    Returns:
        The conjuncts, as ordered in the text.

    Raises:
        SqlError: The text is not a condition; the message shows the position.
        ColumnNotFoundError: A name is not a column.
    """
    known = _KNOWN.get(text)
    if known is not None and known[0] is schema:
        return known[1]
    found = _parsed(text, schema)
    is_lasting = not any(conjunct.is_momentary or conjunct.is_volatile for conjunct in found)
    if is_lasting and len(text) <= _LONGEST_KNOWN:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[text] = schema, found
    return found


def _parsed(text: str, schema: pa.Schema) -> tuple[Conjunct, ...]:
    try:
        tree = sqlglot.parse_one(text, into=exp.Condition, dialect=DataFusion)
    except (ParseError, TokenError) as error:
        return _unparsed(text, schema, error)
    _check_is_condition(tree, text)
    parts = _split(tree)
    texts = [_text(part) for part in parts]
    if not _say_the_same(text, texts, schema):
        columns = tuple(sorted({name for part in parts for name in _columns(part, schema)}))
        # now() cannot be replaced by its value here, so it is evaluated each time.
        is_volatile = any(_is_volatile(part) or _has_stable(part) for part in parts)
        return (Conjunct(text=text, columns=columns, is_volatile=is_volatile),)
    values = _stable_values(tree)
    return tuple(
        Conjunct(
            text=_text(_with_stable_values(part, values)) if _has_stable(part) else same,
            columns=_columns(part, schema),
            is_volatile=_is_volatile(part),
            is_momentary=_has_stable(part),
        )
        for part, same in zip(parts, texts, strict=True)
    )


def _text(part: exp.Expr) -> str:
    # No copy: copying a list of 50,000 values takes half a second.
    return part.sql(dialect=DataFusion, copy=False)


def _split(tree: exp.Expr) -> list[exp.Expr]:
    found, waiting = [], [tree]
    while waiting:
        node = waiting.pop().unnest()
        if isinstance(node, exp.And):
            waiting += [node.right, node.left]
        else:
            found.append(node)
    return found


def _say_the_same(text: str, parts: list[str], schema: pa.Schema) -> bool:
    """Whether DataFusion reads the same conjuncts from the text and from the parts."""
    whole = evaluator.parsed_conjuncts(text, schema)
    try:
        together = [name for part in parts for name in evaluator.parsed_conjuncts(part, schema)]
    except (SqlError, ColumnNotFoundError):
        return False
    return whole == together


def _columns(part: exp.Expr, schema: pa.Schema) -> tuple[str, ...]:
    names = []
    for column in part.find_all(exp.Column):
        # The leftmost name is the column; what follows are fields of a struct.
        name = normalized(column.parts[0])
        if name not in schema.names:
            raise ColumnNotFoundError(name, schema.names)
        names.append(name)
    return tuple(dict.fromkeys(names))


def _check_is_condition(tree: exp.Expr, text: str) -> None:
    if tree.find(exp.Query, exp.Subquery, exp.Exists):
        raise SqlError(f"a filter cannot hold a subquery: {text}", sql=text)
    if tree.find(exp.Window):
        raise SqlError(f"a filter cannot hold a window function: {text}", sql=text)


def _function_name(node: exp.Expr) -> str:
    return node.name.lower() if isinstance(node, exp.Anonymous) else ""


def _is_volatile(part: exp.Expr) -> bool:
    return any(_function_name(node) in VOLATILE_FUNCTIONS for node in part.walk())


def _is_stable(node: exp.Expr) -> bool:
    return isinstance(node, _STABLE_NODES) or _function_name(node) in STABLE_FUNCTIONS


def _has_stable(part: exp.Expr) -> bool:
    return any(map(_is_stable, part.walk()))


def _stable_values(tree: exp.Expr) -> dict[str, exp.Expr]:
    """By text: the current values of `now()` and similar functions, all at the same time."""
    texts = list({n.sql(dialect=DataFusion): None for n in tree.walk() if _is_stable(n)})
    if not texts:
        return {}
    return {
        text: sqlglot.parse_one(literal_sql(value), into=exp.Condition, dialect=DataFusion)
        for text, value in zip(texts, evaluator.constants(texts), strict=True)
    }


def _with_stable_values(part: exp.Expr, values: dict[str, exp.Expr]) -> exp.Expr:
    return part.transform(
        lambda node: values[node.sql(dialect=DataFusion)].copy() if _is_stable(node) else node
    )


def _unparsed(text: str, schema: pa.Schema, error: SqlglotError) -> tuple[Conjunct, ...]:
    """Text that only DataFusion can parse stays one conjunct with every likely column."""
    try:
        evaluator.parsed_conjuncts(text, schema)
    except ColumnNotFoundError:
        raise
    except SqlError as rejected:
        raise SqlError(str(rejected), sql=text, position=_position(text, error)) from error
    lowered = text.lower()
    columns = tuple(name for name in schema.names if name.lower() in lowered)
    return (Conjunct(text=text, columns=columns, is_volatile=True),)


def _position(text: str, error: SqlglotError) -> int | None:
    details = getattr(error, "errors", None)
    if not details or details[0].get("line") is None:
        return None
    line, column = int(details[0]["line"]), int(details[0]["col"])
    start = sum(len(row) for row in text.splitlines(keepends=True)[: line - 1])
    highlighted = details[0].get("highlight") or ""
    return max(start, min(len(text), start + column - len(highlighted)))
