"""How plans are written for people: conditions, lists of columns, counts and sizes.

In: values. Out: words, in lines of a terminal's width.

Invariant: nothing here decides anything.
"""

from __future__ import annotations

import re
import textwrap

_WIDTH = 96
_COLUMNS_SHOWN = 12
_TYPED_NUMBER = re.compile(r"arrow_cast\('(-?[\d.]+)', '(?:U?Int|Float)\d+'\)")
_TYPED_TEXT = re.compile(r"arrow_cast\(('[^']*'), '(?:Large)?Utf8(?:View)?'\)")
_BARE_NUMBER = re.compile(r" \((-?[\d.]+)\)")


def readable(predicate: str) -> str:
    """A condition without the types of its literals and its outermost parentheses."""
    text = _TYPED_NUMBER.sub(r"\1", predicate)
    text = _TYPED_TEXT.sub(r"\1", text)
    text = _BARE_NUMBER.sub(r" \1", text)
    if text.startswith("(") and text.endswith(")") and "(" not in text[1:-1]:
        return text[1:-1]
    return text


def wrapped(label: str, text: str, width: int = 8) -> list[str]:
    """A labelled text, wrapped; the lines after the first are indented."""
    indent = " " * (width + 3)
    lines = textwrap.wrap(text, _WIDTH - len(indent), break_long_words=False) or [""]
    first, *others = lines
    return [f"  {label:<{width}} {first}", *(indent + line for line in others)]


def listed(columns: tuple[str, ...]) -> str:
    """Names of columns; of many, the first."""
    if len(columns) <= _COLUMNS_SHOWN:
        return ", ".join(columns)
    shown = ", ".join(columns[:_COLUMNS_SHOWN])
    return f"{len(columns)} columns: {shown} and {len(columns) - _COLUMNS_SHOWN} more"


def counted(number: int, word: str) -> str:
    """A number and what it counts, in the singular or the plural."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def percent(share: float) -> str:
    """A share as a percentage; small ones with decimals."""
    return f"{share:.2%}" if share < 0.1 else f"{share:.0%}"  # noqa: PLR2004 one in ten


def byte_size(number: int) -> str:
    """A number of bytes in a unit that suits it."""
    size, unit = float(number), "bytes"
    for larger in ("KB", "MB", "GB"):
        if size < 1000:  # noqa: PLR2004 the next unit
            break
        size, unit = size / 1000, larger
    return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
