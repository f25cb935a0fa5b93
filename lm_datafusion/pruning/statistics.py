"""The statistics that pruning needs, for containers of any kind and format.

In: a column path. Out: one value per container, null or negative where unknown.

Invariant: `min <= x <= max` for every value x of the container that is neither null nor NaN;
bounds need not be tight (truncated strings).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

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

    def nan_counts(self, column: ColumnPath) -> npt.NDArray[np.int64] | None:
        """NaN per container, of either sign, `UNKNOWN_COUNT` where unknown; None if all are."""
        ...

    def row_counts(self) -> npt.NDArray[np.int64]:
        """Rows per container."""
        ...

    def may_contain(self, column: ColumnPath, values: pa.Array) -> npt.NDArray[np.bool_] | None:
        """False for each container that holds none of the values; None if all are unknown."""
        ...


class UnknownStatistics:
    """Containers with known row counts only; a base class for partial statistics."""

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

    def nan_counts(self, column: ColumnPath) -> npt.NDArray[np.int64] | None:  # noqa: ARG002
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


class ConstantStatistics(UnknownStatistics):
    """Containers in which some columns are constant: partitions, missing columns."""

    def __init__(
        self, row_counts: npt.NDArray[np.int64], constants: Mapping[str, pa.Scalar]
    ) -> None:
        super().__init__(row_counts)
        self._constants = constants

    def min_values(self, column: ColumnPath) -> pa.Array | None:
        """The constant, if it is not null."""
        value = self._constants.get(column[0]) if len(column) == 1 else None
        if value is None or not value.is_valid:
            return None
        return pa.repeat(value, self.num_containers)

    def max_values(self, column: ColumnPath) -> pa.Array | None:
        """The constant, if it is not null."""
        return self.min_values(column)

    def null_counts(self, column: ColumnPath) -> npt.NDArray[np.int64] | None:
        """Every row, or none."""
        value = self._constants.get(column[0])
        if value is None or (len(column) > 1 and value.is_valid):
            return None
        return np.zeros(self.num_containers, np.int64) if value.is_valid else self._row_counts


class JoinedStatistics(UnknownStatistics):
    """The concatenated containers of several parts: judged at once, at the cost of one.

    Bloom filters are not used. Statistics that only some parts have, or that differ in type, are a
    `TypeError`: such parts must be judged separately.
    """

    def __init__(self, parts: Sequence[PruningStatistics]) -> None:
        super().__init__(np.concatenate([part.row_counts() for part in parts]))
        self._parts = parts
        self._found: dict[tuple[str, ColumnPath], pa.Array | None] = {}

    def min_values(self, column: ColumnPath) -> pa.Array | None:
        """Lower bounds of all parts."""
        return self._bounds("min_values", column)

    def max_values(self, column: ColumnPath) -> pa.Array | None:
        """Upper bounds of all parts."""
        return self._bounds("max_values", column)

    def null_counts(self, column: ColumnPath) -> npt.NDArray[np.int64] | None:
        """Null counts of all parts."""
        counts = [part.null_counts(column) for part in self._parts]
        known = [count for count in counts if count is not None]
        return np.concatenate(known) if self._is_of_all(known) else None

    def nan_counts(self, column: ColumnPath) -> npt.NDArray[np.int64] | None:
        """NaN counts of all parts; parts without NaN counts are unknown, not an error."""
        counts = [part.nan_counts(column) for part in self._parts]
        if all(count is None for count in counts):
            return None
        return np.concatenate(
            [
                np.full(part.num_containers, UNKNOWN_COUNT) if count is None else count
                for part, count in zip(self._parts, counts, strict=True)
            ]
        )

    def _bounds(self, which: str, column: ColumnPath) -> pa.Array | None:
        if (which, column) not in self._found:
            bounds = [getattr(part, which)(column) for part in self._parts]
            known = [bound for bound in bounds if bound is not None]
            if len({bound.type for bound in known}) > 1:
                raise TypeError(f"{column} has several types")
            joined = pa.concat_arrays(known) if self._is_of_all(known) else None
            self._found[which, column] = joined
        return self._found[which, column]

    def _is_of_all(self, known: Sequence[object]) -> bool:
        if known and len(known) < len(self._parts):
            raise TypeError("known in some parts only")
        return bool(known)
