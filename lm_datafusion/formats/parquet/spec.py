"""The enums of the Parquet format, named as in `parquet.thrift`.

In: the integers found in footers and headers. Out: names for them.

Invariant: the values are the specification's. A file may contain a number that is not listed here
(a newer writer): parsers keep it as a plain integer if nothing depends on it.
"""

from __future__ import annotations

from enum import IntEnum

MAGIC = b"PAR1"


class PhysicalType(IntEnum):
    """`Type`: how the values of a leaf column are stored."""

    BOOLEAN = 0
    INT32 = 1
    INT64 = 2
    INT96 = 3
    FLOAT = 4
    DOUBLE = 5
    BYTE_ARRAY = 6
    FIXED_LEN_BYTE_ARRAY = 7


class Repetition(IntEnum):
    """`FieldRepetitionType`: whether a field occurs once, at most once, or many times."""

    REQUIRED = 0
    OPTIONAL = 1
    REPEATED = 2


class Encoding(IntEnum):
    """`Encoding`: how the values or the levels of a page are written."""

    PLAIN = 0
    PLAIN_DICTIONARY = 2
    RLE = 3
    BIT_PACKED = 4
    DELTA_BINARY_PACKED = 5
    DELTA_LENGTH_BYTE_ARRAY = 6
    DELTA_BYTE_ARRAY = 7
    RLE_DICTIONARY = 8
    BYTE_STREAM_SPLIT = 9


DICTIONARY_ENCODINGS = frozenset({Encoding.PLAIN_DICTIONARY, Encoding.RLE_DICTIONARY})


class Codec(IntEnum):
    """`CompressionCodec`: how the body of a page is compressed."""

    UNCOMPRESSED = 0
    SNAPPY = 1
    GZIP = 2
    LZO = 3
    BROTLI = 4
    LZ4 = 5
    ZSTD = 6
    LZ4_RAW = 7


# A chunk's metadata names its codec as PyArrow does; this is the name that `pyarrow.Codec` takes.
PYARROW_CODECS = {
    "SNAPPY": "snappy",
    "GZIP": "gzip",
    "BROTLI": "brotli",
    "ZSTD": "zstd",
    "LZ4": "lz4_raw",
}


class PageType(IntEnum):
    """`PageType`: what a page holds."""

    DATA_V1 = 0
    INDEX = 1
    DICTIONARY = 2
    DATA_V2 = 3


class BoundaryOrder(IntEnum):
    """`BoundaryOrder`: how the bounds of the pages in a column index are ordered."""

    UNORDERED = 0
    ASCENDING = 1
    DESCENDING = 2
