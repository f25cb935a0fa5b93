"""The files of real data, cut into pieces that tasks can take.

In: names and patterns: hits.parquet, hits_*.parquet, hits.tsv, hits.tsv.gz. Out: `Piece`s in the
order of the rows: row groups of a Parquet file, or bytes of a text file with the number of their
first line, which is found by counting the line breaks before it, in parallel. A gzip stream
cannot be cut, so it is first unpacked into pieces on disk.

Invariant: each line belongs to the piece that its first byte is in, so pieces cover every line
once, and a line's number is its number in the file.
"""

from __future__ import annotations

import glob
import gzip
import itertools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PIECE_BYTES = 700_000_000  # about a million rows
PIECE_ROWS = 1_000_000
_READ_BYTES = 1 << 24


class SourceError(RuntimeError):
    """A source that is missing or of no known kind."""


@dataclass(frozen=True)
class Piece:
    """Part of a source: rows [first, last) of row groups, or bytes [start, stop)."""

    source: str  # the file as the user knows it
    path: str  # where the bytes are
    is_text: bool
    start: int
    stop: int
    first_row: int  # number of the first row or line in the source, from 0


def find_sources(patterns: list[str]) -> list[str]:
    """The files that names and patterns stand for, in natural order.

    Raises:
        SourceError: A name stands for nothing, or its ending is not known.
    """
    found: list[str] = []
    for pattern in patterns:
        files = sorted(glob.glob(pattern), key=_natural)
        if not files:
            raise SourceError(f"there is no file {pattern}")
        found += [path for path in files if path not in found]
    for path in found:
        if not path.endswith((".parquet", ".tsv", ".tsv.gz")):
            raise SourceError(f"{path} ends neither in .parquet nor in .tsv or .tsv.gz")
    return found


def _natural(path: str) -> list[tuple[int, str]]:
    """hits_2 before hits_10."""
    words = "".join(c if c.isdigit() else f" {c} " for c in path).split()
    return [(int(word), "") if word.isdigit() else (-1, word) for word in words]


def parquet_pieces(path: str) -> list[Piece]:
    """Row groups of a Parquet file, about a million rows together.

    Raises:
        SourceError: It cannot be read.
    """
    try:
        metadata = pq.read_metadata(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise SourceError(f"{path}: {error}") from error
    pieces: list[Piece] = []
    row = first_row = first = 0
    for group in range(metadata.num_row_groups):
        row += metadata.row_group(group).num_rows
        if row - first_row >= PIECE_ROWS * 3 // 4 or group == metadata.num_row_groups - 1:
            pieces.append(Piece(path, path, False, first, group + 1, first_row))
            first, first_row = group + 1, row
    return pieces


def cut_text(path: str, cores: int) -> list[tuple[str, int, int]]:
    """Ranges of bytes of a text file, at least one per core if it is large."""
    size = os.path.getsize(path)
    count = max(-(-size // PIECE_BYTES), min(cores, -(-size // (1 << 24))), 1)
    borders = [size * number // count for number in range(count + 1)]
    return [(path, start, stop) for start, stop in itertools.pairwise(borders)]


def count_breaks(cut: tuple[str, int, int]) -> int:
    """Line breaks in a range of bytes."""
    path, start, stop = cut
    found = 0
    with open(path, "rb") as file:
        file.seek(start)
        while start < stop and (data := file.read(min(_READ_BYTES, stop - start))):
            found += data.count(b"\n")
            start += len(data)
    return found


def text_pieces(
    path: str, cores: int, run: Callable[[list[tuple[str, int, int]]], list[int]]
) -> list[Piece]:
    """Pieces of a text file; `run` counts line breaks of ranges, where and how it likes."""
    cuts = cut_text(path, cores)
    pieces = []
    line = 0
    for (_, start, stop), breaks in zip(cuts, run(cuts), strict=True):
        pieces.append(Piece(path, path, True, start, stop, line + _is_inside(path, start)))
        line += breaks
    return pieces


def _is_inside(path: str, start: int) -> bool:
    """Whether a byte is inside a line that began before it."""
    if start == 0:
        return False
    with open(path, "rb") as file:
        file.seek(start - 1)
        return file.read(1) != b"\n"


def unpack(path: str, folder: str) -> list[Piece]:
    """Unpacks a gzip file into pieces of whole lines in a folder."""
    os.makedirs(folder, exist_ok=True)
    pieces: list[Piece] = []
    line = 0
    with gzip.open(path, "rb") as stream:
        while True:
            name = os.path.join(folder, f"{os.path.basename(path)}.{len(pieces):04}.lines")
            breaks, size = _unpack_one(stream, name)
            if not size:
                os.remove(name)
                return pieces
            pieces.append(Piece(path, name, True, 0, size, line))
            line += breaks


def _unpack_one(stream: gzip.GzipFile, name: str) -> tuple[int, int]:
    """Writes the next piece; its line breaks and bytes."""
    breaks = size = 0
    with open(name, "wb") as file:
        while size < PIECE_BYTES and (data := stream.read(_READ_BYTES)):
            if not data.endswith(b"\n"):
                data += stream.readline()
            file.write(data)
            breaks += data.count(b"\n")
            size += len(data)
    return breaks, size


def read_lines(piece: Piece) -> Iterator[bytes]:
    """Whole lines of a piece, some megabytes at a time."""
    with open(piece.path, "rb") as file:
        file.seek(piece.start)
        if _is_inside(piece.path, piece.start):
            file.readline()
        while file.tell() < piece.stop:
            data = file.read(min(_READ_BYTES, piece.stop - file.tell()))
            if not data.endswith(b"\n"):
                data += file.readline()
            yield data
