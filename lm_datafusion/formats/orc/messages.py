"""The metadata messages of ORC.

In: the bytes of a message. Out: a frozen value with the fields that are used here.

Invariant: bytes that are not such a message raise `ValueError`. Nothing is checked against other
messages; that is done by whoever has both.
"""

from __future__ import annotations

from dataclasses import dataclass

from lm_datafusion.formats.orc.spec import (
    DEFAULT_BLOCK_SIZE,
    MAGIC,
    Compression,
    EncodingKind,
)
from lm_datafusion.protobuf import Message

_ROOT_OF_VARIANT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PostScript:
    """The last message of a file, never compressed."""

    footer_length: int
    metadata_length: int
    compression: Compression
    block_size: int
    version: tuple[int, ...]
    writer_version: int
    has_magic: bool

    @classmethod
    def parse(cls, data: bytes) -> PostScript:
        """Parses the message."""
        message = Message(data)
        return cls(
            footer_length=message.number(1),
            compression=Compression(message.number(2)),
            block_size=message.number(3, DEFAULT_BLOCK_SIZE),
            version=tuple(message.numbers(4)),
            metadata_length=message.number(5),
            writer_version=message.number(6),
            has_magic=message.content(8000) == MAGIC,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StripeInformation:
    """Where a stripe is, and how many rows it has."""

    offset: int
    index_length: int
    data_length: int
    footer_length: int
    row_count: int

    @property
    def footer_offset(self) -> int:
        """Where the footer of the stripe begins."""
        return self.offset + self.index_length + self.data_length

    @property
    def stop(self) -> int:
        """The first byte after the stripe."""
        return self.footer_offset + self.footer_length

    @classmethod
    def parse(cls, data: bytes) -> StripeInformation:
        """Parses the message."""
        message = Message(data)
        return cls(
            offset=message.number(1),
            index_length=message.number(2),
            data_length=message.number(3),
            footer_length=message.number(4),
            row_count=message.number(5),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnType:
    """The type of a column; `message` is the whole of it."""

    kind: int
    subtypes: tuple[int, ...]
    names: tuple[str, ...]
    precision: int
    scale: int
    message: bytes

    @classmethod
    def parse(cls, data: bytes) -> ColumnType:
        """Parses the message."""
        message = Message(data)
        return cls(
            kind=message.number(1),
            subtypes=tuple(message.numbers(2)),
            names=tuple(name.decode("utf-8") for name in message.contents(3)),
            precision=message.number(5),
            scale=message.number(6),
            message=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """The footer of a file."""

    stripes: tuple[StripeInformation, ...]
    types: tuple[ColumnType, ...]
    row_count: int
    row_index_stride: int
    writer: int
    software_version: str
    calendar: int | None
    user_metadata: tuple[bytes, ...]
    encrypted_roots: frozenset[int]

    @classmethod
    def parse(cls, data: bytes) -> Footer:
        """Parses the message."""
        message = Message(data)
        variants = [
            Message(variant)
            for encryption in message.contents(10)
            for variant in Message(encryption).contents(3)
        ]
        return cls(
            stripes=tuple(map(StripeInformation.parse, message.contents(3))),
            types=tuple(map(ColumnType.parse, message.contents(4))),
            user_metadata=tuple(message.contents(5)),
            row_count=message.number(6),
            row_index_stride=message.number(8),
            writer=message.number(9),
            encrypted_roots=frozenset(v.number(_ROOT_OF_VARIANT) for v in variants),
            calendar=message.optional(11),
            software_version=(message.content(12) or b"").decode("utf-8", "replace"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamInformation:
    """What a stream holds, and how long it is."""

    kind: int
    column: int
    length: int

    @classmethod
    def parse(cls, data: bytes) -> StreamInformation:
        """Parses the message."""
        message = Message(data)
        return cls(kind=message.number(1), column=message.number(2), length=message.number(3))


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnEncoding:
    """How a column is encoded in a stripe; `message` is the whole of it."""

    kind: int
    dictionary_size: int
    bloom_encoding: int
    message: bytes

    @property
    def is_dictionary(self) -> bool:
        """Whether values are numbers of entries in a dictionary."""
        return self.kind in (EncodingKind.DICTIONARY, EncodingKind.DICTIONARY_V2)

    @classmethod
    def parse(cls, data: bytes) -> ColumnEncoding:
        """Parses the message."""
        message = Message(data)
        return cls(
            kind=message.number(1),
            dictionary_size=message.number(2),
            bloom_encoding=message.number(3),
            message=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StripeFooter:
    """The footer of a stripe."""

    streams: tuple[StreamInformation, ...]
    encodings: tuple[ColumnEncoding, ...]
    writer_timezone: str

    @classmethod
    def parse(cls, data: bytes) -> StripeFooter:
        """Parses the message."""
        message = Message(data)
        return cls(
            streams=tuple(map(StreamInformation.parse, message.contents(1))),
            encodings=tuple(map(ColumnEncoding.parse, message.contents(2))),
            writer_timezone=(message.content(3) or b"").decode("utf-8"),
        )
