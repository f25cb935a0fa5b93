"""Byte ranges and their coalescing.

In: the requested ranges. Out: fewer, larger ranges that cover them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class ByteRange(NamedTuple):
    """`length` bytes from `offset` on."""

    offset: int
    length: int

    @property
    def stop(self) -> int:
        """The first byte after the range."""
        return self.offset + self.length


def coalesce(ranges: Iterable[ByteRange], *, gap_bytes: int = 0) -> list[ByteRange]:
    """Merges ranges that touch or lie at most `gap_bytes` apart; the result is sorted.

    >>> coalesce([ByteRange(10, 5), ByteRange(0, 10), ByteRange(20, 1)])
    [ByteRange(offset=0, length=15), ByteRange(offset=20, length=1)]
    """
    merged: list[ByteRange] = []
    for wanted in sorted(ranges):
        if merged and wanted.offset <= merged[-1].stop + gap_bytes:
            last = merged[-1]
            merged[-1] = ByteRange(last.offset, max(last.stop, wanted.stop) - last.offset)
        else:
            merged.append(wanted)
    return merged
