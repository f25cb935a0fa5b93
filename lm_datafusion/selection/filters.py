"""Converts boolean arrays of numpy and pyarrow to masks.

In: a numpy boolean array, a `pyarrow.BooleanArray` or `pyarrow.ChunkedArray` (the result of a
predicate). Out: a numpy boolean array.

Invariant: nulls are not selected, as in a SQL WHERE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pyarrow.lib import BooleanArray, ChunkedArray, NullArray

from lm_datafusion.errors import OptionError

if TYPE_CHECKING:
    from lm_datafusion.selection.runs import BoolArray


def filter_to_mask(values: Any) -> BoolArray:
    """Turn one boolean array into a numpy mask.

    Args:
        values: A one-dimensional boolean numpy array, a pyarrow boolean array or chunked array.
            An array of pyarrow's null type is all null.

    Returns:
        The mask. A numpy array is returned as is, not copied.

    Raises:
        OptionError: The array has another kind, type or dimension.
    """
    if isinstance(values, ChunkedArray):
        chunks = [filter_to_mask(chunk) for chunk in values.chunks]
        return np.concatenate([np.empty(0, np.bool_), *chunks])
    if isinstance(values, NullArray):
        return np.zeros(len(values), np.bool_)
    if isinstance(values, BooleanArray):
        return _arrow_to_mask(values)
    if isinstance(values, np.ndarray) and values.dtype == np.bool_ and values.ndim == 1:
        return values
    what = getattr(values, "type", None) or getattr(values, "dtype", None) or type(values).__name__
    raise OptionError(f"a filter is a one-dimensional boolean array, not {what}")


def _arrow_to_mask(values: Any) -> BoolArray:
    # Unpacking the bits here is some twenty times faster than Array.to_numpy.
    validity, bits = values.buffers()
    mask = _unpack(bits, values.offset, len(values))
    if values.null_count:
        mask &= _unpack(validity, values.offset, len(values))
    return mask


def _unpack(buffer: Any, offset: int, length: int) -> BoolArray:
    """Bits `[offset, offset + length)` of an Arrow bitmap, least significant bit first."""
    if length == 0:
        return np.empty(0, np.bool_)
    first_byte, first_bit = divmod(offset, 8)
    packed = np.frombuffer(buffer, np.uint8, offset=first_byte)
    bits = np.unpackbits(packed, count=first_bit + length, bitorder="little")
    return bits[first_bit:].view(np.bool_)
