"""Bloom filters: whether a column chunk can contain a value.

In: the bytes of a `BloomFilterHeader`, then those of the bitset after it. Out: a certain "no", or
"perhaps".

The filter is a list of blocks of 32 bytes, each eight words of 32 bits ("Parquet Bloom Filter").
The upper half of a value's hash picks the block; the lower half, times one odd constant per word,
picks one bit in each word. An inserted value has all its eight bits set. The hash is XXH64 with
seed 0 of the value in PLAIN encoding, without the length prefix of a BYTE_ARRAY.

Invariant: `might_contain` is true for every value that was inserted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import xxhash

from lm_datafusion.formats.parquet.thrift import Octets, ThriftError, read_struct, required

if TYPE_CHECKING:
    from collections.abc import Iterable

BLOCK_BYTES = 32
# "Technical Approach": the odd constants, word by word.
_SALTS = (
    *(0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D),
    *(0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31),
)
# Per word: its salt, and the position of its first bit in the block as a little-endian integer.
_WORDS = tuple((salt, 32 * word) for word, salt in enumerate(_SALTS))
# Each option of the header is a union of empty structs; so far field 1 is the only member: BLOCK of
# algorithm (2), XXHASH of hash (3), UNCOMPRESSED of compression (4).
_UNION_IDS = (2, 3, 4)
_KNOWN_MEMBER: dict[int, dict[int, object]] = {1: {}}


def parse_bloom_filter_header(buffer: Octets) -> tuple[int, int] | None:
    """Parse the header of a bloom filter.

    Args:
        buffer: Bytes that begin with the header; the bitset may follow.

    Returns:
        The lengths in bytes of the bitset and of the header before it; `None` for an unknown
        algorithm, hash or compression.

    Raises:
        NeedMoreData: The buffer ends inside the header.
        ThriftError: The bytes are not a bloom filter header.
    """
    fields, header_length = read_struct(buffer)
    num_bytes = required(fields, 1, int)
    unions = [required(fields, field_id, dict) for field_id in _UNION_IDS]
    if any(union != _KNOWN_MEMBER for union in unions):
        return None
    _check_size(num_bytes)
    return num_bytes, header_length


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """A split block bloom filter; `bitset` is what follows its header in the file."""

    bitset: bytes

    def __post_init__(self) -> None:
        _check_size(len(self.bitset))

    def might_contain(self, plain_bytes: bytes) -> bool:
        """Whether the value may have been inserted.

        Args:
            plain_bytes: The value in PLAIN encoding, for a BYTE_ARRAY without its length.

        Returns:
            False if it was certainly not inserted.
        """
        hashed = xxhash.xxh64_intdigest(plain_bytes)
        num_blocks = len(self.bitset) // BLOCK_BYTES
        start = ((hashed >> 32) * num_blocks >> 32) * BLOCK_BYTES
        block = int.from_bytes(self.bitset[start : start + BLOCK_BYTES], "little")
        key = hashed & 0xFFFFFFFF
        for salt, first_bit in _WORDS:
            if not block >> first_bit + ((key * salt & 0xFFFFFFFF) >> 27) & 1:
                return False
        return True

    def might_contain_any(self, plain_values: Iterable[bytes]) -> bool:
        """Whether one of the values may have been inserted."""
        return any(map(self.might_contain, plain_values))


def _check_size(num_bytes: int) -> None:
    if num_bytes <= 0 or num_bytes % BLOCK_BYTES:
        raise ThriftError(f"a bloom filter cannot have {num_bytes} bytes")
