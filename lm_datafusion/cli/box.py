"""Aligned text tables.

In: names, rows of cells as text, a width. Out: lines.

If a table is too wide, its widest columns are truncated first (marked by an ellipsis); if that
would leave columns narrower than `MIN_WIDTH`, an ellipsis replaces columns in the middle.

Why: the first columns of a table usually identify a row, and the last ones are often computed.

Invariant: no line exceeds the width, unless a later cell is wider than those the widths were
computed from.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MIN_WIDTH: Final = 8
ELLIPSIS: Final = "…"
_ESCAPES: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
}


class BoxTable:
    """The layout of a table: which columns are shown, and how wide."""

    def __init__(
        self,
        names: Sequence[str],
        sample: Sequence[Sequence[str]],
        *,
        is_right: Sequence[bool],
        width: int | None = None,
        has_borders: bool = True,
    ) -> None:
        """Computes widths from `sample`; `width` limits a line, None for no limit."""
        self._between, self._edges = (" | ", 4) if has_borders else ("  ", 0)
        self._names = [visible(name) for name in names]
        self._is_right = is_right
        natural = [
            max([text_width(name), 1, *(text_width(row[index]) for row in sample)])
            for index, name in enumerate(self._names)
        ]
        self._shown = self._choose_columns(natural, width)
        self._widths = self._fit([natural[index] for index in self._shown], width)
        self._is_cut = width is not None

    @property
    def hidden_count(self) -> int:
        """The number of hidden columns."""
        return len(self._names) - len(self._shown)

    @property
    def _gap(self) -> int | None:
        """The position among the columns shown where others are hidden."""
        for position, (index, following) in enumerate(
            zip(self._shown, self._shown[1:], strict=False), 1
        ):
            if following != index + 1:
                return position
        return None if len(self._shown) == len(self._names) else len(self._shown)

    def head(self) -> Iterator[str]:
        """The lines above the rows."""
        yield from self.rule()
        yield self.line(self._names)
        yield from self.rule()

    def rule(self) -> Iterator[str]:
        """The line above and below the rows, in a table with borders."""
        if self._edges:
            widths = list(self._widths)
            if self._gap is not None:
                widths.insert(self._gap, 1)
            yield f"+{'+'.join('-' * (width + 2) for width in widths)}+"

    def line(self, cells: Sequence[str]) -> str:
        """One row."""
        parts = [
            _aligned(self._cut(cells[index], width), width, right=self._is_right[index])
            for index, width in zip(self._shown, self._widths, strict=True)
        ]
        if self._gap is not None:
            parts.insert(self._gap, ELLIPSIS)
        joined = self._between.join(parts)
        return f"| {joined} |" if self._edges else joined.rstrip()

    def _cut(self, cell: str, width: int) -> str:
        return cut(cell, width) if self._is_cut else cell

    def _line_width(self, widths: Iterable[int], *, has_gap: bool) -> int:
        shown = [*widths, *([1] if has_gap else [])]
        return sum(shown) + len(self._between) * (len(shown) - 1) + self._edges

    def _choose_columns(self, natural: Sequence[int], width: int | None) -> list[int]:
        """All columns, or as many of the first and last as fit."""
        shown = list(range(len(natural)))
        narrow = [min(width_, MIN_WIDTH) for width_ in natural]
        while (
            width is not None
            and len(shown) > 1
            and self._line_width(
                (narrow[index] for index in shown), has_gap=len(shown) < len(natural)
            )
            > width
        ):
            del shown[len(shown) // 2]
        return shown

    def _fit(self, natural: Sequence[int], width: int | None) -> list[int]:
        """Widths that fit: the widest columns shrink first."""
        has_gap = self._gap is not None
        if width is None or self._line_width(natural, has_gap=has_gap) <= width:
            return list(natural)
        low, high = 1, max(natural)
        while low < high:
            middle = (low + high + 1) // 2
            if self._line_width((min(n, middle) for n in natural), has_gap=has_gap) <= width:
                low = middle
            else:
                high = middle - 1
        return [min(n, low) for n in natural]


def plain_table(
    names: Sequence[str], rows: Sequence[Sequence[str]], *, is_right: Sequence[bool], width: int
) -> list[str]:
    """A whole table without borders."""
    table = BoxTable(names, rows, is_right=is_right, width=width, has_borders=False)
    return [*table.head(), *map(table.line, rows)]


def visible(text: str) -> str:
    """Text on one line: control characters are escaped."""
    return text if text.isprintable() else text.translate(_ESCAPES)


def text_width(text: str) -> int:
    """The number of terminal columns that a text takes."""
    if text.isascii():
        return len(text)
    return sum(_character_width(character) for character in text)


def cut(text: str, width: int) -> str:
    """A text truncated to `width` terminal columns."""
    if text_width(text) <= width:
        return text
    taken, kept = 1, []
    for character in text:
        taken += _character_width(character)
        if taken > width:
            break
        kept.append(character)
    return "".join(kept) + ELLIPSIS


def _character_width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _aligned(cell: str, width: int, *, right: bool) -> str:
    padding = " " * (width - text_width(cell))
    return padding + cell if right else cell + padding
