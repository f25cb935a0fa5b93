"""ORC's statistics as `PruningStatistics`.

In: the facts of a file. Out: bounds and counts of stripes, and of the row groups of a stripe, with
what bloom filters rule out.

Columns are found by a path of names through structs. Those below lists and maps have none.

Invariant: metadata that cannot be read is unknown, not an error: pruning fails open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lm_datafusion.errors import CorruptFileError
from lm_datafusion.formats.orc.bloom_filter import hash_literal
from lm_datafusion.formats.orc.bounds import BoundedColumn, bounds, nan_counts, null_counts
from lm_datafusion.formats.orc.column_statistics import ColumnStatistics
from lm_datafusion.formats.orc.spec import StreamKind
from lm_datafusion.pruning.statistics import ConstantStatistics, UnknownStatistics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from lm_datafusion.formats.orc.facts import OrcFacts
    from lm_datafusion.formats.orc.stripe import Stripe
    from lm_datafusion.storage import OpenFile

    ColumnPath = tuple[str, ...]
    Statistics = Sequence[ColumnStatistics | None]


class _Known(NamedTuple):
    """What is known of a column."""

    lower: pa.Array | None = None
    upper: pa.Array | None = None
    nulls: npt.NDArray[np.int64] | None = None
    nans: npt.NDArray[np.int64] | None = None


class _OrcStatistics(ConstantStatistics):
    """Statistics that are parsed when a column is first asked for."""

    def __init__(
        self,
        facts: OrcFacts,
        schema: pa.Schema,
        row_counts: npt.NDArray[np.int64],
        constants: Mapping[str, pa.Scalar],
    ) -> None:
        super().__init__(row_counts, constants)
        self._facts = facts
        self._schema = schema
        self._found: dict[ColumnPath, _Known] = {}

    def min_values(self, column: ColumnPath) -> pa.Array | None:
        """Lower bounds."""
        if column[0] in self._constants:
            return super().min_values(column)
        return self._known(column).lower

    def max_values(self, column: ColumnPath) -> pa.Array | None:
        """Upper bounds."""
        if column[0] in self._constants:
            return super().max_values(column)
        return self._known(column).upper

    def null_counts(self, column: ColumnPath) -> npt.NDArray[np.int64] | None:
        """Null counts."""
        if column[0] in self._constants:
            return super().null_counts(column)
        return self._known(column).nulls

    def nan_counts(self, column: ColumnPath) -> npt.NDArray[np.int64] | None:
        """NaN counts."""
        return None if column[0] in self._constants else self._known(column).nans

    def _known(self, path: ColumnPath) -> _Known:
        if path not in self._found:
            self._found[path] = self._load(path)
        return self._found[path]

    def _load(self, path: ColumnPath) -> _Known:
        tail = self._facts.tail
        number = tail.types.find(path)
        data_type = leaf_type(self._schema, path)
        if number is None or data_type is None or tail.has_encrypted(number):
            return _Known()
        try:
            statistics = self._load_statistics(number)
        except (CorruptFileError, ValueError):
            return _Known()
        if statistics is None:
            return _Known()
        column = BoundedColumn(
            kind=tail.types.types[number].kind,
            data_type=data_type,
            writer=tail.footer.writer,
            writer_version=tail.post_script.writer_version,
            zone=self._zone(),
            is_nested=len(path) > 1,
        )
        lower, upper = bounds(column, statistics) or (None, None)
        nulls = null_counts(column, statistics, self._row_counts)
        return _Known(lower, upper, nulls, nan_counts(column, statistics))

    def _load_statistics(self, number: int) -> Statistics | None:
        raise NotImplementedError

    def _zone(self) -> str:
        return ""


class StripeStatistics(_OrcStatistics):
    """Stripes of a file, by the statistics at its end, if those have been loaded."""

    def __init__(
        self,
        facts: OrcFacts,
        schema: pa.Schema,
        stripes: Sequence[int],
        constants: Mapping[str, pa.Scalar],
    ) -> None:
        rows = np.array([facts.tail.stripes[n].row_count for n in stripes], np.int64)
        super().__init__(facts, schema, rows, constants)
        self._stripes = stripes

    def _load_statistics(self, number: int) -> Statistics | None:
        found = [self._facts.stripe_statistics(stripe, number) for stripe in self._stripes]
        return None if all(statistics is None for statistics in found) else found


class RowGroupStatistics(_OrcStatistics):
    """The row groups of a stripe, by its row index.

    `starts` holds the first row of each.
    """

    def __init__(
        self,
        facts: OrcFacts,
        schema: pa.Schema,
        stripe: Stripe,
        file: OpenFile,
        constants: Mapping[str, pa.Scalar],
    ) -> None:
        self.starts = np.arange(stripe.group_count, dtype=np.int64) * stripe.stride
        rows = np.minimum(stripe.stride, stripe.row_count - self.starts)
        super().__init__(facts, schema, rows, constants)
        self._stripe = stripe
        self._file = file

    @property
    def has_pages(self) -> bool:
        """Whether the stripe has row groups, and not only itself."""
        return self._stripe.group_count > 1

    def _load_statistics(self, number: int) -> Statistics | None:
        index = self._facts.load_row_index(self._file, self._stripe, number)
        if index is None or len(index) != self.num_containers:
            return None
        messages = [index.statistics(group) for group in range(len(index))]
        return [None if m is None else ColumnStatistics.parse(m) for m in messages]

    def _zone(self) -> str:
        return self._stripe.writer_timezone


class BloomFilterStatistics(UnknownStatistics):
    """The row groups of a stripe, by the bloom filters of its columns."""

    def __init__(
        self,
        facts: OrcFacts,
        schema: pa.Schema,
        stripe: Stripe,
        file: OpenFile,
        constants: Mapping[str, pa.Scalar],
    ) -> None:
        self.starts = np.arange(stripe.group_count, dtype=np.int64) * stripe.stride
        super().__init__(np.minimum(stripe.stride, stripe.row_count - self.starts))
        self._facts = facts
        self._schema = schema
        self._stripe = stripe
        self._file = file
        self._constants = constants

    def has_filter(self, column: ColumnPath) -> bool:
        """Whether the column has bloom filters in this stripe."""
        number = None if column[0] in self._constants else self._facts.tail.types.find(column)
        return number is not None and (number, StreamKind.BLOOM_FILTER_UTF8) in self._stripe.streams

    def may_contain(self, column: ColumnPath, values: pa.Array) -> npt.NDArray[np.bool_] | None:
        """Whether bloom filters may hold any of the values."""
        tail = self._facts.tail
        number, data_type = tail.types.find(column), leaf_type(self._schema, column)
        if column[0] in self._constants or number is None or data_type is None:
            return None
        if tail.has_encrypted(number):
            return None
        kind = tail.types.types[number].kind
        hashes = [hash_literal(value, kind, data_type) for value in values]
        known = [value for value in hashes if value is not None]
        if len(known) < len(hashes):
            return None
        try:
            filters = self._facts.load_bloom_filters(self._file, self._stripe, number)
        except CorruptFileError:
            return None
        if filters is None or len(filters) != self.num_containers:
            return None
        return filters.may_contain_any(known)


def leaf_type(schema: pa.Schema, path: ColumnPath) -> pa.DataType | None:
    """The type at a path of names; None unless there is exactly one such column."""
    import pyarrow as pa

    indexes = schema.get_all_field_indices(path[0])
    if len(indexes) != 1:
        return None
    data_type = schema.field(indexes[0]).type
    for name in path[1:]:
        if not pa.types.is_struct(data_type) or len(data_type.get_all_field_indices(name)) != 1:
            return None
        data_type = data_type.field(name).type
    return data_type
