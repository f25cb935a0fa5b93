"""Which columns have bounds in IEEE 754's total order, which pyarrow does not expose.

In: a footer. Out: the leaves whose `ColumnOrder` is `IEEE_754_TOTAL_ORDER`.

1. The orders are at the end of the footer, after the writer's name, which pyarrow knows: find the
   name, and read from there.
2. If that does not lead to the end of the footer, read all of it, once.

Invariant: a footer that cannot be read has no such columns. Pyarrow has checked that there is one
order per leaf, or none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lm_datafusion.formats.parquet.thrift import (
    Fields,
    Kind,
    ThriftError,
    read_struct,
    required_list,
    write_fields,
)

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_CREATED_BY = 6
_COLUMN_ORDERS = 7
_IEEE_754_TOTAL_ORDER = 2


def find_total_orders(footer: bytes, metadata: pq.FileMetaData) -> frozenset[int]:
    """The leaves whose bounds are in IEEE 754's total order.

    Args:
        footer: The bytes of `FileMetaData`.
        metadata: The same as pyarrow parsed it.
    """
    try:
        fields = _fields_behind_name(footer, metadata)
        if fields is None:
            fields, _ = read_struct(footer)
        orders = required_list(fields, _COLUMN_ORDERS, dict)
    except ThriftError:
        return frozenset()
    return frozenset(
        leaf for leaf, order in enumerate(orders) if order.keys() == {_IEEE_754_TOTAL_ORDER}
    )


def _fields_behind_name(footer: bytes, metadata: pq.FileMetaData) -> Fields | None:
    """The fields after `created_by`; None if they are not found."""
    name = str(metadata.created_by).encode()
    # Without the field header, which depends on the field before it.
    mark = write_fields([(_CREATED_BY, Kind.BINARY, name)])[1:]
    position = footer.rfind(mark)
    if position < 0:
        return None
    try:
        fields, stop = read_struct(footer, position + len(mark))
    except ThriftError:
        return None
    if stop != metadata.serialized_size:
        return None
    return {field_id + _CREATED_BY: value for field_id, value in fields.items()}
