"""Conditions that kernels test on encoded values.

In: the tree of a conjunct on one column, and the type of that column in the file. Out: a
`ValueTest`; or None, if the values must be decoded and evaluated by DataFusion.

Only unambiguous conditions are tested here: integers, dates and times of the literal's type by
value, text and bytes by their bytes. Floating point, decimals and casts are not.

Invariant: a test passes exactly the non-null values for which DataFusion's answer is true; null
never passes.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lm_datafusion.kernels.columns import (
    TEXT_IN,
    TEXT_LENGTH,
    TEXT_LIKE,
    TEXT_ORDER,
    AllTest,
    IntTest,
    TextTest,
)
from lm_datafusion.predicate.kinds import is_text, is_text_or_bytes
from lm_datafusion.predicate.tree import (
    And,
    ByteLength,
    ColumnReference,
    Comparison,
    InList,
    Like,
    Not,
    Operator,
    Or,
)

if TYPE_CHECKING:
    from lm_datafusion.kernels.columns import ValueTest
    from lm_datafusion.predicate.tree import Predicate

OPERATORS: Final = {
    operator: number
    for number, operator in enumerate(
        [Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE]
    )
}
INTEGER_TYPES: Final = {
    data_type: number
    for number, data_type in enumerate(
        [
            pa.int8(),
            pa.int16(),
            pa.int32(),
            pa.int64(),
            pa.uint8(),
            pa.uint16(),
            pa.uint32(),
            pa.uint64(),
        ]
    )
}
_EMPTY_OPERATORS: Final = (Operator.EQ, Operator.NE)
# A value is compared with each text in turn.
_MOST_TEXTS: Final = 16


# By the id of the tree, which is kept alive here: a scan looks it up once per row group.
_TESTS: Final[dict[int, tuple[Predicate, pa.DataType, ValueTest | None]]] = {}
_MOST_TESTS: Final = 256


def value_test(tree: Predicate, stored: pa.DataType) -> ValueTest | None:
    """The test of a condition, for values of the type in the file."""
    known = _TESTS.get(id(tree))
    if known is not None and known[0] is tree and known[1] == stored:
        return known[2]
    test = _make_test(tree, stored)
    if len(_TESTS) >= _MOST_TESTS:
        _TESTS.clear()
    _TESTS[id(tree)] = tree, stored, test
    return test


def _make_test(tree: Predicate, stored: pa.DataType) -> ValueTest | None:
    if isinstance(tree, And):
        tests = [_make_test(child, stored) for child in tree.children]
        known = [test for test in tests if test is not None]
        is_whole = len(known) == len(tests) and len({*map(_column, tree.children)}) == 1
        return functools.reduce(AllTest, known) if is_whole else None
    is_negated = isinstance(tree, Not)
    leaf = tree.child if isinstance(tree, Not) else tree
    if isinstance(leaf, Or):
        leaf = _as_list(leaf)
    if isinstance(leaf, Comparison | InList | Like | ByteLength):
        column = leaf.column
        if len(column.path) == 1 and _is_plain(column, stored):
            return _leaf_test(leaf, stored, is_negated=is_negated)
    return None


def _column(tree: Predicate) -> object:
    """The column of a tested condition."""
    leaf = tree.child if isinstance(tree, Not) else tree
    if isinstance(leaf, Or):
        leaf = _as_list(leaf)
    return getattr(leaf, "column", leaf)


def _as_list(tree: Or) -> Predicate:
    """Turns `x = a OR x = b`, DataFusion's form of short lists, back into a list."""
    columns, values = set(), []
    for child in tree.children:
        match child:
            case Comparison(column, Operator.EQ, literal):
                values.append(literal)
            case InList(column, members):
                values += list(members)
            case _:
                return tree
        columns.add(column)
    if len(columns) != 1 or len({value.type for value in values}) != 1:
        return tree
    return InList(columns.pop(), pa.array(values))


def _is_plain(column: ColumnReference, stored: pa.DataType) -> bool:
    """Whether the condition applies to the stored value; a cast from text to text is ignored."""
    return column.cast_type is None or (is_text(column.cast_type) and is_text(stored))


def _leaf_test(
    leaf: Comparison | InList | Like | ByteLength, stored: pa.DataType, *, is_negated: bool
) -> ValueTest | None:
    match leaf:
        case Comparison(_, operator, literal):
            if is_text_or_bytes(stored) and _is_same_kind(stored, literal.type):
                return _compare_text(operator, _to_bytes(literal), is_negated=is_negated)
            if stored == literal.type:
                return _int_test(operator, [literal], stored, is_negated=is_negated)
        case InList(_, values):
            if is_text_or_bytes(stored) and _is_same_kind(stored, values.type):
                if len(values) > _MOST_TEXTS:
                    return None
                parts = [_to_bytes(value) for value in values]
                return TextTest(TEXT_IN, parts, is_negated=is_negated)
            if stored == values.type:
                return _int_test(None, list(values), stored, is_negated=is_negated)
        case Like() if leaf.is_whole and is_text(stored):
            return TextTest(
                TEXT_LIKE,
                leaf.parts,
                is_anchored_left=leaf.is_anchored_left,
                is_anchored_right=leaf.is_anchored_right,
                is_negated=is_negated,
            )
        case ByteLength(_, operator, length) if is_text_or_bytes(stored):
            number = OPERATORS[operator]
            return TextTest(TEXT_LENGTH, operator=number, length=length, is_negated=is_negated)
        case _:
            pass
    return None


def _compare_text(operator: Operator, literal: bytes, *, is_negated: bool) -> ValueTest:
    number = OPERATORS[operator]
    if not literal and operator in _EMPTY_OPERATORS:
        return TextTest(TEXT_LENGTH, operator=number, is_negated=is_negated)
    if operator is Operator.EQ:
        return TextTest(TEXT_IN, [literal], is_negated=is_negated)
    return TextTest(TEXT_ORDER, [literal], operator=number, is_negated=is_negated)


def _is_same_kind(stored: pa.DataType, asked: pa.DataType) -> bool:
    return is_text_or_bytes(asked) and is_text(stored) == is_text(asked)


def _to_bytes(value: pa.Scalar) -> bytes:
    found = value.as_py()
    return found.encode() if isinstance(found, str) else bytes(found)


def _int_test(
    operator: Operator | None, literals: list[pa.Scalar], stored: pa.DataType, *, is_negated: bool
) -> ValueTest | None:
    number = INTEGER_TYPES.get(integer_type(stored))
    if number is None:
        return None
    keys = pa.array(literals, stored).view(integer_type(stored)).to_numpy()
    # The bits of a 64-bit integer, signed or not.
    signed = keys.astype(np.int64) if keys.dtype != np.uint64 else keys.view(np.int64)
    if operator is None:
        return IntTest(number, 0, 0, np.sort(signed), is_negated)
    return IntTest(number, OPERATORS[operator], int(signed[0]), None, is_negated)


def integer_type(data_type: pa.DataType) -> pa.DataType:
    """The integer type that stores a date or time; other types are unchanged."""
    types = pa.types
    if types.is_date32(data_type) or types.is_time32(data_type):
        return pa.int32()
    if types.is_timestamp(data_type) or types.is_time64(data_type):
        return pa.int64()
    return data_type
