"""Record batches in a form that engines accept.

In: arrays of the columns of a result. Out: record batches.

Invariant: a batch without columns knows how many rows it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from lm_datafusion.selection.values import take_values

if TYPE_CHECKING:
    from collections.abc import Iterator

    Values: TypeAlias = pa.Array | pa.ChunkedArray


class BatchMaker:
    """Makes the batches of a result with at least one column."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._is_fragile = bool(_fragile(schema))

    def make(self, columns: list[Values]) -> list[pa.RecordBatch]:
        """The batches of columns of equal length: one, if no column is chunked."""
        is_plain = all(isinstance(column, pa.Array) for column in columns)
        if is_plain and not self._is_fragile:
            return [pa.RecordBatch.from_arrays(columns, schema=self._schema)]
        return list(batches_of(pa.Table.from_arrays(columns, schema=self._schema)))


def counted_batches(row_count: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Batches without columns that know how many rows they have."""
    for start in range(0, row_count, batch_rows):
        rows = pa.nulls(min(batch_rows, row_count - start))
        yield pa.record_batch([rows], names=["rows"]).select([])


def sliced(batch: pa.RecordBatch, most_rows: int) -> Iterator[pa.RecordBatch]:
    """A batch in slices of `most_rows`; itself if it is small enough."""
    if batch.num_rows <= most_rows:
        yield batch
    else:
        yield from batches_of(pa.Table.from_batches([batch]), most_rows)


def batches_of(table: pa.Table, most_rows: int | None = None) -> Iterator[pa.RecordBatch]:
    """The batches of a table, in a form that DataFusion accepts.

    arrow-rs panics on a slice of nested structs with a nonzero offset, so those slices are copied.
    (Structs in lists are not: the values of a list are never sliced.)
    """
    fragile = _fragile(table.schema)
    for batch in table.to_batches(max_chunksize=most_rows):
        columns = list(batch.columns) if fragile else []
        if any(columns[index].offset for index in fragile):
            for index in fragile:
                columns[index] = pa.concat_arrays([columns[index], columns[index].slice(0, 0)])
            yield pa.RecordBatch.from_arrays(columns, schema=batch.schema)
        else:
            yield batch


def reverse_values(values: Values) -> Values:
    """The values from the last to the first."""
    if isinstance(values, pa.ChunkedArray):
        chunks = [reverse_values(chunk) for chunk in reversed(values.chunks)]
        return pa.chunked_array(chunks, values.type)
    return take_values(values, pa.array(np.arange(len(values) - 1, -1, -1)))


def _fragile(schema: pa.Schema) -> list[int]:
    """Columns whose child values share the offset of their parents over two or more levels."""
    return [
        index
        for index, data_type in enumerate(schema.types)
        if data_type.num_fields
        and _shares_offset(data_type)
        and any(_shares_offset(data_type.field(i).type) for i in range(data_type.num_fields))
    ]


def _shares_offset(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_struct(data_type) or pa.types.is_fixed_size_list(data_type))
