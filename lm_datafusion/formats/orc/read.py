"""Reads selected rows of a stripe, a window of row groups at a time.

In: facts, a stripe, columns, and a selection of its rows. Out: record batches of those rows, in
order; and the byte ranges that they take.

1. Row groups without a selected row are not fetched.
2. The others are cut out and decoded, up to `WINDOW_ROWS` rows at a time. A stripe whose row groups
   cannot be cut out is decoded whole.
3. Rows that are not selected are dropped.

Invariant: the batches hold the selected rows, no more and no fewer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lm_datafusion.formats.orc.decode import decode_groups, load_cuttable, plan_ranges
from lm_datafusion.formats.orc.groups import whole_stripe
from lm_datafusion.selection import RowSelection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from lm_datafusion.formats.orc.facts import OrcFacts
    from lm_datafusion.formats.orc.groups import ColumnGroups, GroupRange
    from lm_datafusion.formats.orc.stripe import Stripe
    from lm_datafusion.storage import ByteRange, OpenFile

# Rows that are decoded at a time: memory grows with it. A dictionary is decoded in each window.
WINDOW_ROWS = 1 << 19


def read_rows(
    facts: OrcFacts,
    file: OpenFile,
    stripe: Stripe,
    columns: Sequence[int],
    selection: RowSelection,
) -> Iterator[pa.RecordBatch]:
    """The selected rows of a stripe.

    Args:
        facts: Of the file.
        file: Where the bytes come from.
        stripe: That has the rows.
        columns: Top-level columns, by their place among the names; at least one.
        selection: Over all rows of the stripe.

    Raises:
        CorruptFileError: The stripe is damaged.
        UnsupportedFeatureError: A column is encrypted, or PyArrow cannot read it.
    """
    groups, cut_columns = _plan_groups(facts, file, stripe, columns, selection)
    for window in _windows(stripe, groups, is_cut=cut_columns is not None):
        batch = decode_groups(facts, file, stripe, columns, window, cut_columns)
        rows = _rows_of(stripe, window, selection)
        yield _apply(batch, rows)


def plan_row_ranges(
    facts: OrcFacts,
    file: OpenFile,
    stripe: Stripe,
    columns: Sequence[int],
    selection: RowSelection,
) -> list[ByteRange]:
    """The byte ranges that `read_rows` fetches, by column and stream, not coalesced.

    A run that crosses the last border of a row group may take a little more.
    """
    groups, cut_columns = _plan_groups(facts, file, stripe, columns, selection)
    if not groups:
        return []
    return [r for r in plan_ranges(facts, stripe, columns, groups, cut_columns) if r.length]


def group_starts(stripe: Stripe) -> npt.NDArray[np.int64]:
    """The first row of each row group."""
    return np.arange(stripe.group_count, dtype=np.int64) * stripe.stride


def _plan_groups(
    facts: OrcFacts,
    file: OpenFile,
    stripe: Stripe,
    columns: Sequence[int],
    selection: RowSelection,
) -> tuple[list[GroupRange], dict[int, ColumnGroups] | None]:
    """The row groups to read, and what it takes to cut them out; None if that cannot be done."""
    chosen = np.flatnonzero(selection.page_mask(group_starts(stripe))).tolist()
    groups = group_ranges(chosen)
    if not groups:
        return [], None
    cut_columns = load_cuttable(facts, file, stripe, columns, groups)
    # A whole stripe may be too large for one window, so that it has to be cut after all.
    if cut_columns is None and stripe.row_count > WINDOW_ROWS and stripe.group_count > 1:
        every = [(group, group + 1) for group in chosen]
        cut_columns = load_cuttable(facts, file, stripe, columns, every)
    return (groups if cut_columns is not None else whole_stripe(stripe)), cut_columns


def group_ranges(chosen: list[int]) -> list[GroupRange]:
    """Row groups, ascending, as ranges of consecutive ones."""
    ranges: list[GroupRange] = []
    for group in chosen:
        if ranges and ranges[-1][1] == group:
            ranges[-1] = ranges[-1][0], group + 1
        else:
            ranges.append((group, group + 1))
    return ranges


def _windows(
    stripe: Stripe, groups: list[GroupRange], *, is_cut: bool
) -> Iterator[list[GroupRange]]:
    """Row groups in portions of `WINDOW_ROWS` rows, at least one row group each."""
    if not is_cut:
        if groups:
            yield groups
        return
    most = max(1, WINDOW_ROWS // stripe.stride)
    chosen = [group for start, stop in groups for group in range(start, stop)]
    for start in range(0, len(chosen), most):
        yield group_ranges(chosen[start : start + most])


def _rows_of(stripe: Stripe, window: list[GroupRange], selection: RowSelection) -> RowSelection:
    """The selection over the rows of some row groups."""
    return RowSelection.concat(
        selection.slice(start * stripe.stride, min(stop * stripe.stride, stripe.row_count))
        for start, stop in window
    )


def _apply(batch: pa.RecordBatch, rows: RowSelection) -> pa.RecordBatch:
    if rows.selects_all():
        return batch
    starts, stops = rows.to_ranges()
    if len(starts) == 1:
        return batch.slice(int(starts[0]), int(stops[0] - starts[0]))
    return batch.take(pa.array(rows.to_indices()))
