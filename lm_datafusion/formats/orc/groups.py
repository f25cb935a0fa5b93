"""Row groups of the columns of a stripe: where they begin, and which bytes they take.

In: a stripe and the row indexes of some columns. Out: pairs of positions per stream, and byte
ranges.

Byte ranges come from the row index alone: from the chunk in which the first row group begins to the
next chunk that is known to begin after the last one. A run that crosses the border may need more;
`StripeBytes` fetches it then.

Invariant: ranges of row groups are half-open, sorted, and do not overlap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lm_datafusion.formats.orc.chunks import HEADER_BYTES
from lm_datafusion.formats.orc.row_index import is_usable
from lm_datafusion.formats.orc.runs import MOST_RUN_BYTES
from lm_datafusion.storage import ByteRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lm_datafusion.formats.orc.chunks import ChunkFormat
    from lm_datafusion.formats.orc.layout import StreamLayout
    from lm_datafusion.formats.orc.row_index import Position, RowIndex
    from lm_datafusion.formats.orc.spec import StreamKind
    from lm_datafusion.formats.orc.stripe import Stripe

GroupRange = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class ColumnGroups:
    """The row groups of one column of a stripe."""

    stripe: Stripe
    column: int
    layout: tuple[StreamLayout, ...]
    index: RowIndex
    chunks: ChunkFormat

    def place(self, kind: StreamKind) -> ByteRange | None:
        """Where a stream is in the file; None if the column does not have it."""
        return self.stripe.streams.get((self.column, kind))

    def are_usable(self, groups: Sequence[GroupRange]) -> bool:
        """Whether the positions at the borders of row groups can be used."""
        if len(self.index) != self.stripe.group_count:
            return False
        streams = {s.kind: p for s in self.layout if (p := self.place(s.kind)) is not None}
        block_size = self.chunks.block_size if self.chunks.has_chunks else None
        for group in {border for groups_ in groups for border in groups_}:
            if 0 < group < len(self.index):
                found = self._positions(group)
                if found is None or not is_usable(found, streams, block_size=block_size):
                    return False
        return True

    def spans(
        self, kind: StreamKind, groups: Sequence[GroupRange]
    ) -> list[tuple[Position, Position | None]]:
        """The positions of a stream between which the values of row groups are."""
        spans = []
        for start, stop in groups:
            first = self.position(kind, start)
            if first is None:
                raise ValueError(f"the stripe has no row group {start}")
            spans.append((first, self.position(kind, stop)))
        return spans

    def position(self, kind: StreamKind, group: int) -> Position | None:
        """Where a row group begins in a stream; None if it is the end of the stripe."""
        if group >= len(self.index):
            return None
        positions = self._positions(group)
        if positions is None:
            raise ValueError(f"the row index of column {self.column} does not fit its streams")
        return positions[kind]

    def byte_ranges(self, groups: Sequence[GroupRange]) -> list[ByteRange]:
        """The bytes of the file that row groups take; those of a dictionary are always taken."""
        ranges = []
        cut_kinds = {stream.kind for stream in self.layout}
        for kind in self.stripe.value_streams(self.column):
            place = self.stripe.streams[self.column, kind]
            if kind not in cut_kinds:
                ranges.append(place)
                continue
            for start, stop in groups:
                first, last = self._stream_range(kind, start, stop, place.length)
                ranges.append(ByteRange(place.offset + first, max(last - first, 0)))
        return ranges

    def _stream_range(
        self, kind: StreamKind, start: int, stop: int, length: int
    ) -> tuple[int, int]:
        first, last = self.position(kind, start), self.position(kind, stop)
        assert first is not None
        if not self.chunks.has_chunks:
            if last is None:
                return first.byte, length
            more = MOST_RUN_BYTES if last.values or last.bits else 0
            return first.byte, min(last.byte + more, length)
        if last is None:
            return first.chunk, length
        if last.is_border:
            return first.chunk, min(last.chunk, length)
        end = min(last.chunk + HEADER_BYTES + self.chunks.block_size, length)
        for group in range(stop + 1, len(self.index)):
            following = self.position(kind, group)
            assert following is not None
            if following.chunk >= end:
                break
            if following.chunk > last.chunk:
                return first.chunk, following.chunk
        return first.chunk, end

    def _positions(self, group: int) -> dict[StreamKind, Position] | None:
        return self.index.positions(group, self.layout, has_chunks=self.chunks.has_chunks)


def group_rows(stripe: Stripe, groups: Sequence[GroupRange]) -> int:
    """How many rows row groups have."""
    return sum(
        min(stop * stripe.stride, stripe.row_count) - start * stripe.stride
        for start, stop in groups
    )


def whole_stripe(stripe: Stripe) -> list[GroupRange]:
    """All row groups of a stripe."""
    return [(0, stripe.group_count)]
