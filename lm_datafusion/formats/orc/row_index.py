"""The row index of a column: where its row groups begin, and their statistics.

In: the inflated ROW_INDEX stream of a column. Out: per row group a position in each stream, and a
statistics message.

A position in a stream is a chunk, a byte in the content of the chunk, values to pass over from
there, and bits of the value after those. What is not stored is zero: without compression there is
no chunk, plain bytes have no values, only bits have bits.

The numbers of an entry are in the order PRESENT (if the column has that stream), then the streams
of `layout`, whatever their order in the stripe. The first row group begins at zero in every stream;
some writers store nothing for it.

Invariant: positions that cannot be used are None, and the stripe is read as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lm_datafusion.protobuf import Message, as_bytes, fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lm_datafusion.formats.orc.layout import StreamLayout
    from lm_datafusion.formats.orc.spec import StreamKind
    from lm_datafusion.storage import ByteRange

# Writers hold back up to 512 values of a run. A longer way is a damaged position.
_MOST_VALUES = 8192


class Position(NamedTuple):
    """Where a row group begins in a stream."""

    chunk: int
    byte: int
    values: int
    bits: int

    @property
    def is_border(self) -> bool:
        """Whether a chunk begins here."""
        return not (self.byte or self.values or self.bits)


START = Position(0, 0, 0, 0)


class RowIndex:
    """The row index of one column of a stripe."""

    def __init__(self, data: bytes) -> None:
        self._entries = [as_bytes(value) for number, value in fields(data) if number == 1]
        self._numbers: dict[int, list[int]] = {}
        self.length_bytes = len(data)

    def __len__(self) -> int:
        return len(self._entries)

    def statistics(self, group: int) -> bytes | None:
        """The statistics message of a row group, if it has one."""
        return Message(self._entries[group]).content(2)

    def positions(
        self, group: int, layout: Sequence[StreamLayout], *, has_chunks: bool
    ) -> dict[StreamKind, Position] | None:
        """Where a row group begins in each stream; None if its numbers do not fit the streams."""
        if group == 0:
            return {stream.kind: START for stream in layout}
        numbers = self._numbers.get(group)
        if numbers is None:
            numbers = self._numbers[group] = list(Message(self._entries[group]).numbers(1))
        if len(numbers) != sum(has_chunks + 1 + stream.cut.counts for stream in layout):
            return None
        found, waiting = {}, iter(numbers)
        for stream in layout:
            chunk = next(waiting) if has_chunks else 0
            byte = next(waiting)
            values = next(waiting) if stream.cut.counts > 0 else 0
            bits = next(waiting) if stream.cut.counts > 1 else 0
            found[stream.kind] = Position(chunk, byte, values, bits)
        return found


def is_usable(
    positions: Mapping[StreamKind, Position],
    streams: Mapping[StreamKind, ByteRange],
    *,
    block_size: int | None,
) -> bool:
    """Whether positions lie in their streams; `block_size` is None without compression."""
    for kind, position in positions.items():
        place = streams.get(kind)
        if place is None:
            continue
        most_bytes = place.length if block_size is None else block_size
        if position.chunk > place.length or position.byte > most_bytes:
            return False
        if position.values > _MOST_VALUES or position.bits > 7:
            return False
    return True
