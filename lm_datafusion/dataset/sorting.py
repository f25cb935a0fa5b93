"""The rows of a scan, sorted.

In: batches, and an extent with an order and a limit. Out: the first rows of the order.

Invariant: rows are in DataFusion's sort order; rows that tie stay in table order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lm_datafusion.scan.keys.sort_values import to_sort_values
from lm_datafusion.scan.reading.batches import batches_of
from lm_datafusion.selection.values import take_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from lm_datafusion.dataset.extent import Extent
    from lm_datafusion.plan import ReadPlan


def sorted_batches(
    batches: Iterable[pa.RecordBatch], plan: ReadPlan, extent: Extent
) -> Iterator[pa.RecordBatch]:
    """The first rows of the order, given a superset of them."""
    table = pa.Table.from_batches(batches, schema=plan.schema)
    rows = pa.array(_sorted_rows(table, extent)[: extent.limit])
    columns = [take_values(column, rows) for column in table.columns]
    ordered = pa.Table.from_arrays(columns, schema=plan.schema)
    yield from batches_of(ordered, plan.options.batch_rows)


def _sorted_rows(table: pa.Table, extent: Extent) -> npt.NDArray[np.int64]:
    """Row positions in sorted order: stable sorts, by the last key first."""
    rows = np.arange(table.num_rows)
    placement = "at_start" if extent.nulls_first else "at_end"
    for column, descending in reversed(extent.order_by):
        keys = to_sort_values(table.column(column)).take(pa.array(rows))
        order = "descending" if descending else "ascending"
        indexes = pc.array_sort_indices(keys, order=order, null_placement=placement)
        rows = rows[indexes.to_numpy()]
    return rows
