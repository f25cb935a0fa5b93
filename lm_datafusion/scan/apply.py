"""Row selections applied to arrays.

In: an array and a selection over its rows. Out: the selected values.

Measured with `tests/benchmark/bench_selection.py`: `take` wins for a few rows in a hundred,
`filter` for short runs, slices for long ones.

Invariant: `len(result) == selection.row_count`; the order of rows is kept. A small result does
not keep the memory of a large array alive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from lm_datafusion.selection import RowSelection, RowSelectionStrategy
from lm_datafusion.selection.filters import filter_to_mask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    Values: TypeAlias = pa.Array | pa.ChunkedArray
    Filter: TypeAlias = pa.BooleanArray | pa.ChunkedArray | npt.NDArray[np.bool_]

SPARSE_FRACTION = 0.02
# Below this share a slice is copied, so that it does not hold on to the rest.
OWN_MEMORY_FRACTION = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What `Applier.tell` was told last."""

    wanted: RowSelection
    held: RowSelection
    among: RowSelection
    filters: Sequence[Filter]


class Applier:
    """Applies selections to arrays; what a selection comes to in Arrow is made once.

    One applier serves the columns of a row group, which mostly share a selection.
    """

    def __init__(self) -> None:
        self._selection: RowSelection | None = None
        self._forms: dict[Callable[[RowSelection], pa.Array], pa.Array] = {}
        self._relative: tuple[RowSelection, RowSelection, RowSelection] | None = None
        self._told: _Told | None = None

    def tell(
        self,
        wanted: RowSelection,
        held: RowSelection,
        among: RowSelection,
        filters: Sequence[Filter],
    ) -> None:
        """Says what `wanted.relative_to(held)` is, where that is known without working it out.

        Args:
            wanted: Rows that will be asked for.
            held: Rows they are among.
            among: The wanted rows, counted among those that are held.
            filters: What `among` was made from.
        """
        self._told = _Told(wanted=wanted, held=held, among=among, filters=filters)

    def is_told(self, wanted: RowSelection, held: RowSelection) -> bool:
        """Whether these very rows were told of: then `held` has all rows of `wanted`."""
        told = self._told
        return told is not None and told.wanted is wanted and told.held is held

    def apply_within(self, values: Values, wanted: RowSelection, held: RowSelection) -> Values:
        """The wanted rows of values that are those of the rows `held`."""
        if self._told is not None and self.is_told(wanted, held):
            return self.apply(values, self._told.among)
        known = self._relative
        if known is None or known[0] is not wanted or known[1] is not held:
            known = self._relative = (wanted, held, wanted.relative_to(held))
        return self.apply(values, known[2])

    def apply(self, values: Values, selection: RowSelection) -> Values:
        """The selected values, in order."""
        if selection.selects_all():
            return values
        if not selection.selects_any():
            return values.slice(0, 0)
        share = selection.row_count / selection.total_rows
        is_in_chunks = isinstance(values, pa.ChunkedArray)
        # Arrow takes from chunks by putting them together, dictionaries too.
        if share < SPARSE_FRACTION and not (is_in_chunks and pa.types.is_dictionary(values.type)):
            return values.take(self._in_arrow(selection, _arrow_indices))
        is_mask = selection.strategy() is RowSelectionStrategy.MASK
        if is_mask or is_in_chunks:
            return values.filter(self._in_arrow(selection, self._arrow_mask))
        starts, stops = selection.to_ranges()
        parts = [
            values.slice(start, stop - start)
            for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
        ]
        if len(parts) == 1 and share >= OWN_MEMORY_FRACTION:
            return parts[0]
        return pa.concat_arrays([*parts, values.slice(0, 0)])

    def _in_arrow(
        self, selection: RowSelection, form: Callable[[RowSelection], pa.Array]
    ) -> pa.Array:
        """Indices or a mask, whichever `form` makes."""
        if selection is not self._selection:
            self._selection, self._forms = selection, {}
        if form not in self._forms:
            self._forms[form] = form(selection)
        return self._forms[form]

    def _arrow_mask(self, selection: RowSelection) -> pa.Array:
        told = self._told
        if told is None or told.among is not selection:
            return _packed(selection.to_mask())
        if len(told.filters) == 1 and isinstance(told.filters[0], pa.BooleanArray):
            return told.filters[0]
        return _packed(np.concatenate([filter_to_mask(values) for values in told.filters]))


def _arrow_indices(selection: RowSelection) -> pa.Array:
    return pa.array(selection.to_indices())


def _packed(mask: npt.NDArray[np.bool_]) -> pa.Array:
    # Packed here: `pa.array` of booleans takes twenty times as long.
    bits = np.packbits(mask, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, pa.py_buffer(bits)])


def merge_in_order(parts: list[tuple[RowSelection, Values]]) -> Values:
    """Values of disjoint selections over the same rows, put together in row order."""
    if len(parts) == 1:
        return parts[0][1]
    order = np.argsort(np.concatenate([rows.to_indices() for rows, _ in parts]), kind="stable")
    chunks = [
        chunk
        for _, values in parts
        for chunk in (values.chunks if isinstance(values, pa.ChunkedArray) else [values])
    ]
    if len({chunk.type for chunk in chunks}) > 1:
        # One window was read as dictionary codes, the next had to be read whole.
        chunks = [_decoded(chunk) for chunk in chunks]
    together = pa.concat_arrays(chunks)
    if (order[1:] > order[:-1]).all():
        return together
    return together.take(pa.array(order))


def batches_of(table: pa.Table, most_rows: int | None = None) -> Iterator[pa.RecordBatch]:
    """The batches of a table, as DataFusion can take them.

    arrow-rs panics at a slice of structs in structs that does not begin with the first row, so such
    slices are copied. (Not those in lists, whose own values are never sliced.)
    """
    fragile = [place for place, kind in enumerate(table.schema.types) if _is_fragile(kind)]
    for batch in table.to_batches(max_chunksize=most_rows):
        columns = list(batch.columns) if fragile else []
        if any(columns[place].offset for place in fragile):
            for place in fragile:
                columns[place] = pa.concat_arrays([columns[place], columns[place].slice(0, 0)])
            yield pa.RecordBatch.from_arrays(columns, schema=batch.schema)
        else:
            yield batch


def _is_fragile(data_type: pa.DataType) -> bool:
    """Whether values of a type share the offset of those they are in over two levels or more."""
    if not data_type.num_fields or not _shares_offset(data_type):
        return False
    return any(_shares_offset(data_type.field(i).type) for i in range(data_type.num_fields))


def _shares_offset(data_type: pa.DataType) -> bool:
    return pa.types.is_struct(data_type) or pa.types.is_fixed_size_list(data_type)


def reverse_values(values: Values) -> Values:
    """The values from the last to the first."""
    if isinstance(values, pa.ChunkedArray):
        chunks = [reverse_values(chunk) for chunk in reversed(values.chunks)]
        return pa.chunked_array(chunks, values.type)
    return take_values(values, pa.array(np.arange(len(values) - 1, -1, -1)))


def take_values(values: Values, rows: pa.Array) -> Values:
    """Values by position; PyArrow has no `take` for views."""
    types = pa.types
    if types.is_string_view(values.type):
        return values.cast(pa.large_string()).take(rows).cast(values.type)
    if types.is_binary_view(values.type):
        return values.cast(pa.large_binary()).take(rows).cast(values.type)
    return values.take(rows)


def _decoded(values: pa.Array) -> pa.Array:
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
