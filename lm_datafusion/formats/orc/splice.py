"""The splice: chosen row groups of chosen columns as a small ORC file in memory.

In: a stripe, top-level columns, and ranges of row groups. Out: the bytes of an ORC file with one
stripe that holds exactly those rows, for PyArrow to decode.

Taken over unchanged: types with their attributes, encodings, dictionaries, the writer's time zone,
version and calendar, which decide what values mean. Not taken over: indexes and statistics.

Invariant: all columns come out with the same rows, in their order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lm_datafusion.formats.orc.cut import cut_stream
from lm_datafusion.formats.orc.spec import MAGIC, VERSION_0_12, VERSION_2_DRAFT
from lm_datafusion.formats.orc.stream import StreamBytes
from lm_datafusion.protobuf import encode_field, encode_varint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lm_datafusion.formats.orc.groups import ColumnGroups, GroupRange
    from lm_datafusion.formats.orc.stream import Piece
    from lm_datafusion.formats.orc.stripe import Stripe, StripeBytes
    from lm_datafusion.formats.orc.tail import Tail

# Fields of the messages written here.
_STREAM, _ENCODING, _TIMEZONE = 1, 2, 3
_HEADER_LENGTH, _CONTENT_LENGTH, _STRIPE, _TYPE, _USER_METADATA, _ROW_COUNT = 1, 2, 3, 4, 5, 6
_STRIDE, _WRITER, _CALENDAR = 8, 9, 11


class _Output:
    """Parts of a file, in order."""

    def __init__(self) -> None:
        self.parts: list[bytes | memoryview] = [MAGIC]
        self.length = len(MAGIC)

    def add(self, parts: Sequence[bytes | memoryview]) -> int:
        """Appends parts; returns their length."""
        self.parts += parts
        length = sum(map(len, parts))
        self.length += length
        return length


def splice_empty(tail: Tail, columns: Sequence[int]) -> bytes:
    """A file without rows: what PyArrow says of its schema is what it says of the table."""
    return _finish(_Output(), tail, columns, [], 0)


def splice(
    tail: Tail,
    stripe: Stripe,
    columns: Sequence[int],
    source: StripeBytes,
    *,
    groups: Sequence[GroupRange],
    cut_columns: Mapping[int, ColumnGroups] | None,
    row_count: int,
) -> bytes:
    """A file with the rows of some row groups.

    Args:
        tail: Of the file.
        stripe: That has the row groups.
        columns: Top-level columns, by their place among the names.
        source: The bytes of the file.
        groups: Ranges of row groups.
        cut_columns: The row groups of each column that has streams; None for the whole stripe.
        row_count: How many rows the row groups have.

    Raises:
        ValueError: The stripe is damaged. Also `IndexError` and others.
    """
    output = _Output()
    numbers = tail.types.renumbered(columns)
    streams = []
    for column, number in numbers.items():
        for kind in stripe.value_streams(column) if number else ():
            stream = StreamBytes(source, stripe.streams[column, kind], tail.chunks)
            cut_column = None if cut_columns is None else cut_columns[column]
            pieces = _pieces(stream, kind, cut_column, groups)
            length = sum(output.add(_framed(tail, piece)) for piece in pieces)
            message = encode_field(1, kind) + encode_field(2, number) + encode_field(3, length)
            streams.append(encode_field(_STREAM, message))
    encodings = [encode_field(_ENCODING, stripe.encodings[column].message) for column in numbers]
    zone = stripe.writer_timezone.encode()
    footer = b"".join(streams + encodings) + (encode_field(_TIMEZONE, zone) if zone else b"")
    data_length = output.length - len(MAGIC)
    footer_length = output.add(tail.chunks.frame(footer))
    information = (len(MAGIC), 0, data_length, footer_length, row_count)
    message = b"".join(encode_field(i, value) for i, value in enumerate(information, start=1))
    return _finish(output, tail, columns, [encode_field(_STRIPE, message)], row_count)


def _pieces(
    stream: StreamBytes,
    kind: int,
    column: ColumnGroups | None,
    groups: Sequence[GroupRange],
) -> list[Piece]:
    for layout in () if column is None else column.layout:
        if column is not None and layout.kind == kind:
            return cut_stream(stream, layout.cut, column.spans(layout.kind, groups))
    return [stream.whole()]


def _framed(tail: Tail, piece: Piece) -> list[bytes | memoryview]:
    return [piece.data] if piece.is_framed else tail.chunks.frame(piece.data)


def _finish(
    output: _Output, tail: Tail, columns: Sequence[int], stripes: list[bytes], row_count: int
) -> bytes:
    """Footer, postscript and the length of the latter."""
    post_script, footer = tail.post_script, tail.footer
    numbers = tail.types.renumbered(columns)
    parts = [encode_field(_HEADER_LENGTH, len(MAGIC)), encode_field(_CONTENT_LENGTH, output.length)]
    parts += stripes
    parts += [encode_field(_TYPE, m) for m in tail.types.messages(columns, numbers)]
    parts += [encode_field(_USER_METADATA, item) for item in footer.user_metadata]
    parts += [encode_field(_ROW_COUNT, row_count), encode_field(_STRIDE, 0)]
    parts.append(encode_field(_WRITER, footer.writer))
    if footer.calendar is not None:
        parts.append(encode_field(_CALENDAR, footer.calendar))
    footer_length = output.add(tail.chunks.frame(b"".join(parts)))
    # PyArrow prints a warning about versions that it does not know. Only one changes what it reads.
    is_draft = post_script.version == VERSION_2_DRAFT
    version = VERSION_2_DRAFT if is_draft else VERSION_0_12
    end = encode_field(1, footer_length) + encode_field(2, post_script.compression)
    end += encode_field(3, tail.chunks.block_size)
    end += encode_field(4, b"".join(map(encode_varint, version))) + encode_field(5, 0)
    end += encode_field(6, post_script.writer_version) + encode_field(8000, MAGIC)
    output.add([end, bytes((len(end),))])
    return b"".join(output.parts)
