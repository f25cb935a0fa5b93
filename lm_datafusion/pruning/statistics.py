"""What pruning asks of containers, whatever they are and whatever format they come from.

In: a column path. Out: one value per container, null or negative where it is not known.

Invariant: `min <= x <= max` for every value x of the container that is neither null nor NaN;
both bounds may be wider than need be (truncated strings).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    ColumnPath = tuple[str, ...]

UNKNOWN_COUNT = -1


class PruningStatistics(Protocol):
    """Statistics of a number of containers."""

    @property
    def num_containers(self) -> int:
        """How many containers are judged."""
        ...

    def min_values(self, column: ColumnPath) -> pa.Array | None:
        """A lower bound per container, null where unknown; None if all are."""
        ...

    def max_values(self, column: ColumnPath) -> pa.Array | None:
        """An upper bound per container, null where unknown; None if all are."""
        ...

    def null_counts(self, column: ColumnPath) -> npt.NDArray[np.int64] | None:
        """Nulls per container, `UNKNOWN_COUNT` where unknown; None if all are."""
        ...

    def row_counts(self) -> npt.NDArray[np.int64]:
        """Rows per container."""
        ...

    def may_contain(self, column: ColumnPath, values: pa.Array) -> npt.NDArray[np.bool_] | None:
        """False per container that surely holds none of the values; None if all are unknown."""
        ...


class UnknownStatistics:
    """Containers of which only the number of rows is known; a base for partial knowledge."""

    def __init__(self, row_counts: npt.NDArray[np.int64]) -> None:
        self._row_counts = row_counts

    @property
    def num_containers(self) -> int:
        """How many containers are judged."""
        return len(self._row_counts)

    def min_values(self, column: ColumnPath) -> pa.Array | None:  # noqa: ARG002
        """Not known."""
        return None

    def max_values(self, column: ColumnPath) -> pa.Array | None:  # noqa: ARG002
        """Not known."""
        return None

    def null_counts(self, column: ColumnPath) -> npt.NDArray[np.int64] | None:  # noqa: ARG002
        """Not known."""
        return None

    def row_counts(self) -> npt.NDArray[np.int64]:
        """Rows per container."""
        return self._row_counts

    def may_contain(
        self,
        column: ColumnPath,  # noqa: ARG002
        values: pa.Array,  # noqa: ARG002
    ) -> npt.NDArray[np.bool_] | None:
        """Not known."""
        return None
