"""The rows that can still be among the first of an order.

In: matching rows with their sort keys, window by window. Out: the candidates, and the threshold:
the worst key that is still good enough.

With n rows wanted, the threshold is the n-th best key so far. A worse row can never be among the
first n; a row that ties with the threshold can. So ties are kept, including those that only a
further sort key resolves.

Invariant: the threshold only gets better; every row seen that is not worse is a candidate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    import numpy.typing as npt

    from lm_datafusion.plan import BestKey, FirstRows
    from lm_datafusion.plan.ordering import KeyValue

    Values: TypeAlias = pa.Array | pa.ChunkedArray

# Candidates are filtered again once this share of the rows wanted has been added.
TIGHTEN_SHARE = 1 / 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """The worst key that is good enough.

    Attributes:
        value: The worst value, for comparison in Python; None if no value is good enough.
        scalar: The same for PyArrow.
        takes_nulls: Whether a null is good enough.
    """

    value: KeyValue | None
    scalar: pa.Scalar | None
    takes_nulls: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Candidates of one window: row group, rows, keys, and the columns already read."""

    index: int
    rows: npt.NDArray[np.int64]
    keys: pa.Array
    carried: tuple[Values, ...]

    def filtered(self, mask: npt.NDArray[np.bool_]) -> Part:
        """The candidates that a mask selects."""
        if mask.all():
            return self
        wanted = pa.array(mask)
        return Part(
            index=self.index,
            rows=self.rows[mask],
            keys=self.keys.filter(wanted),
            carried=tuple(values.filter(wanted) for values in self.carried),
        )


class Candidates:
    """Rows that no other rows have ruled out yet. Not thread-safe."""

    def __init__(self, first: FirstRows) -> None:
        self._first = first
        self._parts: list[Part] = []
        self._row_count = 0
        self._added = 0
        self._threshold: Threshold | None = None

    @property
    def threshold(self) -> Threshold | None:
        """The key that rows must match or beat; None while any row will do."""
        return self._threshold

    @property
    def row_count(self) -> int:
        """The number of candidates."""
        return self._row_count

    def add(self, part: Part) -> None:
        """Adds the rows that are good enough."""
        mask = good_enough(part.keys, self._threshold, descending=self._first.descending)
        part = part if mask is None else part.filtered(mask)
        if not len(part.rows):
            return
        self._parts.append(part)
        self._row_count += len(part.rows)
        self._added += len(part.rows)
        if self._row_count < self._first.row_count:
            return
        if self._threshold is None or self._added >= self._first.row_count * TIGHTEN_SHARE:
            self._tighten()

    def can_hold(self, best: BestKey) -> bool:
        """Whether a container may hold a row that is good enough."""
        threshold = self._threshold
        if threshold is None or (threshold.takes_nulls and best.may_hold_null):
            return True
        if threshold.value is None:
            return False
        if not best.is_known:
            return True
        if best.value is None:
            return False
        # Both are sort values of one column.
        if self._first.descending:
            return best.value >= threshold.value  # type: ignore[operator]
        return best.value <= threshold.value  # type: ignore[operator]

    def finish(self) -> list[Part]:
        """The remaining rows."""
        if self._added and self._row_count >= self._first.row_count:
            self._tighten()
        return self._parts

    def _tighten(self) -> None:
        self._added = 0
        keys = pa.concat_arrays([part.keys for part in self._parts])
        missing = self._first.row_count
        takes_nulls = self._first.nulls_first
        if takes_nulls:
            missing -= keys.null_count
        threshold: Threshold | None = None
        if missing <= 0:
            threshold = Threshold(value=None, scalar=None, takes_nulls=True)
        elif len(keys) - keys.null_count >= missing:
            scalar = _nth_best(keys.drop_null(), missing, descending=self._first.descending)
            threshold = Threshold(value=scalar.as_py(), scalar=scalar, takes_nulls=takes_nulls)
        if threshold is not None and threshold != self._threshold:
            self._threshold = threshold
            self._sort_out(keys)

    def _sort_out(self, keys: pa.Array) -> None:
        """Drops the rows that are no longer good enough; `keys` are those of all parts."""
        mask = good_enough(keys, self._threshold, descending=self._first.descending)
        assert mask is not None
        stops = np.cumsum([len(part.rows) for part in self._parts])
        parts = [
            part.filtered(kept)
            for part, kept in zip(self._parts, np.split(mask, stops[:-1]), strict=True)
            if kept.any()
        ]
        self._parts = parts
        self._row_count = sum(len(part.rows) for part in parts)


def good_enough(
    keys: pa.Array, threshold: Threshold | None, *, descending: bool
) -> npt.NDArray[np.bool_] | None:
    """Which keys are as good as a threshold; None if all are."""
    if threshold is None:
        return None
    if threshold.scalar is None:
        return keys.is_null().to_numpy(zero_copy_only=False)
    compare = pc.greater_equal if descending else pc.less_equal
    mask = pc.fill_null(compare(keys, threshold.scalar), threshold.takes_nulls)
    return mask.to_numpy(zero_copy_only=False)


def _nth_best(values: pa.Array, count: int, *, descending: bool) -> pa.Scalar:
    """The `count`-th best value."""
    if pa.types.is_integer(values.type):
        numbers = values.to_numpy()
        index = len(numbers) - count if descending else count - 1
        return pa.scalar(np.partition(numbers, index)[index], values.type)
    order = "descending" if descending else "ascending"
    return values[pc.array_sort_indices(values, order=order)[count - 1].as_py()]
