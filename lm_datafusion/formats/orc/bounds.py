"""Bounds and counts that can be trusted, from the statistics of a column.

In: the statistics of containers (stripes or row groups), the type of the column, and who wrote the
file. Out: arrays of lower and upper bounds, null counts and NaN counts.

Traps, each with a test:

* Doubles. A NaN in the first row makes minimum and maximum NaN; a later one leaves them numbers.
  The bounds of a stripe are merged from those of its row groups, and merging with NaN changes
  nothing: then they miss all values of a row group. The sum tells: it is a number only if there is
  no NaN. Bounds are used only with such a sum, and only of writers known to add up all values.
* Zeros. The maximum can be -0.0 where 0.0 occurs. Bounds that are zero are widened to both zeros.
* Text. The first writer version compared it wrongly (HIVE-8732). Long text has bounds that are no
  values: only `lowerBound` and `upperBound`.
* Decimals of up to 18 digits. Writers before ORC-517 merged them wrongly.
* Timestamps. Only the UTC fields (ORC-135) mean the same everywhere; C++ writers truncate
  milliseconds towards zero, so bounds are widened by a second. TIMESTAMP is the clock on the
  writer's wall: time zone rules of writer and reader may differ, so bounds are widened by a day
  unless the writer's zone is UTC.
* Counts. A count of values that contradicts `hasNull` or the rows is not used.

Invariant: unknown is null, or `UNKNOWN_COUNT`; see `pruning.statistics`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lm_datafusion.formats.orc.spec import TypeKind, Writer, WriterVersion
from lm_datafusion.pruning.statistics import UNKNOWN_COUNT

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from lm_datafusion.formats.orc.column_statistics import ColumnStatistics

    Pair = tuple[Any, Any]

_NOTHING: Final = (None, None)
_INTEGERS = (TypeKind.BYTE, TypeKind.SHORT, TypeKind.INT, TypeKind.LONG)
_FLOATS = (TypeKind.FLOAT, TypeKind.DOUBLE)
_TEXTS = (TypeKind.STRING, TypeKind.VARCHAR, TypeKind.CHAR)
_MOST_DECIMAL_64 = 18
_UTC_ZONES = frozenset({"UTC", "GMT", "Etc/UTC", "Etc/GMT", "Z"})
_SECOND_MS = 1000
_DAY_MS = 86_400_000
_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedColumn:
    """What decides how the statistics of a column are read.

    Attributes:
        kind: ORC's type.
        data_type: PyArrow's type.
        writer: Who wrote the file.
        writer_version: Which version.
        zone: The writer's time zone; empty if it is not known.
        is_nested: Whether the column lies in a struct, whose nulls count as its own.
    """

    kind: int
    data_type: pa.DataType
    writer: int
    writer_version: int
    zone: str
    is_nested: bool


def bounds(
    column: BoundedColumn, statistics: Sequence[ColumnStatistics | None]
) -> tuple[pa.Array, pa.Array] | None:
    """Lower and upper bounds of containers, null where unknown; None if the type has none."""
    data_type = _bound_type(column)
    if data_type is None:
        return None
    pairs = [_NOTHING if s is None or not s.value_count else _pair(column, s) for s in statistics]
    lower, upper = (
        pa.array([pair[side] for pair in pairs], _plain_type(data_type)).cast(data_type)
        for side in (0, 1)
    )
    is_sound = pc.less_equal(lower, upper).fill_null(False)
    nothing = pa.scalar(None, data_type)
    return pc.if_else(is_sound, lower, nothing), pc.if_else(is_sound, upper, nothing)


def null_counts(
    column: BoundedColumn,
    statistics: Sequence[ColumnStatistics | None],
    row_counts: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """Nulls of containers, `UNKNOWN_COUNT` where unknown."""
    counts = [
        UNKNOWN_COUNT if s is None else _null_count(column, s, rows)
        for s, rows in zip(statistics, row_counts.tolist(), strict=True)
    ]
    return np.array(counts, np.int64)


def nan_counts(
    column: BoundedColumn, statistics: Sequence[ColumnStatistics | None]
) -> npt.NDArray[np.int64] | None:
    """Zero for containers without NaN, `UNKNOWN_COUNT` for others; None if the type has none."""
    if column.kind not in _FLOATS:
        return None
    counts = [0 if s is not None and _has_no_nan(column, s) else UNKNOWN_COUNT for s in statistics]
    return np.array(counts, np.int64)


def _bound_type(column: BoundedColumn) -> pa.DataType | None:
    """The type of bounds; None if there are none to trust."""
    kind, data_type, version = column.kind, column.data_type, column.writer_version
    if kind in _TEXTS:
        return pa.binary() if version >= WriterVersion.HIVE_8732 else None
    if kind in (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT):
        is_known = pa.types.is_timestamp(data_type) and data_type.unit == "ns"
        return data_type if is_known and version >= WriterVersion.ORC_135 else None
    if kind == TypeKind.DECIMAL:
        if not pa.types.is_decimal(data_type):
            return None
        is_short = data_type.precision <= _MOST_DECIMAL_64
        return None if is_short and version < WriterVersion.ORC_517 else data_type
    is_bounded = kind in (*_INTEGERS, *_FLOATS, TypeKind.BOOLEAN, TypeKind.DATE)
    return data_type if is_bounded else None


def _plain_type(data_type: pa.DataType) -> pa.DataType:
    """The type in which bounds are given before they are cast."""
    if pa.types.is_timestamp(data_type):
        return pa.int64()
    return pa.int32() if pa.types.is_date32(data_type) else data_type


def _pair(column: BoundedColumn, statistics: ColumnStatistics) -> Pair:
    kind = column.kind
    if kind in _INTEGERS:
        half = 1 << (column.data_type.bit_width - 1)
        return _within(statistics.integers, -half, half - 1)
    if kind == TypeKind.DATE:
        return _within(statistics.dates, -(1 << 31), (1 << 31) - 1)
    if kind in _FLOATS:
        return _float_pair(column, statistics)
    if kind in _TEXTS:
        return statistics.texts
    if kind == TypeKind.BOOLEAN:
        return _boolean_pair(statistics)
    if kind == TypeKind.DECIMAL:
        return _decimal_pair(statistics, column.data_type)
    return _timestamp_pair(column, statistics)


def _within(pair: tuple[int | None, int | None], least: int, most: int) -> Pair:
    lower, upper = pair
    is_known = lower is not None and upper is not None and least <= lower <= upper <= most
    return pair if is_known else _NOTHING


def _float_pair(column: BoundedColumn, statistics: ColumnStatistics) -> Pair:
    if not _has_no_nan(column, statistics):
        return _NOTHING
    lower, upper, _ = statistics.doubles
    if lower is None or upper is None:
        return _NOTHING
    if column.kind == TypeKind.FLOAT:
        with np.errstate(over="ignore"):
            is_exact = float(np.float32(lower)) == lower and float(np.float32(upper)) == upper
        if not is_exact:
            return _NOTHING
    return (-0.0 if lower == 0 else lower), (0.0 if upper == 0 else upper)


def _has_no_nan(column: BoundedColumn, statistics: ColumnStatistics) -> bool:
    """Whether minimum, maximum and sum prove that there is no NaN."""
    if column.writer not in (Writer.JAVA, Writer.CPP):
        return False
    return all(value is not None and not math.isnan(value) for value in statistics.doubles)


def _boolean_pair(statistics: ColumnStatistics) -> Pair:
    true_count, value_count = statistics.true_count, statistics.value_count
    if true_count is None or value_count is None or not 0 <= true_count <= value_count:
        return _NOTHING
    return true_count == value_count, true_count > 0


def _decimal_pair(statistics: ColumnStatistics, data_type: pa.DataType) -> Pair:
    found = []
    for text in statistics.decimals:
        try:
            value = Decimal((text or b"").decode("ascii"))
        except (InvalidOperation, UnicodeDecodeError):
            return _NOTHING
        if not value.is_finite() or not _fits(value, data_type):
            return _NOTHING
        found.append(value)
    return found[0], found[1]


def _fits(value: Decimal, data_type: pa.DataType) -> bool:
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    whole_digits = len(digits) + exponent
    return -exponent <= data_type.scale and whole_digits <= data_type.precision - data_type.scale


def _timestamp_pair(column: BoundedColumn, statistics: ColumnStatistics) -> Pair:
    lower, upper = statistics.utc_milliseconds
    if lower is None or upper is None:
        return _NOTHING
    is_exact = column.kind == TypeKind.TIMESTAMP_INSTANT or column.zone in _UTC_ZONES
    slack = _SECOND_MS if is_exact else _DAY_MS
    least, most = (lower - slack) * _NS_PER_MS, (upper + slack) * _NS_PER_MS
    return _within((least, most), -(1 << 63), (1 << 63) - 1)


def _null_count(column: BoundedColumn, statistics: ColumnStatistics, row_count: int) -> int:
    values, has_null = statistics.value_count, statistics.has_null
    if values is None or not 0 <= values <= row_count:
        return UNKNOWN_COUNT
    if values == row_count:
        return UNKNOWN_COUNT if has_null else 0
    # Nulls of a struct are not nulls of its columns to a writer.
    return UNKNOWN_COUNT if has_null is False and not column.is_nested else row_count - values
