"""The keys that containers span, and the order that their bounds prove.

In: statistics of containers, in table order. Out: `Span`s, and the `KnownOrder` they prove.

Invariant: only bounds prove an order; bounds that cannot be read are unknown.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lm_datafusion.plan.ordering import KnownOrder
from lm_datafusion.scan.keys.sort_values import bounds_to_sort_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lm_datafusion.plan.ordering import KeyValue
    from lm_datafusion.pruning import PruningStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The keys of one container; unknown bounds are None."""

    location: str
    low: KeyValue | None
    high: KeyValue | None
    may_hold_null: bool
    may_hold_value: bool

    @property
    def is_open(self) -> bool:
        """Whether it may hold a value without a known bound."""
        return self.may_hold_value and (self.low is None or self.high is None)


def spans_of(
    statistics: PruningStatistics, column: str, data_type: pa.DataType, locations: Sequence[str]
) -> list[Span]:
    """The spans of containers that hold rows."""
    count = statistics.num_containers
    rows = statistics.row_counts().tolist()
    try:
        lows = bounds_to_sort_values(statistics.min_values((column,)), data_type)
        highs = bounds_to_sort_values(statistics.max_values((column,)), data_type)
        nulls = statistics.null_counts((column,))
    except Exception:  # noqa: BLE001 fails open, as all pruning does
        lows = highs = nulls = None
    return [
        Span(
            location=location,
            low=low,
            high=high,
            may_hold_null=null_count != 0,
            may_hold_value=null_count != row_count,
        )
        for location, low, high, null_count, row_count in zip(
            locations,
            [None] * count if lows is None else lows.to_pylist(),
            [None] * count if highs is None else highs.to_pylist(),
            [-1] * count if nulls is None else nulls.tolist(),
            rows,
            strict=True,
        )
        if row_count
    ]


def proven_order(column: str, level: str, spans: Sequence[Span]) -> KnownOrder | None:
    """The order that the bounds of two or more containers prove, if any."""
    valued = [span for span in spans if span.may_hold_value]
    if len(valued) < 2 or any(span.is_open for span in valued):  # noqa: PLR2004 a pair
        return None
    pairs = list(itertools.pairwise(valued))
    if all(not is_less(later.low, earlier.high) for earlier, later in pairs):
        descending = False
    elif all(not is_less(earlier.low, later.high) for earlier, later in pairs):
        descending = True
    else:
        return None
    nulls = _nulls(spans)
    direction = "descending" if descending else "ascending"
    where = {"none": "no nulls", "between": "nulls in between"}.get(nulls, f"nulls {nulls}")
    return KnownOrder(
        column=column,
        descending=descending,
        nulls=nulls,
        level=level,
        reason=f"{column} {direction}, {where}: proven by the bounds of {len(spans):,} {level}",
    )


def _nulls(spans: Sequence[Span]) -> str:
    """Where the containers with nulls are; the container next to them may hold both."""
    nullable = [index for index, span in enumerate(spans) if span.may_hold_null]
    if not nullable:
        return "none"
    valued = [index for index, span in enumerate(spans) if span.may_hold_value]
    if nullable[-1] <= valued[0]:
        return "first"
    return "last" if nullable[0] >= valued[-1] else "between"


def why_unknown(column: str, spans: Sequence[Span]) -> str:
    """Why the bounds of row groups prove no order."""
    unknown = sum(span.is_open for span in spans)
    if unknown:
        return (
            f"{column}: no order known, {unknown:,} of {len(spans):,} row groups have no bounds"
            " to go by"
        )
    if len(spans) < 2:  # noqa: PLR2004 a pair
        return f"{column}: no order known, there is one row group"
    return f"{column}: no order, the bounds of row groups overlap"


def is_less(left: KeyValue | None, right: KeyValue | None) -> bool:
    """Whether one key is smaller; both are sort values of one column."""
    return left is not None and right is not None and left < right  # type: ignore[operator]
