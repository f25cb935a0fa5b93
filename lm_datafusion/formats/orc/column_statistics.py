"""The statistics message of a column, in a stripe or in a row group.

In: its bytes. Out: counts, and minimum and maximum by type, None where absent.

Invariant: nothing is judged here; `bounds` says what can be trusted.
"""

from __future__ import annotations

from dataclasses import dataclass

from lm_datafusion.protobuf import Message

_INTEGER, _DOUBLE, _STRING, _BUCKET, _DECIMAL, _DATE, _BINARY, _TIMESTAMP = 2, 3, 4, 5, 6, 7, 8, 9
_BYTES_ON_DISK = 11


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """The fields of the message that are used here.

    Attributes:
        value_count: Values that are not null; None if absent.
        has_null: Whether there is a null; None if the writer does not say.
        integers: Minimum and maximum.
        doubles: Minimum, maximum and sum.
        texts: Lower and upper bound; they need not be values.
        true_count: How many values are true.
        decimals: Minimum and maximum as text.
        dates: Minimum and maximum in days.
        utc_milliseconds: Minimum and maximum of timestamps; absent before ORC-135.
        total_length: Of all text or bytes; None if absent.
        stored_bytes: What the streams of the column take; None if absent.
    """

    value_count: int | None = None
    has_null: bool | None = None
    integers: tuple[int | None, int | None] = (None, None)
    doubles: tuple[float | None, float | None, float | None] = (None, None, None)
    texts: tuple[bytes | None, bytes | None] = (None, None)
    true_count: int | None = None
    decimals: tuple[bytes | None, bytes | None] = (None, None)
    dates: tuple[int | None, int | None] = (None, None)
    utc_milliseconds: tuple[int | None, int | None] = (None, None)
    total_length: int | None = None
    stored_bytes: int | None = None

    @classmethod
    def parse(cls, data: bytes) -> ColumnStatistics:
        """Parses the message.

        Raises:
            ValueError: It is no message.
        """
        message = Message(data)
        has_null = message.optional(10)
        integers, doubles = _part(message, _INTEGER), _part(message, _DOUBLE)
        texts, decimals = _part(message, _STRING), _part(message, _DECIMAL)
        dates, timestamps = _part(message, _DATE), _part(message, _TIMESTAMP)
        true_counts = _part(message, _BUCKET).numbers(1)
        minimum, maximum = texts.content(1), texts.content(2)
        text_length, byte_length = texts.signed(3), _part(message, _BINARY).signed(1)
        return cls(
            value_count=message.optional(1),
            has_null=None if has_null is None else bool(has_null),
            integers=(integers.signed(1), integers.signed(2)),
            doubles=(doubles.double(1), doubles.double(2), doubles.double(3)),
            texts=(
                texts.content(4) if minimum is None else minimum,
                texts.content(5) if maximum is None else maximum,
            ),
            true_count=true_counts[0] if len(true_counts) == 1 else None,
            decimals=(decimals.content(1), decimals.content(2)),
            dates=(dates.signed(1), dates.signed(2)),
            utc_milliseconds=(timestamps.signed(3), timestamps.signed(4)),
            total_length=byte_length if text_length is None else text_length,
            stored_bytes=message.optional(_BYTES_ON_DISK),
        )


def _part(message: Message, field: int) -> Message:
    return Message(message.content(field) or b"")
