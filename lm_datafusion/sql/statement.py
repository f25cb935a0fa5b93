"""EXPLAIN and the statement it explains.

In: SQL text. Out: its EXPLAIN keywords, and the rest.

Invariant: the rest is the user's text, character for character.
"""

from __future__ import annotations

import re

# sqlglot does not parse EXPLAIN: it keeps the statement as one piece of text.
_EXPLAIN = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*EXPLAIN(?:\s+ANALYZE)?(?:\s+VERBOSE)?(?:\s+FORMAT\s+\w+)?\s+",
    re.IGNORECASE | re.DOTALL,
)


def split_explain(text: str) -> tuple[str, str] | None:
    """The EXPLAIN keywords and the statement; None for every other statement."""
    words = _EXPLAIN.match(text)
    return None if words is None else (words[0], text[words.end() :])
