"""How many rows a predicate keeps, estimated before anything is read.

In: a tree and the statistics of a table's row groups. Out: a fraction between 0 and 1.

Ranges are interpolated between the smallest and largest bound. Where statistics cannot tell, a
constant is used; it only orders filter steps that were never measured.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from lm_datafusion.predicate.tree import (
    And,
    ByteLength,
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

if TYPE_CHECKING:
    from lm_datafusion.predicate.tree import ColumnReference
    from lm_datafusion.pruning import PruningStatistics

EQUAL = 0.02  # one value of about fifty
PREFIX = 0.05
RANGE = 0.33
RESIDUAL = 0.25  # a LIKE, a function
NULLS = 0.05


def estimate_selectivity(predicate: Predicate, statistics: PruningStatistics) -> float:
    """The fraction of rows a predicate is expected to keep."""
    match predicate:
        case And(children):
            return math.prod(estimate_selectivity(child, statistics) for child in children)
        case Or(children):
            return 1.0 - math.prod(
                1.0 - estimate_selectivity(child, statistics) for child in children
            )
        case Not(child):
            return 1.0 - estimate_selectivity(child, statistics)
        case IsTrue(child):
            return estimate_selectivity(child, statistics)
        case Comparison(column, operator, literal):
            return _comparison(column, operator, literal, statistics)
        case IsNull(column):
            return _null_share(column, statistics)
        case _:
            return _typical(predicate)


def _typical(predicate: Constant | NullSafeEqual | InList | Like | ByteLength | Residual) -> float:
    match predicate:
        case Constant(value):
            return 1.0 if value else 0.0
        case InList(_, values):
            return min(0.5, EQUAL * len(values))
        case NullSafeEqual():
            return EQUAL
        case Like(is_anchored_left=True):
            return PREFIX
        case Like() | ByteLength() | Residual():
            return RESIDUAL
        case _:
            assert_never(predicate)


def _comparison(
    column: ColumnReference, operator: Operator, literal: pa.Scalar, statistics: PruningStatistics
) -> float:
    if operator is Operator.EQ:
        return _equal_share(column, statistics)
    if operator is Operator.NE:
        return 1.0 - _equal_share(column, statistics)
    below = _share_below(column, literal, statistics)
    if below is None:
        return RANGE
    return below if operator in (Operator.LT, Operator.LE) else 1.0 - below


def _equal_share(column: ColumnReference, statistics: PruningStatistics) -> float:
    """An integer between close bounds shares the rows with few other values."""
    return max(EQUAL, even_share(column, statistics) or 0.0)


def even_share(column: ColumnReference, statistics: PruningStatistics) -> float | None:
    """The share of an integer if all between the bounds occur equally often; None if unknown."""
    bounds = _bounds(column, statistics)
    lower = statistics.min_values(column.path)
    if bounds is None or lower is None or not pa.types.is_integer(lower.type):
        return None
    low, high = bounds
    return 1.0 / (high - low + 1.0)


def _share_below(
    column: ColumnReference, literal: pa.Scalar, statistics: PruningStatistics
) -> float | None:
    bounds = _bounds(column, statistics)
    try:
        value = _number(literal)
    except (TypeError, ValueError):
        return None
    if bounds is None or value is None or bounds[1] <= bounds[0]:
        return None
    low, high = bounds
    return min(1.0, max(0.0, (value - low) / (high - low)))


def _bounds(column: ColumnReference, statistics: PruningStatistics) -> tuple[float, float] | None:
    """The smallest and largest value of a column, as numbers."""
    lower, upper = statistics.min_values(column.path), statistics.max_values(column.path)
    if lower is None or upper is None:
        return None
    try:
        low, high = _number(pc.min(lower)), _number(pc.max(upper))
    except (pa.ArrowException, TypeError, ValueError):
        return None
    return None if low is None or high is None else (low, high)


def _number(scalar: pa.Scalar) -> float | None:
    if not scalar.is_valid:
        return None
    if pa.types.is_temporal(scalar.type):
        return float(scalar.value)
    return float(scalar.as_py())


def _null_share(column: ColumnReference, statistics: PruningStatistics) -> float:
    nulls = statistics.null_counts(column.path)
    rows = int(statistics.row_counts().sum())
    if nulls is None or (nulls < 0).any() or not rows:
        return NULLS
    return float(nulls.sum()) / rows
