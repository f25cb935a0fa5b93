"""Operations on two or more selections, and the choice of the backing.

In: `Runs` or `Mask`, in any combination. Out: the backing that suits the result.

0. With everything, with nothing, or with itself: the result is known at once.
1. Two backings of one kind are used as they are.
2. Two of different kinds are combined as masks if their runs together are short enough for one,
   else as runs. So a few runs over many rows never cost a mask of all those rows.
3. The result settles on the backing that suits its average run length.

Invariant: the resulting rows depend on the rows of the operands, never on their backings. If the
operands have the backings that suit their rows, so does the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from lm_datafusion.selection.mask import Mask
from lm_datafusion.selection.runs import Runs
from lm_datafusion.selection.strategy import (
    MASK_THRESHOLD,
    RowSelectionStrategy,
    choose_strategy,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

Backing: TypeAlias = Runs | Mask


def settle(backing: Backing) -> Backing:
    """The backing that suits the average run length; unchanged if it already does."""
    if _fits_mask(backing.total_rows, backing.selector_count):
        return as_mask(backing)
    return backing.to_runs()


def as_mask(backing: Backing) -> Mask:
    """The same rows as a mask."""
    return backing if isinstance(backing, Mask) else Mask(backing.to_mask())


def and_then(left: Backing, right: Backing) -> Backing:
    """Rows of `left` whose rank among the rows of `left` is a row of `right`."""
    if _is_everything(left):
        return right
    if _meet_as_masks(left, right):
        return settle(as_mask(left).and_then(as_mask(right)))
    return settle(left.to_runs().and_then(right.to_runs()))


def relative_to(wanted: Backing, outer: Backing) -> Backing:
    """The ranks of the rows of `wanted` among the rows of `outer`, a superset."""
    if _is_everything(outer):
        return wanted
    if _meet_as_masks(wanted, outer):
        return settle(as_mask(wanted).relative_to(as_mask(outer)))
    return settle(wanted.to_runs().relative_to(outer.to_runs()))


def intersection(left: Backing, right: Backing) -> Backing:
    """Rows of both."""
    if left is right or _is_everything(right) or _is_nothing(left):
        return left
    if _is_everything(left) or _is_nothing(right):
        return right
    if _meet_as_masks(left, right):
        return settle(as_mask(left).intersection(as_mask(right)))
    return settle(left.to_runs().intersection(right.to_runs()))


def union(left: Backing, right: Backing) -> Backing:
    """Rows of either."""
    if left is right or _is_nothing(right) or _is_everything(left):
        return left
    if _is_nothing(left) or _is_everything(right):
        return right
    if _meet_as_masks(left, right):
        return settle(as_mask(left).union(as_mask(right)))
    return settle(left.to_runs().union(right.to_runs()))


def difference(left: Backing, right: Backing) -> Backing:
    """Rows of `left` that are not rows of `right`."""
    if _is_nothing(right) or _is_nothing(left):
        return left
    if left is right or _is_everything(right):
        return settle(Runs.one(0, 0, left.total_rows))
    if _meet_as_masks(left, right):
        return settle(as_mask(left).difference(as_mask(right)))
    return settle(left.to_runs().difference(right.to_runs()))


def concat(parts: Sequence[Backing]) -> Backing:
    """The concatenated parts; each covers the next rows."""
    total_rows = sum(part.total_rows for part in parts)
    if _fits_mask(total_rows, sum(part.selector_count for part in parts)):
        return settle(Mask(np.concatenate([part.to_mask() for part in parts])))
    row_offset = 0
    starts, stops = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for part in parts:
        runs = part.to_runs()
        starts.append(runs.starts + row_offset)
        stops.append(runs.stops + row_offset)
        row_offset += part.total_rows
    return settle(Runs.merged(np.concatenate(starts), np.concatenate(stops), total_rows))


def _is_everything(backing: Backing) -> bool:
    """Whether it is one run of all rows; may be False for a mask of all rows."""
    return (
        isinstance(backing, Runs)
        and len(backing.starts) == 1
        and backing.row_count == backing.total_rows
    )


def _is_nothing(backing: Backing) -> bool:
    """Whether it has no run; may be False for an empty mask."""
    return isinstance(backing, Runs) and not len(backing.starts)


def _fits_mask(total_rows: int, selector_count: int) -> bool:
    strategy = choose_strategy(total_rows, selector_count, threshold=MASK_THRESHOLD)
    return strategy is RowSelectionStrategy.MASK


def _meet_as_masks(left: Backing, right: Backing) -> bool:
    if isinstance(left, Mask) == isinstance(right, Mask):
        return isinstance(left, Mask)
    return _fits_mask(left.total_rows, left.selector_count + right.selector_count)
