"""The page index: where the pages of a column chunk are, and their bounds.

In: the bytes of an `OffsetIndex` or a `ColumnIndex`. Out: the same as columns, for numpy.

A list of `PageLocation`s is a regular stream of tokens. Each location is seven of them,

    0x16 offset  0x15 compressed_page_size  0x16 first_row_index  0x00

and every token, header byte or integer, ends with its only byte below 0x80. So:

1. find the bytes below 0x80: they end the tokens; arrange them in rows of seven;
2. check that the four header columns hold the expected bytes, one each;
3. combine the 7-bit groups of all integers at once.

If the stream is not regular (another order of fields, an unknown field), the generic reader reads
it. Spec: "Parquet page index: Layout to Support Page Skipping".

Invariants:
* Pages do not overlap, and each has at least one row; the first begins at row 0.
* All lists of a column index have one entry per page.
* Arrays are read-only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lm_datafusion.formats.parquet.spec import BoundaryOrder
from lm_datafusion.formats.parquet.thrift import (
    MAX_LENGTH,
    Kind,
    Octets,
    ThriftError,
    read_list_header,
    read_struct,
    required,
    required_list,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LIST_FIELD = b"\x19"  # field 1, a list
_LIST_IS_FOLLOWED_BY = b"\x00\x19"  # the end of the struct, or field 2, sizes we do not use
_TOKENS = 7  # of a PageLocation
_HEADERS = np.array([0x16, 0x15, 0x16, 0x00], dtype=np.uint8)
_MAX_VARINT_BYTES = 9  # 63 bits; longer ones are not offsets: the generic reader reads them


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OffsetIndex:
    """Where the data pages of a column chunk are, with headers: one entry per page."""

    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]
    first_rows: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnIndex:
    """Bounds of the data pages of a column chunk: one entry per page.

    The bounds of a page in `null_pages` are empty and have no meaning. Bounds may be truncated:
    they hold for the page, but need not be values of it.
    """

    null_pages: NDArray[np.bool_]
    min_values: list[bytes]
    max_values: list[bytes]
    boundary_order: BoundaryOrder
    null_counts: NDArray[np.int64] | None


def parse_offset_index(buffer: Octets) -> OffsetIndex:
    """Parse an offset index.

    Args:
        buffer: The bytes of the `OffsetIndex` struct.

    Returns:
        The page locations, as columns.

    Raises:
        ThriftError: The bytes are not an offset index, or its pages are not in order.
    """
    data = bytes(buffer)
    locations = _try_regular_locations(data)
    if locations is None:
        locations = _irregular_locations(data)
    offsets, sizes, first_rows = _frozen(np.ascontiguousarray(locations.T))
    index = OffsetIndex(offsets=offsets, sizes=sizes, first_rows=first_rows)
    _check_locations(index)
    return index


def parse_column_index(buffer: Octets) -> ColumnIndex:
    """Parse a column index.

    Args:
        buffer: The bytes of the `ColumnIndex` struct.

    Returns:
        The bounds, as columns.

    Raises:
        ThriftError: The bytes are not a column index, or its lists differ in length.
    """
    fields, _ = read_struct(buffer)
    null_pages = required_list(fields, 1, bool)
    min_values = required_list(fields, 2, bytes)
    max_values = required_list(fields, 3, bytes)
    null_counts = required_list(fields, 5, int) if 5 in fields else None
    lengths = {len(x) for x in (null_pages, min_values, max_values, null_counts) if x is not None}
    if len(lengths) != 1:
        raise ThriftError(f"the lists of the column index differ in length: {sorted(lengths)}")
    # parquet-java wrote -1 for pages without statistics, and marked them as null pages.
    if null_counts and min(null_counts) < 0:
        raise ThriftError(f"the column index has a null count of {min(null_counts)}")
    order = required(fields, 4, int)
    if not 0 <= order <= 2:
        raise ThriftError(f"boundary order {order} does not exist")
    return ColumnIndex(
        null_pages=_frozen(np.array(null_pages, dtype=np.bool_)),
        min_values=min_values,
        max_values=max_values,
        boundary_order=BoundaryOrder(order),
        null_counts=None if null_counts is None else _frozen(np.array(null_counts, dtype=np.int64)),
    )


def _try_regular_locations(data: bytes) -> NDArray[np.int64] | None:
    """One row per page: offset, size, first row; or `None` if the stream is not regular."""
    if data[:1] != _LIST_FIELD:
        return None
    count, kind, start = read_list_header(data, 1)
    octets = np.frombuffer(data, dtype=np.uint8)[start:]
    stops = np.flatnonzero(octets < 0x80) + 1
    num_tokens = count * _TOKENS
    # One more token than the list has: the end of the struct.
    if kind != Kind.STRUCT or not 0 < num_tokens < len(stops):
        return None
    starts = np.zeros(num_tokens, dtype=np.int64)
    starts[1:] = stops[: num_tokens - 1]
    # A token that begins with a byte below 0x80 has no other byte, so this checks lengths too.
    headers = octets[starts.reshape(count, _TOKENS)[:, ::2]]
    if (headers != _HEADERS).any() or data[
        start + stops[num_tokens - 1]
    ] not in _LIST_IS_FOLLOWED_BY:
        return None
    tokens = _try_varints(octets, starts, stops[:num_tokens])
    return None if tokens is None else tokens.reshape(count, _TOKENS)[:, 1::2]


def _try_varints(
    octets: NDArray[np.uint8], starts: NDArray[np.int64], stops: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """The zigzag integers at `[starts, stops)`, without gaps; `None` if one is too long."""
    lengths = stops - starts
    if lengths.max() > _MAX_VARINT_BYTES:
        return None
    shifts = np.arange(stops[-1]) - np.repeat(starts, lengths)
    shifts *= 7
    groups = (octets[: stops[-1]] & 0x7F).astype(np.int64) << shifts
    raw = np.add.reduceat(groups, starts)
    return raw >> 1 ^ -(raw & 1)


def _irregular_locations(data: bytes) -> NDArray[np.int64]:
    """One row per page: offset, size, first row."""
    fields, _ = read_struct(data)
    rows = [
        [required(location, field_id, int) for field_id in (1, 2, 3)]
        for location in required_list(fields, 1, dict)
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def _check_locations(index: OffsetIndex) -> None:
    """Raise unless the pages are in order ("OffsetIndex": by offset and by first row)."""
    offsets, sizes, first_rows = index.offsets, index.sizes, index.first_rows
    if not len(offsets):
        return
    if sizes.min() <= 0 or sizes.max() > MAX_LENGTH:
        raise ThriftError("the offset index has a page without bytes")
    if offsets.min() < 0 or (offsets[1:] - offsets[:-1] < sizes[:-1]).any():
        raise ThriftError("the offset index has pages that overlap")
    if first_rows[0] != 0 or (first_rows[1:] <= first_rows[:-1]).any():
        raise ThriftError("the offset index has pages whose rows are not in order")


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array
