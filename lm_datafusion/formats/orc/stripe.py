"""A stripe: its streams and encodings, and its bytes, fetched where they are needed.

In: an open file and the place of a stripe. Out: its `Stripe`, checked.

Invariant: every stream lies in the stripe, before its footer; each column has one stream of a kind
at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lm_datafusion.formats.orc.damage import named_damage
from lm_datafusion.formats.orc.messages import StripeFooter
from lm_datafusion.formats.orc.spec import VALUE_STREAMS, EncodingKind, StreamKind
from lm_datafusion.formats.orc.tail import MOST_FOOTER_BYTES
from lm_datafusion.storage import ByteRange, coalesce

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lm_datafusion.formats.orc.messages import ColumnEncoding, StripeInformation
    from lm_datafusion.formats.orc.tail import Tail
    from lm_datafusion.storage import OpenFile

# Ranges this close are read as one: a read costs more than the bytes between.
_GAP_BYTES = 16 * 1024
_DICTIONARIES = (EncodingKind.DICTIONARY, EncodingKind.DICTIONARY_V2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stripe:
    """One stripe of a file.

    Attributes:
        index: Its number in the file.
        information: Where it is, and how many rows it has.
        streams: The place of each stream in the file, by column and kind.
        encodings: By column.
        writer_timezone: Where the clock of the writer stood; empty if the writer did not say.
        stride: Rows of a row group; all rows of the stripe if it has no row groups.
        length_bytes: The size of its footer.
    """

    index: int
    information: StripeInformation
    streams: Mapping[tuple[int, int], ByteRange]
    encodings: tuple[ColumnEncoding, ...]
    writer_timezone: str
    stride: int
    length_bytes: int

    @property
    def row_count(self) -> int:
        """Rows of the stripe."""
        return self.information.row_count

    @property
    def group_count(self) -> int:
        """Row groups of the stripe."""
        return -(-self.row_count // self.stride) if self.row_count else 0

    def value_streams(self, column: int) -> list[StreamKind]:
        """The streams that the values of a column are decoded from."""
        return [kind for kind in sorted(VALUE_STREAMS) if (column, kind) in self.streams]


def load_stripe(file: OpenFile, tail: Tail, index: int) -> Stripe:
    """Reads the footer of a stripe.

    Raises:
        CorruptFileError: It is damaged.
    """
    path, information = file.version.path, tail.stripes[index]
    place = ByteRange(information.footer_offset, information.footer_length)
    with named_damage(path, f"the footer of stripe {index}"):
        (packed,) = file.fetch_ranges([place])
        footer = StripeFooter.parse(tail.chunks.inflate(packed, limit=MOST_FOOTER_BYTES))
        if len(footer.encodings) != len(tail.types):
            raise ValueError(f"{len(footer.encodings)} encodings of {len(tail.types)} columns")
        streams = _places(footer, information)
        _check_dictionaries(footer, tail, information.row_count)
    has_groups = any(kind == StreamKind.ROW_INDEX for _, kind in streams)
    stride = tail.footer.row_index_stride if has_groups else 0
    return Stripe(
        index=index,
        information=information,
        streams=streams,
        encodings=footer.encodings,
        writer_timezone=footer.writer_timezone,
        stride=stride or max(information.row_count, 1),
        length_bytes=len(packed),
    )


def _places(
    footer: StripeFooter, information: StripeInformation
) -> dict[tuple[int, int], ByteRange]:
    places: dict[tuple[int, int], ByteRange] = {}
    offset = information.offset
    for stream in footer.streams:
        if (stream.column, stream.kind) in places and stream.kind in VALUE_STREAMS:
            raise ValueError(f"column {stream.column} has two streams of kind {stream.kind}")
        places[stream.column, stream.kind] = ByteRange(offset, stream.length)
        offset += stream.length
    if offset > information.footer_offset:
        raise ValueError("the streams end after the stripe")
    return places


def _check_dictionaries(footer: StripeFooter, tail: Tail, row_count: int) -> None:
    """A dictionary has no more entries than values; PyArrow makes room for all of them."""
    for column, encoding in enumerate(footer.encodings):
        is_large = encoding.kind in _DICTIONARIES and encoding.dictionary_size > row_count
        if is_large and not tail.types.is_below_list(column):
            raise ValueError(f"column {column} has a dictionary larger than the stripe")


class StripeBytes:
    """Bytes of a file, by range: fetched ahead, or when they are first looked at."""

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self._parts: list[tuple[int, memoryview]] = []

    def prefetch(self, ranges: Iterable[ByteRange]) -> None:
        """Fetches ranges, neighbours together."""
        wanted = coalesce((r for r in ranges if r.length), gap_bytes=_GAP_BYTES)
        target = np.empty(sum(r.length for r in wanted), np.uint8).data
        self._file.fetch_into(wanted, target)
        position = 0
        for found in wanted:
            self._parts.append((found.offset, target[position : position + found.length]))
            position += found.length

    def view(self, start: int, stop: int) -> memoryview:
        """The bytes from `start` to `stop`."""
        if start >= stop:
            return memoryview(b"")
        for offset, data in self._parts:
            if offset <= start and stop <= offset + len(data):
                return data[start - offset : stop - offset]
        data = memoryview(self._file.fetch_ranges([ByteRange(start, stop - start)])[0])
        self._parts.append((start, data))
        return data
