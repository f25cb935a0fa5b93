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
from lm_datafusion.protobuf import as_bytes, fields
from lm_datafusion.pruning.statistics import UnknownStatistics

if TYPE_CHECKING:
    from collections.abc import Sequence

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


class _OrcStatistics(UnknownStatistics):
    """Statistics that are parsed when a column is first asked for."""

    def __init__(
        self,
        facts: OrcFacts,
        file: OpenFile,
        schema: pa.Schema,
        row_counts: npt.NDArray[np.int64],
    ) -> None:
        super().__init__(row_counts)
        self._facts = facts
        self._file = file
        self._schema = schema
        self._found: dict[ColumnPath, _Known] = {}

    def min_values(self, column: ColumnPath) -> pa.Array | None:
        """Lower bounds."""
        return self._known(column).lower

    def max_values(self, column: ColumnPath) -> pa.Array | None:
        """Upper bounds."""
        return self._known(column).upper

    def null_counts(self, column: ColumnPath) -> npt.NDArray[np.int64] | None:
        """Null counts."""
        return self._known(column).nulls

    def nan_counts(self, column: ColumnPath) -> npt.NDArray[np.int64] | None:
        """NaN counts."""
        return self._known(column).nans

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
    """The stripes of a file, by the statistics at its end."""

    def __init__(self, facts: OrcFacts, file: OpenFile, schema: pa.Schema) -> None:
        rows = np.array([stripe.row_count for stripe in facts.tail.stripes], np.int64)
        super().__init__(facts, file, schema, rows)

    def _load_statistics(self, number: int) -> Statistics | None:
        messages = self._facts.load_stripe_statistics(self._file)
        return [_column_statistics(message, number) for message in messages] or None


class RowGroupStatistics(_OrcStatistics):
    """The row groups of a stripe, by its row index and bloom filters."""

    def __init__(
        self,
        facts: OrcFacts,
        file: OpenFile,
        schema: pa.Schema,
        stripe: Stripe,
        *,
        use_bloom_filters: bool = True,
    ) -> None:
        starts = np.arange(stripe.group_count, dtype=np.int64) * stripe.stride
        rows = np.minimum(stripe.stride, stripe.row_count - starts)
        super().__init__(facts, file, schema, rows)
        self._stripe = stripe
        self._use_bloom_filters = use_bloom_filters

    def may_contain(self, column: ColumnPath, values: pa.Array) -> npt.NDArray[np.bool_] | None:
        """Whether bloom filters may hold any of the values."""
        if not self._use_bloom_filters:
            return None
        tail = self._facts.tail
        number, data_type = tail.types.find(column), leaf_type(self._schema, column)
        if number is None or data_type is None or tail.has_encrypted(number):
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

    def _load_statistics(self, number: int) -> Statistics | None:
        index = self._facts.load_row_index(self._file, self._stripe, number)
        if index is None or len(index) != self.num_containers:
            return None
        messages = [index.statistics(group) for group in range(len(index))]
        return [None if m is None else ColumnStatistics.parse(m) for m in messages]

    def _zone(self) -> str:
        return self._stripe.writer_timezone


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


def _column_statistics(message: bytes, number: int) -> ColumnStatistics | None:
    """The statistics of one column in those of a stripe, which has one message per column."""
    columns = (as_bytes(value) for field, value in fields(message) if field == 1)
    for index, column in enumerate(columns):
        if index == number:
            return ColumnStatistics.parse(column)
    return None
