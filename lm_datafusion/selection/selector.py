"""One step of a row selection: a number of selected or skipped rows.

In: a count. Out: a `RowSelector`, the human-readable unit of selections.

Invariant: `row_count` is never negative. A selector of no rows is allowed here, since it may be
computed; a `RowSelection` never returns one.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lm_datafusion.errors import OptionError

if TYPE_CHECKING:
    from typing import Self, SupportsIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSelector:
    """Select or skip `row_count` consecutive rows.

    Example:
        >>> RowSelector.skip(100)
        RowSelector.skip(100)
        >>> RowSelector.select(10).is_skip
        False
    """

    row_count: int
    is_skip: bool

    def __post_init__(self) -> None:
        if self.row_count < 0:
            raise OptionError(f"a selector needs a row count of 0 or more, not {self.row_count}")

    def __repr__(self) -> str:
        return f"RowSelector.{'skip' if self.is_skip else 'select'}({self.row_count})"

    @classmethod
    def select(cls, row_count: SupportsIndex) -> Self:
        """Select the next `row_count` rows."""
        return cls(row_count=operator.index(row_count), is_skip=False)

    @classmethod
    def skip(cls, row_count: SupportsIndex) -> Self:
        """Skip the next `row_count` rows."""
        return cls(row_count=operator.index(row_count), is_skip=True)
