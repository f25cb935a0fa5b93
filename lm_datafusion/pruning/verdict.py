"""The verdict about a container."""

from __future__ import annotations

from enum import IntEnum


class Verdict(IntEnum):
    """Which rows of a container a predicate selects.

    Ordered: the verdict of a conjunction is at most the smallest of its parts.
    """

    NO_ROWS = 0
    SOME_ROWS = 1
    ALL_ROWS = 2
