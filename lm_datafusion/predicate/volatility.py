"""Functions that do not always return the same result for the same row.

In: SQL text. Out: whether it calls a function whose result may change over time.
"""

from __future__ import annotations

import re

# Functions of DataFusion 55 with a new value on every call ...
VOLATILE_FUNCTIONS = frozenset({"random", "uuid", "uuidv4", "uuidv7", "gen_random_uuid"})
# ... and those with one value per query.
STABLE_FUNCTIONS = frozenset(
    {"now", "current_timestamp", "current_date", "current_time", "today", "localtimestamp"}
)
# Those that SQL allows without parentheses.
_BARE = frozenset({"current_timestamp", "current_date", "current_time", "localtimestamp"})
_CALLED = re.compile(
    rf"\b(?:{'|'.join(sorted(VOLATILE_FUNCTIONS | STABLE_FUNCTIONS))})\s*\("
    rf"|\b(?:{'|'.join(sorted(_BARE))})\b",
    re.IGNORECASE,
)


def may_change(text: str) -> bool:
    """Whether a text calls such a function, even inside a quoted value."""
    return _CALLED.search(text) is not None
