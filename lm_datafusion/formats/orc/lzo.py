"""LZO1X: in, a compressed block; out, its bytes.

PyArrow has no codec of it outside its ORC reader. Python is slow at this, but only tails, indexes
and the chunks at the borders of row groups are decompressed here.

Instructions, by their first byte:

    0..15    after no literals: a long literal; else a match of 2 or 3 bytes nearby
    16..31   a match 16 to 48 KiB back; distance 16,384 is the end of the block
    32..63   a match up to 16 KiB back
    64..255  a match of 3 to 8 bytes up to 2 KiB back

A match says how many literals (0 to 3) follow it.

Invariant: never more than `limit` bytes, and only bytes of the block or written before.
"""

from __future__ import annotations

_FAR = 16_384


def decompress_lzo(data: bytes, limit: int) -> bytes:
    """Decompresses a block.

    Raises:
        ValueError: It is no block, or gives more than `limit` bytes.
        IndexError: It ends too early.
    """
    out = bytearray()
    position = 0
    # Literals that the last instruction copied; 4 stands for four or more.
    state = 0
    if data[0] > 17:
        count = data[0] - 17
        out += _literals(data, 1, count)
        position = 1 + count
        state = min(count, 4)
    while True:
        if len(out) > limit:
            raise ValueError(f"more than {limit} bytes are packed")
        opcode = data[position]
        position += 1
        if opcode < 16 and state == 0:
            count, position = _length(data, position, opcode, 15)
            out += _literals(data, position, count + 3)
            position += count + 3
            state = 4
        else:
            length, distance, state, position = _match(data, position, opcode, state)
            if distance == _FAR and 16 <= opcode < 32:
                if position != len(data):
                    raise ValueError("bytes follow the end of an LZO block")
                return bytes(out)
            _copy(out, distance, length, limit)
            out += _literals(data, position, state)
            position += state


def _literals(data: bytes, position: int, count: int) -> bytes:
    if position + count > len(data):
        raise ValueError("an LZO block ends within literals")
    return data[position : position + count]


def _length(data: bytes, position: int, short: int, base: int) -> tuple[int, int]:
    """A length in the bits of an instruction, or if those are zero in the bytes after it."""
    if short:
        return short, position
    length = base
    while data[position] == 0:
        length += 255
        position += 1
    return length + data[position], position + 1


def _match(data: bytes, position: int, opcode: int, state: int) -> tuple[int, int, int, int]:
    """Length, distance and literals of a match, and the position after it."""
    if opcode >= 64:
        length = (opcode >> 5) + 1
        distance = (data[position] << 3) + (opcode >> 2 & 7) + 1
        return length, distance, opcode & 3, position + 1
    if opcode < 16:
        length, nearest = (3, 2049) if state == 4 else (2, 1)
        return length, (data[position] << 2) + (opcode >> 2) + nearest, opcode & 3, position + 1
    if opcode >= 32:
        length, position = _length(data, position, opcode & 31, 31)
        distance = 1
    else:
        length, position = _length(data, position, opcode & 7, 7)
        distance = _FAR + ((opcode & 8) << 11)
    bits = data[position] | data[position + 1] << 8
    return length + 2, distance + (bits >> 2), bits & 3, position + 2


def _copy(out: bytearray, distance: int, length: int, limit: int) -> None:
    if distance > len(out) or len(out) + length > limit:
        raise ValueError("an LZO match lies outside its block")
    start = len(out) - distance
    while length > 0:  # a match may overlap what it writes
        part = out[start : start + length]
        out += part
        length -= len(part)
