"""Which of the matching rows a scan returns, and in which order.

In: a caller's reverse, limit and order. Out: an `Extent`, which a scanner passes on.

Invariant: an extent applies to the rows that meet all conjuncts.
"""

from __future__ import annotations

import dataclasses
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lm_datafusion.errors import OptionError
from lm_datafusion.plan import FirstRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lm_datafusion.dataset.verbs import OrderBy

DIRECTIONS = ("ascending", "descending")
NULL_PLACEMENTS = ("at_start", "at_end")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Rows of a result.

    Attributes:
        is_reverse: From the last to the first.
        limit: The most rows.
        is_any_order: With a limit: any rows, the fastest to find.
        first: Those that can be among the first of an order; see `FirstRows`.
        order_by: Columns to sort by, each with whether it is descending.
        nulls_first: Where nulls go in `order_by`.
    """

    is_reverse: bool = False
    limit: int | None = None
    is_any_order: bool = False
    first: FirstRows | None = None
    order_by: tuple[tuple[str, bool], ...] = ()
    nulls_first: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether every row is wanted, so that parts can be scanned independently."""
        return self.limit is None and self.first is None

    def with_limit(self, row_count: int) -> Extent:
        """The same with at most `row_count` rows."""
        limit = max(0, row_count) if self.limit is None else max(0, min(row_count, self.limit))
        return dataclasses.replace(self, limit=limit)

    def scanned_first(self) -> FirstRows | None:
        """The first rows that the scan must find for `order_by`."""
        if not self.order_by or self.limit is None:
            return self.first
        column, descending = self.order_by[0]
        return FirstRows(
            column=column,
            descending=descending,
            nulls_first=self.nulls_first,
            row_count=self.limit,
        )


def chosen_extent(
    given: Extent, *, reverse: bool, limit: Any, order_by: OrderBy, null_placement: str
) -> Extent:
    """The validated arguments of a `scanner` call, or else the extent of the dataset.

    Raises:
        OptionError: The limit or the order is invalid, or there are two orders.
    """
    keys = _sort_keys(order_by)
    if null_placement not in NULL_PLACEMENTS:
        raise OptionError(
            f"null_placement must be one of {NULL_PLACEMENTS}, not {null_placement!r}"
        )
    if not keys and not reverse:
        return given if limit is None else given.with_limit(_row_count(limit))
    if keys and limit is None:
        raise OptionError("order_by needs a limit; sort_by sorts all rows")
    if keys and reverse:
        raise OptionError("rows come in reverse or by order_by, not both")
    return Extent(
        is_reverse=bool(reverse),
        limit=None if limit is None else _row_count(limit),
        order_by=keys,
        nulls_first=null_placement == "at_start",
    )


def _row_count(limit: Any) -> int:
    try:
        count = operator.index(limit)
    except TypeError as error:
        raise OptionError(f"limit must be a number of rows, not {limit!r}") from error
    if count < 0:
        raise OptionError(f"limit must be 0 or more, not {count}")
    return count


def _sort_keys(order_by: OrderBy) -> tuple[tuple[str, bool], ...]:
    if order_by is None:
        return ()
    pairs: Sequence[Any] = [(order_by, "ascending")] if isinstance(order_by, str) else order_by
    keys = []
    for pair in pairs:
        column, direction = (pair, "ascending") if isinstance(pair, str) else pair
        if direction not in DIRECTIONS:
            raise OptionError(f"an order is one of {DIRECTIONS}, not {direction!r}")
        keys.append((str(column), direction == "descending"))
    return tuple(keys)
