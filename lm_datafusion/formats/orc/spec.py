"""Numbers of the ORC specification."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

MAGIC: Final = b"ORC"
# A chunk header has 23 bits for a length, and one for the flag `original`.
LARGEST_CHUNK: Final = (1 << 23) - 1
DEFAULT_BLOCK_SIZE: Final = 256 * 1024
# The version in which decimals of up to 18 digits are runs of integers.
VERSION_2_DRAFT: Final = (1, 9999)
VERSION_0_12: Final = (0, 12)


class Compression(IntEnum):
    """The codec of a file."""

    NONE = 0
    ZLIB = 1
    SNAPPY = 2
    LZO = 3
    LZ4 = 4
    ZSTD = 5


class StreamKind(IntEnum):
    """What a stream of a column holds."""

    PRESENT = 0
    DATA = 1
    LENGTH = 2
    DICTIONARY_DATA = 3
    DICTIONARY_COUNT = 4
    SECONDARY = 5
    ROW_INDEX = 6
    BLOOM_FILTER = 7
    BLOOM_FILTER_UTF8 = 8


# The streams that values are decoded from.
VALUE_STREAMS: Final = frozenset(
    {
        StreamKind.PRESENT,
        StreamKind.DATA,
        StreamKind.LENGTH,
        StreamKind.DICTIONARY_DATA,
        StreamKind.DICTIONARY_COUNT,
        StreamKind.SECONDARY,
    }
)


class TypeKind(IntEnum):
    """The type of a column."""

    BOOLEAN = 0
    BYTE = 1
    SHORT = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BINARY = 8
    TIMESTAMP = 9
    LIST = 10
    MAP = 11
    STRUCT = 12
    UNION = 13
    DECIMAL = 14
    DATE = 15
    VARCHAR = 16
    CHAR = 17
    TIMESTAMP_INSTANT = 18


class EncodingKind(IntEnum):
    """How the values of a column are encoded in a stripe."""

    DIRECT = 0
    DICTIONARY = 1
    DIRECT_V2 = 2
    DICTIONARY_V2 = 3


class Writer(IntEnum):
    """Programs that write ORC and are known here."""

    JAVA = 0
    CPP = 1


class WriterVersion(IntEnum):
    """Versions of writers that mended something; numbers of the Java writer."""

    HIVE_8732 = 1
    ORC_135 = 6
    ORC_517 = 7
