"""Which functions do not give the same answer to the same row every time.

In: SQL text. Out: whether a function in it may answer differently tomorrow.
"""

from __future__ import annotations

import re

# DataFusion 55's functions that answer differently on every call ...
VOLATILE_FUNCTIONS = frozenset({"random", "uuid", "uuidv4", "uuidv7", "gen_random_uuid"})
# ... and those that have one value per query.
STABLE_FUNCTIONS = frozenset(
    {"now", "current_timestamp", "current_date", "current_time", "today", "localtimestamp"}
)
# Those that SQL lets one write without parentheses.
_BARE = frozenset({"current_timestamp", "current_date", "current_time", "localtimestamp"})
_CALLED = re.compile(
    rf"\b(?:{'|'.join(sorted(VOLATILE_FUNCTIONS | STABLE_FUNCTIONS))})\s*\("
    rf"|\b(?:{'|'.join(sorted(_BARE))})\b",
    re.IGNORECASE,
)


def may_change(text: str) -> bool:
    """Whether a text calls such a function; inside a quoted value counts too."""
    return _CALLED.search(text) is not None
