"""Cuts row groups out of a stream.

In: a stream, how it is cut, and the positions of row groups. Out: pieces of a stream that holds
exactly the values of those row groups.

    | ... run .|.. run | run | whole chunks, copied as they are | run | run ..|. run |
               a                                                            b
      decoded, its rest written anew                     decoded, its head written anew

1. A position counts values from a byte on. Writers count values of runs that they have not formed
   yet, so these may be the values of several runs: they are passed over run by run.
2. The run at the first border is decoded, and its rest written anew; so is the head of the run at
   the last border.
3. What lies between is copied: whole chunks as they are, the others inflated.
4. Bits: eight of them are a value. Where row groups begin on bytes, as those of top-level columns
   do with a stride of a multiple of eight, byte runs are cut as other runs. Else all bits are
   unpacked, chosen and packed anew, because those of one row group end within a byte.

Invariant: the values between two positions, no more and no fewer, for any run that crosses them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lm_datafusion.formats.orc.runs import BYTE_RUNS, MOST_RUN_BYTES, RunFormat
from lm_datafusion.formats.orc.stream import Piece

if TYPE_CHECKING:
    import numpy.typing as npt

    from lm_datafusion.formats.orc.layout import Cut
    from lm_datafusion.formats.orc.row_index import Position
    from lm_datafusion.formats.orc.stream import Place, StreamBytes

    Span = tuple[Position, Position | None]

# Bits of a stream that are packed anew: a gigabyte of them is no stripe.
_MOST_PACKED_BYTES = 1 << 30


class _Border(NamedTuple):
    """A position within one run: how many of its values come before, and the run."""

    place: Place
    passed: int
    values: npt.NDArray[Any]
    run_bytes: int


_NO_VALUES = np.empty(0, np.int64)


def cut_stream(stream: StreamBytes, cut: Cut, spans: list[Span]) -> list[Piece]:
    """The pieces of a stream between pairs of positions; None is the end of the stream.

    Raises:
        ValueError: The stream does not have these positions. Also `IndexError`.
    """
    if cut.runs is None:
        return [
            piece
            for start, stop in spans
            for piece in stream.between(start[:2], None if stop is None else stop[:2])
        ]
    if cut.is_bits and any(start.bits or (stop and stop.bits) for start, stop in spans):
        return _cut_bits(stream, spans)
    return [piece for span in spans for piece in _cut_runs(stream, cut.runs, span)]


def _cut_runs(stream: StreamBytes, runs: RunFormat, span: Span) -> list[Piece]:
    start = _border(stream, runs, span[0])
    stop = None if span[1] is None else _border(stream, runs, span[1])
    pieces = []
    place = start.place
    if start.passed:
        if stop is not None and stop.place == place:
            if stop.passed < start.passed:
                raise ValueError("a row group ends before it begins")
            return [Piece(False, runs.write(start.values[start.passed : stop.passed]))]
        pieces.append(Piece(False, runs.write(start.values[start.passed :])))
        place = stream.advance(place, start.run_bytes)
    if stop is None:
        return pieces + stream.between(place, None)
    pieces += stream.between(place, stop.place)
    if stop.passed:
        pieces.append(Piece(False, runs.write(stop.values[: stop.passed])))
    return pieces


def _border(stream: StreamBytes, runs: RunFormat, position: Position) -> _Border:
    """The run that holds a position."""
    place, passed = position[:2], position.values
    while passed:
        values, run_bytes = runs.read(stream.window(place, MOST_RUN_BYTES))
        if passed < len(values):
            return _Border(place, passed, values, run_bytes)
        passed -= len(values)
        place = stream.advance(place, run_bytes)
    return _Border(stream.advance(place, 0), 0, _NO_VALUES, 0)


def _cut_bits(stream: StreamBytes, spans: list[Span]) -> list[Piece]:
    chosen = []
    for start, stop in spans:
        values = _byte_values(stream, _cut_runs(stream, BYTE_RUNS, (start, stop)))
        count = 8 * len(values)
        if stop is not None and stop.bits:
            values = np.append(values, _byte_at(stream, stop))
            count += stop.bits
        if count < start.bits:
            raise ValueError("a row group ends before it begins")
        chosen.append(np.unpackbits(values, count=count)[start.bits :])
    return [Piece(False, BYTE_RUNS.write(np.packbits(np.concatenate(chosen))))]


def _byte_at(stream: StreamBytes, position: Position) -> np.uint8:
    """The value at a position."""
    border = _border(stream, BYTE_RUNS, position)
    if border.passed:
        return border.values[border.passed]
    values, _ = BYTE_RUNS.read(stream.window(border.place, MOST_RUN_BYTES))
    return values[0]


def _byte_values(stream: StreamBytes, pieces: list[Piece]) -> npt.NDArray[np.uint8]:
    content = b"".join(stream.content(piece, limit=_MOST_PACKED_BYTES) for piece in pieces)
    data, position, found, total = memoryview(content), 0, [np.empty(0, np.uint8)], 0
    while position < len(data):
        values, run_bytes = BYTE_RUNS.read(data[position : position + MOST_RUN_BYTES])
        position += run_bytes
        total += len(values)
        if total > _MOST_PACKED_BYTES:
            raise ValueError("too many bits for a stripe")
        found.append(values)
    return np.concatenate(found)
