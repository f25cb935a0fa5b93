"""Whether an array that kernels made of damaged pages is one at all."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def bits_of(array: pa.Array) -> pa.Array:
    """Numbers as integers: NaN equals itself, and no time or decimal is out of its bounds."""
    data_type = array.type
    if pa.types.is_decimal(data_type):
        return array.view(pa.binary(data_type.byte_width))
    is_number = pa.types.is_primitive(data_type) and not pa.types.is_boolean(data_type)
    widths = {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}
    return array.view(widths[data_type.bit_width]) if is_number else array


def check_array(array: pa.Array, row_count: int) -> None:
    """Raises unless an array is valid in every respect, and has so many rows."""
    assert len(array) == row_count, f"{len(array)} rows, not {row_count}"
    array.validate()
    bits_of(array).validate(full=True)


def content_of(array: pa.Array) -> list[Any]:
    """The values as Python has them, numbers by their bits."""
    return bits_of(array).to_pylist()
