"""Evaluates predicate trees on statistics.

In: a tree and the statistics of containers. Out: verdicts.

1. Each leaf of the tree becomes an `Outcome`: can it be true, false, null in each container?
2. AND, OR, NOT and IS TRUE combine outcomes with three-valued logic.
3. A container in which the tree cannot be true has NO_ROWS; one in which it can only be true has
   ALL_ROWS.

Floating point: bounds ignore NaN. In DataFusion NaN is above all numbers, and below them with a
minus sign; in PyArrow it compares false. A float container may hold both, so `<`, `>` and `!=` can
always be true there (unless another conjunct rules out the NaN that passes, as in a range with two
ends), and no comparison is certain to hold. If the writer counted no NaN, bounds are complete, as
for any other type. Signed zeros are not distinguished.

Invariant: `NO_ROWS` and `ALL_ROWS` are proofs under DataFusion's semantics.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lm_datafusion.predicate.fold import is_monotone_cast
from lm_datafusion.predicate.kinds import is_text_or_bytes
from lm_datafusion.predicate.tree import (
    And,
    ByteLength,
    ColumnReference,
    Comparison,
    Constant,
    InList,
    IsNull,
    IsTrue,
    Like,
    Not,
    NullSafeEqual,
    Operator,
    Or,
    Predicate,
    Residual,
)
from lm_datafusion.pruning.outcome import Outcome

if TYPE_CHECKING:
    import numpy.typing as npt

    from lm_datafusion.pruning.statistics import PruningStatistics

    Flags = npt.NDArray[np.bool_]


# Columns known not to be NaN of a sign in any row that could still pass.
NanFree: TypeAlias = frozenset[tuple[ColumnReference, str]]


def judge(
    predicate: Predicate, statistics: PruningStatistics, nan_free: NanFree = frozenset()
) -> npt.NDArray[np.uint8]:
    """The verdict of a predicate about each container.

    Args:
        predicate: The condition on rows.
        statistics: Of the containers.
        nan_free: The columns that other conjuncts, which rows must also meet, exclude NaN from.

    Raises:
        Exception: The statistics do not fit the predicate's types; callers fail open.
    """
    return _outcome(predicate, statistics, nan_free).verdicts()


def _outcome(predicate: Predicate, statistics: PruningStatistics, nan_free: NanFree) -> Outcome:
    match predicate:
        case And(children):
            # NaN fails `x < 5`, so in `x > 3 AND x < 5` it can be ignored in `x > 3` too.
            nan_free |= columns_without_nan(predicate)
            result = Outcome.constant(True, statistics.num_containers)
            for child in children:
                result = result & _outcome(child, statistics, nan_free)
            return result
        case Or(children):
            result = Outcome.constant(False, statistics.num_containers)
            for child in children:
                result = result | _outcome(child, statistics, nan_free)
            return result
        case Not(child):
            return ~_outcome(child, statistics, frozenset())
        case IsTrue(child):
            return _outcome(child, statistics, nan_free).is_true()
        case Constant(value):
            return Outcome.constant(value, statistics.num_containers)
        case Residual():
            return Outcome.unknown(statistics.num_containers)
        case Comparison() | NullSafeEqual() | InList() | Like() | ByteLength() | IsNull():
            return _leaf(predicate, statistics, nan_free)
        case _:
            assert_never(predicate)


def columns_without_nan(predicate: Predicate) -> NanFree:
    """Columns that are not NaN of a sign where DataFusion evaluates the predicate to true.

    In DataFusion NaN is above all numbers, and NaN with a minus sign below them; divisions produce
    both.
    """
    match predicate:
        case And(children):
            return frozenset().union(*map(columns_without_nan, children))
        case Comparison(column, operator, literal) if not _is_nan(literal):
            signs = [sign for sign, passing in _PASSED_BY_NAN.items() if operator not in passing]
            return frozenset((column, sign) for sign in signs)
        case _:
            return frozenset()


# By the sign of NaN: the comparisons with a number that it passes.
_PASSED_BY_NAN = {
    "+": (Operator.GT, Operator.GE, Operator.NE),
    "-": (Operator.LT, Operator.LE, Operator.NE),
}


def _can_pass_as_nan(column: ColumnReference, operator: Operator, nan_free: NanFree) -> bool:
    return any(
        operator in passing and (column, sign) not in nan_free
        for sign, passing in _PASSED_BY_NAN.items()
    )


def _is_nan(literal: pa.Scalar) -> bool:
    return pa.types.is_floating(literal.type) and math.isnan(literal.as_py())


def _is_zero(literal: pa.Scalar) -> bool:
    return pa.types.is_floating(literal.type) and literal.as_py() == 0


def _leaf(
    leaf: Comparison | NullSafeEqual | InList | Like | ByteLength | IsNull,
    statistics: PruningStatistics,
    nan_free: NanFree,
) -> Outcome:
    has_null, has_value = _presence(leaf.column, statistics)
    match leaf:
        case IsNull():
            return Outcome(has_null, has_value, np.zeros(len(has_null), dtype=np.bool_))
        case Comparison(column, operator, literal):
            can_be_true, can_be_false = _comparison(column, operator, literal, statistics)
            may_be_nan = _may_be_nan(column, statistics)
            if _can_pass_as_nan(column, operator, nan_free):
                can_be_true = can_be_true | may_be_nan
            can_be_false = can_be_false | may_be_nan
        case NullSafeEqual(column, literal):
            can_be_true, can_be_false = _comparison(column, Operator.EQ, literal, statistics)
            can_be_false = can_be_false | _may_be_nan(column, statistics)
            never = np.zeros(len(has_null), dtype=np.bool_)
            return Outcome(can_be_true & has_value, (can_be_false & has_value) | has_null, never)
        case InList(column, values):
            can_be_true, can_be_false = _in_list(column, values, statistics)
        case Like(column) if leaf.prefix:
            can_be_true, can_be_false = _prefix(column, leaf.prefix, statistics)
            if not leaf.is_prefix:
                can_be_false = np.ones(len(has_null), dtype=np.bool_)
        case Like() | ByteLength():
            can_be_true = can_be_false = np.ones(len(has_null), dtype=np.bool_)
    return Outcome(can_be_true & has_value, can_be_false & has_value, has_null)


def _presence(column: ColumnReference, statistics: PruningStatistics) -> tuple[Flags, Flags]:
    """Whether a container may hold a null, and whether it may hold a value."""
    nulls = statistics.null_counts(column.path)
    if nulls is None:
        maybe = np.ones(statistics.num_containers, dtype=np.bool_)
        return maybe, maybe
    return nulls != 0, nulls != statistics.row_counts()


def _bounds(
    column: ColumnReference, literal_type: pa.DataType, statistics: PruningStatistics
) -> tuple[pa.Array, pa.Array]:
    """Lower and upper bounds, in a type comparable with the literal."""
    lower, upper = statistics.min_values(column.path), statistics.max_values(column.path)
    nothing = pa.nulls(statistics.num_containers, _comparable_type(literal_type))
    return (
        nothing if lower is None else _comparable(lower, literal_type),
        nothing if upper is None else _comparable(upper, literal_type),
    )


def _may_be_nan(column: ColumnReference, statistics: PruningStatistics) -> Flags:
    """Whether a container may hold NaN, given the stored type of the column."""
    if not _may_be_float(column, statistics):
        return np.zeros(statistics.num_containers, dtype=np.bool_)
    return ~_surely_no_nan(column, statistics)


def _may_be_float(column: ColumnReference, statistics: PruningStatistics) -> bool:
    bounds = statistics.min_values(column.path)
    return bounds is None or pa.types.is_floating(bounds.type)


def _surely_no_nan(column: ColumnReference, statistics: PruningStatistics) -> Flags:
    counts = statistics.nan_counts(column.path)
    if counts is None:
        return np.zeros(statistics.num_containers, dtype=np.bool_)
    return counts == 0


def _comparison(
    column: ColumnReference, operator: Operator, literal: pa.Scalar, statistics: PruningStatistics
) -> tuple[Flags, Flags]:
    """Whether the comparison can be true, and false, for values other than null and NaN."""
    if _is_nan(literal):
        return _against_nan(column, operator, statistics)
    if statistics.min_values(column.path) is None and statistics.max_values(column.path) is None:
        return _without_bounds(column, operator, literal, statistics)
    lower, upper = _bounds(column, literal.type, statistics)
    value = _comparable_scalar(literal)
    if _is_zero(literal) and _may_be_float(column, statistics) and operator in _TOWARDS:
        # Does not rely on the order of the two zeros.
        below, above = _may(pc.less_equal(lower, value)), _may(pc.greater_equal(upper, value))
        return (below, above) if _TOWARDS[operator] < 0 else (above, below)
    match operator:
        case Operator.EQ | Operator.NE:
            values = pa.array([literal])
            inside = _may(pc.less_equal(lower, value)) & _may(pc.greater_equal(upper, value))
            inside &= _may_contain(column, values, statistics)
            only = _surely(pc.equal(lower, value)) & _surely(pc.equal(upper, value))
            equal = (inside, ~only)
            return equal if operator is Operator.EQ else (equal[1], equal[0])
        case Operator.LT:
            return _may(pc.less(lower, value)), _may(pc.greater_equal(upper, value))
        case Operator.LE:
            return _may(pc.less_equal(lower, value)), _may(pc.greater(upper, value))
        case Operator.GT:
            return _may(pc.greater(upper, value)), _may(pc.less_equal(lower, value))
        case Operator.GE:
            return _may(pc.greater_equal(upper, value)), _may(pc.less(lower, value))
        case _:
            assert_never(operator)


def _without_bounds(
    column: ColumnReference, operator: Operator, literal: pa.Scalar, statistics: PruningStatistics
) -> tuple[Flags, Flags]:
    """A comparison without bounds, which at most a bloom filter can decide."""
    anything = np.ones(statistics.num_containers, dtype=np.bool_)
    if operator not in (Operator.EQ, Operator.NE):
        return anything, anything
    inside = _may_contain(column, pa.array([literal]), statistics)
    return (inside, anything) if operator is Operator.EQ else (anything, inside)


# Which values pass: below the literal, or above it.
_TOWARDS = {Operator.LT: -1, Operator.LE: -1, Operator.GT: 1, Operator.GE: 1}


def _against_nan(
    column: ColumnReference, operator: Operator, statistics: PruningStatistics
) -> tuple[Flags, Flags]:
    """A comparison with NaN; DataFusion and PyArrow disagree on what is below and above it."""
    anything = np.ones(statistics.num_containers, dtype=np.bool_)
    if operator not in (Operator.EQ, Operator.NE):
        return anything, anything
    equal = ~_surely_no_nan(column, statistics)
    return (equal, anything) if operator is Operator.EQ else (anything, equal)


def _in_list(
    column: ColumnReference, values: pa.Array, statistics: PruningStatistics
) -> tuple[Flags, Flags]:
    lower, upper = _bounds(column, values.type, statistics)
    wanted = _comparable(values, values.type)
    if pa.types.is_floating(values.type) and pc.any(pc.is_nan(wanted)).as_py():
        anything = np.ones(len(lower), dtype=np.bool_)
        return anything, anything
    inside, only = _hits(lower, upper, wanted)
    if pa.types.is_floating(values.type):
        # A list may distinguish zeros, which bounds do not.
        is_zero = _surely(pc.equal(lower, pa.scalar(0, lower.type)))
        only &= _surely_no_nan(column, statistics) & ~is_zero
    return inside & _may_contain(column, values, statistics), ~only


def _hits(lower: pa.Array, upper: pa.Array, wanted: pa.Array) -> tuple[Flags, Flags]:
    """Per pair of bounds: can a wanted value lie within, and do both equal a wanted value?

    All values are ranked together, so that one binary search per container works for any type and
    any length of list.
    """
    count = len(lower)
    everything = pa.concat_arrays([lower, upper, wanted])
    ranks = pc.rank(everything, tiebreaker="dense").to_numpy()
    low, high, ordered = ranks[:count], ranks[count : 2 * count], np.unique(ranks[2 * count :])
    nearest = ordered[np.minimum(np.searchsorted(ordered, low), len(ordered) - 1)]
    unknown = _surely(pc.is_null(lower)) | _surely(pc.is_null(upper))
    inside = (low <= nearest) & (nearest <= high)
    return inside | unknown, inside & (low == high) & ~unknown


def _prefix(
    column: ColumnReference, prefix: bytes, statistics: PruningStatistics
) -> tuple[Flags, Flags]:
    lower, upper = _bounds(column, pa.binary(), statistics)
    value = pa.scalar(prefix, pa.large_binary())
    start = pc.binary_slice(lower, 0, len(prefix))
    end = pc.binary_slice(upper, 0, len(prefix))
    possible = _may(pc.less_equal(start, value)) & _may(pc.greater_equal(end, value))
    certain = _surely(pc.equal(start, value)) & _surely(pc.equal(end, value))
    return possible, ~certain


def _may_contain(column: ColumnReference, values: pa.Array, statistics: PruningStatistics) -> Flags:
    anything = np.ones(statistics.num_containers, dtype=np.bool_)
    if column.cast_type is not None:
        return anything
    found = statistics.may_contain(column.path, values)
    return anything if found is None else found


def _may(array: pa.Array) -> Flags:
    """Unknown counts as true."""
    return _flags(array, unknown=True)


def _surely(array: pa.Array) -> Flags:
    """Unknown counts as false."""
    return _flags(array, unknown=False)


def _flags(array: pa.Array, *, unknown: bool) -> Flags:
    known = pc.fill_null(array, unknown) if array.null_count else array
    return np.asarray(known.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _comparable(bounds: pa.Array, literal_type: pa.DataType) -> pa.Array:
    """Bounds in the type in which they are compared with the literal.

    Raises:
        TypeError: The bounds are ordered differently from the literal.
    """
    target = _comparable_type(literal_type)
    if _is_bytes(bounds.type):
        if target != pa.large_binary():
            raise TypeError(f"bounds of type {bounds.type} against a {literal_type}")
        return bounds.cast(pa.binary()).cast(target)
    if not is_monotone_cast(bounds.type, target):
        raise TypeError(f"bounds of type {bounds.type} against a {literal_type}")
    return bounds if bounds.type == target else pc.cast(bounds, target, safe=False)


def _comparable_scalar(literal: pa.Scalar) -> pa.Scalar:
    target = _comparable_type(literal.type)
    if target != pa.large_binary():
        return literal.cast(target)
    value = literal.as_py()
    return pa.scalar(value.encode() if isinstance(value, str) else value, target)


def _comparable_type(literal_type: pa.DataType) -> pa.DataType:
    """Text and bytes are compared as bytes, halves as floats: PyArrow has no kernel for them."""
    if _is_bytes(literal_type):
        return pa.large_binary()
    return pa.float32() if literal_type == pa.float16() else literal_type


def _is_bytes(data_type: pa.DataType) -> bool:
    return is_text_or_bytes(data_type) or pa.types.is_fixed_size_binary(data_type)
