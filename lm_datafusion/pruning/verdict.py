"""The answer about a container."""

from __future__ import annotations

from enum import IntEnum


class Verdict(IntEnum):
    """Which rows of a container a predicate selects.

    The order is that of hope: the verdict of a conjunction is at most its smallest part's.
    """

    NO_ROWS = 0
    SOME_ROWS = 1
    ALL_ROWS = 2
