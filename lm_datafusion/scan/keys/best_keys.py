"""The best sort key that a container can hold, and the order in which containers are visited.

In: bounds and null counts of containers, and the requested order. Out: a `BestKey` per container,
and keys to sort containers by.

Bounds of floats are not used: they ignore NaN, which sorts before or after every number.

Invariant: no row of a container sorts before its best key. Unusable bounds are unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from lm_datafusion.plan.ordering import UNKNOWN_KEY, BestKey
from lm_datafusion.scan.keys.sort_values import bounds_to_sort_values

if TYPE_CHECKING:
    import pyarrow as pa

    from lm_datafusion.metrics import ScanMetrics
    from lm_datafusion.plan import FirstRows
    from lm_datafusion.plan.ordering import KeyValue
    from lm_datafusion.pruning import PruningStatistics

    VisitKey: TypeAlias = tuple[object, ...]


def best_keys(
    statistics: PruningStatistics, first: FirstRows, data_type: pa.DataType, metrics: ScanMetrics
) -> list[BestKey]:
    """The best key of each container.

    Args:
        statistics: Of the containers.
        first: Which rows come first.
        data_type: The type of the column in the table.
        metrics: Counts statistics that cannot be read.
    """
    try:
        return _best_keys(statistics, first, data_type)
    except Exception:  # noqa: BLE001 fails open, as all pruning does
        metrics.add(predicate_evaluation_errors=1)
        return [UNKNOWN_KEY] * statistics.num_containers


def _best_keys(
    statistics: PruningStatistics, first: FirstRows, data_type: pa.DataType
) -> list[BestKey]:
    path = (first.column,)
    bounds = statistics.max_values(path) if first.descending else statistics.min_values(path)
    values = bounds_to_sort_values(bounds, data_type)
    known = [None] * statistics.num_containers if values is None else values.to_pylist()
    nulls = statistics.null_counts(path)
    if nulls is None:
        return [BestKey(is_known=value is not None, value=value) for value in known]
    return [
        # A container with only nulls is fully known.
        BestKey(
            is_known=value is not None or null_count == row_count,
            value=value if null_count != row_count else None,
            may_hold_null=bool(null_count != 0),
        )
        for value, null_count, row_count in zip(
            known, nulls.tolist(), statistics.row_counts().tolist(), strict=True
        )
    ]


def visit_key(best: BestKey, first: FirstRows, position: float) -> VisitKey:
    """The key to sort containers by: the one that can hold the best row comes first.

    Args:
        best: The best key the container can hold.
        first: Which rows come first.
        position: Breaks ties between equally good containers; in a file sorted the other way, the
            last of them is the best.
    """
    tie = -position if first.descending else position
    if not best.is_known:
        return (0, 0, 0, tie)
    if best.value is None:
        return (1 if first.nulls_first else 3, 0, 0, tie)
    value = _backwards(best.value) if first.descending else best.value
    is_null_best = first.nulls_first and best.may_hold_null
    return (1, 1, value, tie) if is_null_best else (2, 1, value, tie)


def _backwards(value: KeyValue) -> KeyValue | _Backwards:
    return _Backwards(value) if isinstance(value, bytes) else -value


class _Backwards:
    """Bytes that sort in reverse."""

    __slots__ = ("value",)

    def __init__(self, value: bytes) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Backwards) and self.value == other.value

    def __lt__(self, other: _Backwards) -> bool:
        return self.value > other.value

    def __hash__(self) -> int:
        return hash(self.value)
