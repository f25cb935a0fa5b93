"""Values in a form that sorts as DataFusion sorts them.

In: an array of any ordered type. Out: integers, bytes or decimals, with nulls kept, that sort as
DataFusion sorts the values.

* Floats become the integers that IEEE 754's total order compares: -NaN, -inf, -0.0, 0.0, inf, NaN.
  PyArrow's sort puts every NaN at the end.
* Text and bytes become bytes; dates, times and booleans become integers.

Invariant: `a` sorts before `b` if and only if its sort value is smaller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lm_datafusion.predicate.fold import is_monotone_cast
from lm_datafusion.predicate.kinds import is_text, is_text_or_bytes

if TYPE_CHECKING:
    Values: TypeAlias = pa.Array | pa.ChunkedArray


_WHOLE_NUMBERS = {32: pa.int32(), 64: pa.int64()}


def has_sort_values(data_type: pa.DataType) -> bool:
    """Whether values of a type have sort values."""
    types = pa.types
    if types.is_dictionary(data_type):
        return has_sort_values(data_type.value_type)
    return (
        is_text_or_bytes(data_type)
        or types.is_fixed_size_binary(data_type)
        or types.is_integer(data_type)
        or types.is_floating(data_type)
        or types.is_decimal(data_type)
        or types.is_boolean(data_type)
        or types.is_date(data_type)
        or types.is_time(data_type)
        or types.is_timestamp(data_type)
        or types.is_duration(data_type)
    )


def to_sort_values(values: Values) -> pa.Array:
    """The sort values of an array.

    Raises:
        TypeError: The type has no order; see `has_sort_values`.
    """
    if isinstance(values, pa.ChunkedArray):
        parts = [to_sort_values(chunk) for chunk in values.chunks]
        # The empty array provides the type if there is no chunk.
        return pa.concat_arrays([*parts, to_sort_values(pa.array([], values.type))])
    data_type, types = values.type, pa.types
    if not has_sort_values(data_type):
        raise TypeError(f"values of type {data_type} have no order")
    if types.is_dictionary(data_type):
        return to_sort_values(values.cast(data_type.value_type))
    if is_text_or_bytes(data_type) or types.is_fixed_size_binary(data_type):
        return values.cast(pa.binary()).cast(pa.large_binary())
    if types.is_floating(data_type):
        return _total_order(values)
    if types.is_boolean(data_type):
        return values.cast(pa.uint8())
    if types.is_decimal32(data_type) or types.is_decimal64(data_type):
        # PyArrow has no sort for them.
        return values.cast(pa.decimal128(data_type.precision, data_type.scale))
    if types.is_integer(data_type) or types.is_decimal(data_type):
        return values
    return values.view(_WHOLE_NUMBERS[data_type.bit_width])


def from_sort_value(scalar: pa.Scalar, data_type: pa.DataType) -> pa.Scalar:
    """The value of a sort value, for text, bytes, integers, dates and times.

    Raises:
        ValueError: The type cannot be restored from its sort values.
    """
    if pa.types.is_dictionary(data_type):
        data_type = data_type.value_type
    value = scalar.as_py()
    if is_text(data_type):
        return pa.scalar(value.decode(), pa.string())
    if is_text_or_bytes(data_type):
        return pa.scalar(value, pa.binary())
    if pa.types.is_floating(data_type) or pa.types.is_decimal(data_type):
        raise ValueError(f"no value of {data_type} by its sort value")
    return pa.array([value], scalar.type).view(data_type)[0]


def bounds_to_sort_values(bounds: pa.Array | None, data_type: pa.DataType) -> pa.Array | None:
    """Bounds of a column as sort values of its type in the table; None where unknown.

    Bounds of floats ignore NaN, which sorts before or after all numbers, so they are not used.
    """
    if pa.types.is_dictionary(data_type):
        data_type = data_type.value_type
    if bounds is None or pa.types.is_floating(data_type) or pa.types.is_floating(bounds.type):
        return None
    is_bytes = is_text_or_bytes(data_type) or pa.types.is_fixed_size_binary(data_type)
    if is_bytes != pa.types.is_binary(bounds.type):
        return None
    if not is_bytes and bounds.type != data_type:
        if not is_monotone_cast(bounds.type, data_type):
            return None
        bounds = bounds.cast(data_type)
    return to_sort_values(bounds)


def _total_order(values: pa.Array) -> pa.Array:
    """Floats as signed integers; negative ones have all bits but the sign flipped."""
    if values.type == pa.float16():
        values = values.cast(pa.float32())
    numbers = pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False)
    raw = numbers.view(f"i{numbers.itemsize}")
    ordered = np.where(raw < 0, raw ^ np.iinfo(raw.dtype).max, raw)
    is_null = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return pa.array(ordered, mask=is_null)
