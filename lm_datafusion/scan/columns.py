"""Cursors over the columns of one row group.

In: which rows a filter step or the projection needs. Out: their values, each page decoded once.

A cursor keeps what was decoded and may be needed again: of a filter column that is projected,
the rows still selected; of a page that reaches over the window's border, the rows ahead: those
of later windows, in whichever order these come.

Invariant: `read_columns` returns, for every column, exactly the selected rows in order, in the
type of the table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from lm_datafusion.errors import UnsupportedFeatureError
from lm_datafusion.formats.parquet.decode import ColumnRequest
from lm_datafusion.scan.apply import Applier, merge_in_order
from lm_datafusion.selection import RowSelection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lm_datafusion.formats.parquet.decode import DecodedColumn, RowGroupDecoder

    Values: TypeAlias = pa.Array | pa.ChunkedArray


# Offsets of text have 32 bits.
_JOINED_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class _Segment:
    """Decoded values and the rows of the row group they belong to."""

    rows: RowSelection
    values: Values

    def narrowed(self, rows: RowSelection, applier: Applier) -> _Segment | None:
        if rows is self.rows:
            return self
        kept = rows if applier.is_told(rows, self.rows) else self.rows.intersection(rows)
        if not kept.selects_any():
            return None
        if kept == self.rows:
            return self
        return _Segment(kept, applier.apply_within(self.values, kept, self.rows))


@dataclass(slots=True)
class ColumnCursor:
    """One column of a row group.

    Attributes:
        name: The column's name in the table.
        data_type: Its type in the table.
        column: Its place among the file's top-level columns; None for a constant.
        constant: Its value where the file does not store it.
        is_encoded: Whether it is read as dictionary codes.
        path: The file, for errors.
        applier: Narrows values; columns that are narrowed alike share one.
    """

    name: str
    data_type: pa.DataType
    column: int | None = None
    constant: pa.Scalar | None = None
    is_encoded: bool = False
    path: str = ""
    applier: Applier = field(default_factory=Applier)
    _segments: list[_Segment] = field(default_factory=list)

    def take_held(
        self, wanted: RowSelection
    ) -> tuple[list[tuple[RowSelection, Values]], RowSelection]:
        """What is held of the wanted rows, and the rows that are missing."""
        parts = []
        for segment in self._segments:
            found = segment.narrowed(wanted, self.applier)
            if found is not None:
                parts.append((found.rows, found.values))
                wanted = wanted.difference(found.rows)
        return parts, wanted

    def hold(self, decoded: DecodedColumn, ahead: RowSelection) -> None:
        """Keeps what was decoded of rows ahead."""
        if not ahead.selects_any():
            return
        rest = _Segment(decoded.rows, decoded.values).narrowed(ahead, self.applier)
        if rest is not None:
            self._segments.append(rest)

    def replace_held(self, rows: RowSelection, values: Values, ahead: RowSelection) -> None:
        """Keeps values of the window for a later step or the projection, once."""
        if self._segments:
            self.narrow(rows.complement(), ahead)
        self._segments.append(_Segment(rows, values))

    def narrow(self, selection: RowSelection, ahead: RowSelection) -> None:
        """Drops held rows that are neither selected nor ahead."""
        if not self._segments:
            return
        keep = selection.union(ahead) if ahead.selects_any() else selection
        narrowed = [segment.narrowed(keep, self.applier) for segment in self._segments]
        self._segments = [segment for segment in narrowed if segment is not None]

    def constant_values(self, row_count: int) -> pa.Array:
        """The constant, as often as there are rows."""
        if self.constant is None or not self.constant.is_valid:
            return pa.nulls(row_count, self.data_type)
        return pa.repeat(self.constant, row_count).cast(self.data_type)

    def to_table_type(self, values: Values) -> Values:
        """Values as the table has them: dictionaries decoded, types widened."""
        if values.type == self.data_type:
            return values
        try:
            if pa.types.is_dictionary(values.type) and not pa.types.is_dictionary(self.data_type):
                values = _joined(_without_dictionary(values))
            return values if values.type == self.data_type else values.cast(self.data_type)
        except (pa.ArrowException, NotImplementedError) as error:
            raise UnsupportedFeatureError(
                f'{self.path}, column "{self.name}": {values.type} cannot become'
                f" {self.data_type}: {error}"
            ) from error


def read_columns(
    cursors: Sequence[ColumnCursor],
    selection: RowSelection,
    decoder: RowGroupDecoder,
    ahead: RowSelection,
) -> list[Values]:
    """The selected rows of some columns, as stored: encoded columns as dictionary arrays.

    Args:
        cursors: The columns.
        selection: Rows of the row group.
        decoder: Decodes what is not held.
        ahead: Rows of windows that are still to come.

    Returns:
        One array per cursor, `selection.row_count` long.
    """
    held = [
        ([], RowSelection.none(selection.total_rows))
        if cursor.column is None
        else cursor.take_held(selection)
        for cursor in cursors
    ]
    missing = [
        (cursor, rows)
        for cursor, (_, rows) in zip(cursors, held, strict=True)
        if rows.selects_any()
    ]
    requests = [_request(cursor, rows) for cursor, rows in missing]
    decoded = decoder.decode(requests)
    values = []
    for cursor, (parts, rows) in zip(cursors, held, strict=True):
        column = next(decoded) if rows.selects_any() else None
        if column is not None:
            cursor.hold(column, ahead)
            parts.append((rows, cursor.applier.apply_within(column.values, rows, column.rows)))
        values.append(_assembled(cursor, parts, selection.row_count))
    return values


def _request(cursor: ColumnCursor, rows: RowSelection) -> ColumnRequest:
    assert cursor.column is not None
    return ColumnRequest(column=cursor.column, rows=rows, is_encoded=cursor.is_encoded)


def _assembled(
    cursor: ColumnCursor, parts: list[tuple[RowSelection, Values]], row_count: int
) -> Values:
    if cursor.column is None:
        return cursor.constant_values(row_count)
    return merge_in_order(parts) if parts else pa.array([], cursor.data_type)


def _joined(values: Values) -> Values:
    """Text of several row groups in one array, if it surely fits one."""
    is_small = isinstance(values, pa.ChunkedArray) and values.nbytes <= _JOINED_BYTES
    return values.combine_chunks() if is_small else values


def _without_dictionary(values: Values) -> Values:
    """The values that codes stand for; in pieces where they do not fit one array of text."""
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
