"""Selects decoded values, and converts text to layouts that PyArrow supports.

In: an array and a selection over its rows. Out: the selected values.

Measured with `tests/benchmark/bench_selection.py`: `take` wins for a few rows in a hundred,
`filter` for short runs, slices for long ones.

Invariant: `len(result) == selection.row_count`; row order is kept. A small result does not keep
the memory of a large array alive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from lm_datafusion.kernels import kernel_info
from lm_datafusion.selection.strategy import RowSelectionStrategy

if TYPE_CHECKING:
    from lm_datafusion.selection.selection import RowSelection

    Values: TypeAlias = pa.Array | pa.ChunkedArray

SPARSE_FRACTION = 0.02
# Below this share a slice is copied, so that it does not keep the rest alive.
OWN_MEMORY_FRACTION = 0.25


def select_values(values: Values, selection: RowSelection) -> Values:
    """The selected values, in order."""
    if selection.selects_all():
        return values
    if not selection.selects_any():
        return values.slice(0, 0)
    if _is_view(values.type):
        return take_values(values, pa.array(selection.to_indices().astype(np.int32)))
    share = selection.row_count / selection.total_rows
    is_in_chunks = isinstance(values, pa.ChunkedArray)
    # Arrow's `take` concatenates chunks first, including dictionaries.
    if share < SPARSE_FRACTION and not (is_in_chunks and pa.types.is_dictionary(values.type)):
        return values.take(pa.array(selection.to_indices()))
    if selection.strategy() is RowSelectionStrategy.MASK or is_in_chunks:
        return values.filter(_packed(selection))
    starts, stops = selection.to_ranges()
    parts = [
        values.slice(start, stop - start)
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
    ]
    if len(parts) == 1 and share >= OWN_MEMORY_FRACTION:
        return parts[0]
    return pa.concat_arrays([*parts, values.slice(0, 0)])


def take_values(values: Values, rows: pa.Array) -> Values:
    """Values by position; PyArrow has no `take` for views."""
    if not _is_view(values.type):
        return values.take(rows)
    if kernel_info().is_active and isinstance(values, pa.Array):
        from lm_datafusion.kernels.columns import take_views

        return take_views(values, rows.to_numpy().astype(np.int32, copy=False))
    return without_views(values).take(rows).cast(values.type)


def without_views(values: Values) -> Values:
    """Views as plain text or bytes, also in nested types: PyArrow cannot filter views."""
    plain = _plain_type(values.type)
    return values if plain == values.type else values.cast(plain)


def _plain_type(data_type: pa.DataType) -> pa.DataType:
    """A type with plain text and bytes instead of views."""
    types = pa.types
    if types.is_string_view(data_type):
        return pa.large_string()
    if types.is_binary_view(data_type):
        return pa.large_binary()
    if types.is_struct(data_type):
        return pa.struct([_plain_field(field) for field in data_type])
    if types.is_map(data_type):
        item = _plain_field(data_type.item_field)
        return pa.map_(_plain_field(data_type.key_field), item, data_type.keys_sorted)
    if types.is_list(data_type):
        return pa.list_(_plain_field(data_type.value_field))
    if types.is_large_list(data_type):
        return pa.large_list(_plain_field(data_type.value_field))
    if types.is_fixed_size_list(data_type):
        return pa.list_(_plain_field(data_type.value_field), data_type.list_size)
    return data_type


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(_plain_type(field.type))


def _is_view(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(data_type) or pa.types.is_binary_view(data_type))


def _packed(selection: RowSelection) -> pa.Array:
    # Packing here is twenty times as fast as `pa.array` of booleans.
    mask = selection.to_mask()
    bits = np.packbits(mask, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, pa.py_buffer(bits)])
