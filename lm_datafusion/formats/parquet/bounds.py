"""Bounds of statistics and column indexes as Arrow arrays.

In: physical minima or maxima (PLAIN bytes, or the values of pyarrow's `min_raw`), the leaf's
physical type and its Arrow type. Out: an array of the Arrow type (text and bytes as `binary`),
null where a bound is missing.

Types with untrustworthy bounds have none: INT96 (no order is defined), intervals, timestamps whose
Arrow unit is not the stored one. If a minimum is above its maximum, neither is a bound.

Invariant: the array's values sort in the order that the bounds were computed with.
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lm_datafusion.predicate.kinds import is_text_or_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

_DTYPES = {"INT32": "<i4", "INT64": "<i8", "FLOAT": "<f4", "DOUBLE": "<f8"}
_FLOATS = {"FLOAT": "<f4", "DOUBLE": "<f8"}
_UNIT_WORDS = {"ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_EXACT = Context(prec=100)


def has_bounds(physical_type: str, logical_type: str, arrow_type: pa.DataType) -> bool:
    """Whether the bounds of a leaf can be read as values of the Arrow type."""
    types = pa.types
    if physical_type in {"BOOLEAN", "FLOAT", "DOUBLE"}:
        return types.is_boolean(arrow_type) or types.is_floating(arrow_type)
    if physical_type in {"INT32", "INT64"}:
        return _has_integer_bounds(logical_type, arrow_type)
    if physical_type == "BYTE_ARRAY":
        return is_text_or_bytes(arrow_type) or types.is_decimal(arrow_type)
    if physical_type == "FIXED_LEN_BYTE_ARRAY":
        return (
            types.is_decimal(arrow_type)
            or types.is_fixed_size_binary(arrow_type)
            or arrow_type == pa.float16()
        ) and "Interval" not in logical_type
    return False


def _has_integer_bounds(logical_type: str, arrow_type: pa.DataType) -> bool:
    types = pa.types
    if types.is_timestamp(arrow_type) or types.is_time(arrow_type):
        return _UNIT_WORDS.get(arrow_type.unit, "?") in logical_type
    return (
        types.is_integer(arrow_type) or types.is_date32(arrow_type) or types.is_decimal(arrow_type)
    )


def decode_plain_bounds(
    values: Sequence[bytes],
    is_missing: npt.NDArray[np.bool_],
    physical_type: str,
    arrow_type: pa.DataType,
) -> pa.Array:
    """Bounds from a column index: PLAIN-encoded, without length prefixes.

    Raises:
        ValueError: A bound does not have the length of its type.
    """
    if physical_type == "BOOLEAN":
        raw: Sequence[Any] = [bool(value[0]) if value else None for value in values]
    elif physical_type in _DTYPES:
        dtype = np.dtype(_DTYPES[physical_type])
        filler = bytes(dtype.itemsize)
        kept = [filler if gone else v for v, gone in zip(values, is_missing, strict=True)]
        if any(len(value) != dtype.itemsize for value in kept):
            raise ValueError("a bound has not the length of its type")
        return _from_numbers(np.frombuffer(b"".join(kept), dtype), is_missing, arrow_type)
    else:
        raw = values
    present = [None if gone else v for v, gone in zip(raw, is_missing, strict=True)]
    return _from_objects(present, arrow_type)


def decode_raw_bounds(
    values: Sequence[Any], physical_type: str, arrow_type: pa.DataType
) -> pa.Array:
    """Bounds from pyarrow's `min_raw` and `max_raw`, None where missing."""
    if physical_type in _DTYPES:
        is_missing = np.array([value is None for value in values], dtype=np.bool_)
        filled = [0 if value is None else value for value in values]
        numbers = np.array(filled, dtype=_DTYPES[physical_type])
        return _from_numbers(numbers, is_missing, arrow_type)
    return _from_objects(values, arrow_type)


def consistent_bounds(lower: pa.Array, upper: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The bounds, both null where the minimum is above the maximum."""
    is_wrong = pc.greater(lower, upper)
    if not pc.any(is_wrong).as_py():
        return lower, upper
    nothing = pa.scalar(None, lower.type)
    is_wrong = is_wrong.fill_null(False)
    return pc.if_else(is_wrong, nothing, lower), pc.if_else(is_wrong, nothing, upper)


def is_outside(lower: pa.Array, upper: pa.Array, whole: tuple[pa.Array, pa.Array]) -> bool:
    """Whether bounds of parts exceed those of the whole, which are arrays of length one.

    Text and bytes are not checked: bounds of a part may be truncated further.
    """
    if is_text_or_bytes(lower.type):
        return False
    too_low, too_high = pc.less(lower, whole[0][0]), pc.greater(upper, whole[1][0])
    return bool(pc.any(too_low).as_py() or pc.any(too_high).as_py())


def float_bound(bound: bytes, physical_type: str) -> float | None:
    """A PLAIN-encoded bound of a floating point column; None if its length is wrong."""
    dtype = np.dtype(_FLOATS.get(physical_type, "<f2"))
    return float(np.frombuffer(bound, dtype)[0]) if len(bound) == dtype.itemsize else None


def _from_numbers(
    numbers: npt.NDArray[Any], is_missing: npt.NDArray[np.bool_], arrow_type: pa.DataType
) -> pa.Array:
    types = pa.types
    if types.is_floating(arrow_type):
        return pa.array(numbers, mask=is_missing | np.isnan(numbers)).cast(arrow_type)
    if types.is_decimal(arrow_type):
        return _from_objects(
            [
                None if gone else int(n)
                for n, gone in zip(numbers.tolist(), is_missing, strict=True)
            ],
            arrow_type,
        )
    if types.is_unsigned_integer(arrow_type):
        # Stored in the bits of a signed integer.
        numbers = numbers.view(f"<u{numbers.dtype.itemsize}")
        return pa.array(numbers, mask=is_missing).cast(arrow_type)
    if types.is_integer(arrow_type):
        return pa.array(numbers, mask=is_missing).cast(arrow_type)
    width = arrow_type.bit_width // 8
    return pa.array(numbers.astype(f"<i{width}"), mask=is_missing).view(arrow_type)


def _from_objects(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(arrow_type):
        return pa.array([_decimal(value, arrow_type.scale) for value in values], arrow_type)
    if arrow_type == pa.float16():
        halves = [None if v is None else np.frombuffer(v, "<f2")[0] for v in values]
        kept = [None if h is None or np.isnan(h) else float(h) for h in halves]
        return pa.array(kept, pa.float32())
    if pa.types.is_boolean(arrow_type):
        return pa.array(values, pa.bool_())
    return pa.array(values, pa.binary())


def _decimal(value: bytes | int | None, scale: int) -> Decimal | None:
    if value is None:
        return None
    unscaled = value if isinstance(value, int) else int.from_bytes(value, "big", signed=True)
    return Decimal(unscaled).scaleb(-scale, _EXACT)


def plain_bytes(value: pa.Scalar, physical_type: str, arrow_type: pa.DataType) -> bytes | None:
    """A literal in PLAIN encoding, as hashed by bloom filters; None if that is uncertain.

    Zero is uncertain for floats: it has two encodings that compare equal. So is a value of a type
    to which stored values are rounded when they are read with another schema.
    """
    if is_text_or_bytes(arrow_type) and physical_type == "BYTE_ARRAY":
        content = value.as_py()
        return content.encode() if isinstance(content, str) else content
    if physical_type in {"FLOAT", "DOUBLE"}:
        is_rounded = not pa.types.is_floating(value.type) or value.type.bit_width < (
            arrow_type.bit_width
        )
        if is_rounded:
            return None
        number = value.as_py()
        is_plain = number != 0 and number == number  # noqa: PLR0124 NaN
        return np.array(number, _DTYPES[physical_type]).tobytes() if is_plain else None
    types = pa.types
    if physical_type not in {"INT32", "INT64"} or types.is_decimal(arrow_type):
        return None
    if types.is_integer(arrow_type):
        number = value.as_py()
    elif types.is_temporal(arrow_type) and value.type == arrow_type:
        number = value.value
    else:
        return None
    width = 4 if physical_type == "INT32" else 8
    return (number % (1 << (8 * width))).to_bytes(width, "little")
