"""Validates ranges, indices and selectors, and converts them to runs.

In: row ranges, row indices or `RowSelector`s from outside the room. Out: `Runs`.

Invariant: the result satisfies the invariant of `Runs` and shares no memory with the input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lm_datafusion.errors import OptionError
from lm_datafusion.selection.runs import Runs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike

    from lm_datafusion.selection.runs import Int64Array
    from lm_datafusion.selection.selector import RowSelector


def ranges_to_runs(starts: ArrayLike, stops: ArrayLike, total_rows: int) -> Runs:
    """Runs from sorted half-open ranges; empty ones are dropped, touching ones merged.

    Raises:
        OptionError: A range is reversed, out of order, overlapping or out of bounds.
    """
    begin, end = _int64(starts, "range starts"), _int64(stops, "range stops")
    if len(begin) != len(end):
        raise OptionError(f"{len(begin)} range starts but {len(end)} range stops")
    _refuse(end < begin, begin, end, "stops before it starts")
    _refuse(begin < 0, begin, end, "starts before row 0")
    _refuse(end > total_rows, begin, end, f"reaches past the last of {total_rows} rows")
    _refuse(begin[1:] < end[:-1], begin[1:], end[1:], "overlaps or precedes the range before it")
    return Runs.merged(begin, end, total_rows)


def indices_to_runs(indices: ArrayLike, total_rows: int) -> Runs:
    """Runs from strictly increasing row indices.

    Raises:
        OptionError: They are not strictly increasing, or one is out of bounds.
    """
    rows = _int64(indices, "row indices")
    if not len(rows):
        return Runs.one(0, 0, total_rows)
    steps = np.diff(rows)
    if (steps <= 0).any():
        index = int(np.argmax(steps <= 0))
        raise OptionError(f"row indices must increase: {rows[index]} before {rows[index + 1]}")
    if rows[0] < 0 or rows[-1] >= total_rows:
        outside = rows[0] if rows[0] < 0 else rows[-1]
        raise OptionError(f"row index {outside} is out of bounds for {total_rows} rows")
    breaks = np.flatnonzero(steps > 1)
    starts = np.concatenate((rows[:1], rows[breaks + 1]))
    stops = np.concatenate((rows[breaks], rows[-1:])) + 1
    return Runs(starts, stops, total_rows)


def selectors_to_runs(selectors: Iterable[RowSelector]) -> Runs:
    """Runs from selectors in any form; drops empty ones and merges equal neighbours."""
    steps = list(selectors)
    lengths = np.fromiter((step.row_count for step in steps), np.int64, len(steps))
    selected = np.fromiter((not step.is_skip for step in steps), np.bool_, len(steps))
    stops = np.cumsum(lengths)
    total_rows = int(stops[-1]) if steps else 0
    return Runs.merged((stops - lengths)[selected], stops[selected], total_rows)


def _int64(values: ArrayLike, what: str) -> Int64Array:
    array = np.array(values)
    if array.ndim != 1 or not (np.issubdtype(array.dtype, np.integer) or not len(array)):
        raise OptionError(f"{what} must be a list of integers, not {array.dtype} {array.shape}")
    return array.astype(np.int64, copy=False)


def _refuse(bad: np.ndarray, starts: Int64Array, stops: Int64Array, why: str) -> None:
    if bad.any():
        index = int(np.argmax(bad))
        raise OptionError(f"range [{starts[index]}, {stops[index]}) {why}")
