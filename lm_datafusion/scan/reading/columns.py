"""The columns of some row groups; values that were read are held while they are needed.

In: the rows that a filter step or the projection needs. Out: their values, in the table's types.

If a column is needed again, the filter step that reads it holds the values of the rows that
passed. Later readers ask for a subset of those rows and take it from there.

Invariant: a column returns exactly the rows asked for, in order. Held values cover every row of
the window that may still be asked for, or nothing is held.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from lm_datafusion.errors import UnsupportedFeatureError
from lm_datafusion.selection.values import select_values, take_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from lm_datafusion.formats.protocol import Decoder
    from lm_datafusion.predicate.tree import Predicate
    from lm_datafusion.selection import RowSelection

    Values: TypeAlias = pa.Array | pa.ChunkedArray


@dataclass(slots=True)
class Column:
    """One column of some row groups.

    Attributes:
        name: Its name in the table.
        data_type: Its type in the table.
        decoder: Reads it; None if the file does not store the column.
        constant: Its value in that case.
        path: The file, for errors.
    """

    name: str
    data_type: pa.DataType
    decoder: Decoder | None = None
    constant: pa.Scalar | None = None
    path: str = ""
    _held: tuple[RowSelection, Values] | None = field(default=None)

    @property
    def is_held(self) -> bool:
        """Whether values of the window are held."""
        return self._held is not None

    def read(self, rows: RowSelection) -> Values:
        """The values of rows, in the table's type."""
        if self._held is not None:
            return _narrowed(*self._held, rows)
        if self.decoder is None:
            return self._constant_values(rows.row_count)
        if not rows.selects_any():
            return pa.array([], self.data_type)
        return self._to_table_type(self.decoder.read(rows))

    def hold(self, rows: RowSelection, values: Values) -> None:
        """Keeps values of the window for a later step or the projection."""
        if self.decoder is not None:
            self._held = rows, values

    def test(
        self,
        rows: RowSelection,
        tree: Predicate,
        passes: Sequence[npt.NDArray[np.bool_] | None] | None,
        *,
        is_held: bool,
    ) -> RowSelection | None:
        """The rows that pass a condition, tested on the encoded pages.

        Args:
            rows: Rows to test.
            tree: The condition.
            passes: By row group, where known: which dictionary values pass; the last entry is for
                null.
            is_held: Whether to hold the values of the rows that pass.

        Returns:
            None if the values have to be read and evaluated.
        """
        if self.decoder is None or self._held is not None:
            return None
        found = self.decoder.filter(rows, tree, passes, is_held=is_held)
        if found is None:
            return None
        passed, values = found
        if values is not None:
            self._held = passed, self._to_table_type(values)
        return passed

    def release(self) -> None:
        """Releases the held values."""
        self._held = None

    def _constant_values(self, row_count: int) -> pa.Array:
        if self.constant is None or not self.constant.is_valid:
            return pa.nulls(row_count, self.data_type)
        return pa.repeat(self.constant, row_count).cast(self.data_type)

    def _to_table_type(self, values: Values) -> Values:
        if values.type == self.data_type:
            return values
        try:
            if pa.types.is_dictionary(values.type) and not pa.types.is_dictionary(self.data_type):
                values = _without_dictionary(values)
            return values if values.type == self.data_type else values.cast(self.data_type)
        except (pa.ArrowException, NotImplementedError) as error:
            raise UnsupportedFeatureError(
                f'{self.path}, column "{self.name}": {values.type} cannot become'
                f" {self.data_type}: {error}"
            ) from error


def _narrowed(held: RowSelection, values: Values, wanted: RowSelection) -> Values:
    """The wanted rows out of the held ones."""
    if wanted is held:
        return values
    held_rows, rows = held.to_rows(), wanted.to_rows()
    if held_rows is not None and rows is not None:
        if len(rows) == len(held_rows):
            return values
        positions = np.searchsorted(held_rows, rows).astype(np.int32, copy=False)
        return take_values(values, pa.array(positions))
    return select_values(values, wanted.relative_to(held))


def _without_dictionary(values: Values) -> Values:
    """The decoded dictionary values; in chunks if they do not fit one array of text."""
    try:
        return values.cast(values.type.value_type)
    except pa.ArrowInvalid:
        if len(values) <= 1:
            raise
        middle = len(values) // 2
        pieces: list[pa.Array] = []
        for half in (values.slice(0, middle), values.slice(middle)):
            decoded = _without_dictionary(half)
            pieces += decoded.chunks if isinstance(decoded, pa.ChunkedArray) else [decoded]
        return pa.chunked_array(pieces)
