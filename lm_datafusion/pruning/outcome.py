"""Three-valued logic over containers.

In: for each container, whether a predicate can be true, false or null for some row. Out: the same
for NOT, AND, OR and IS TRUE of predicates, and verdicts.

Invariant: a flag that is off is a proof; one that is on is only a possibility.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lm_datafusion.pruning.verdict import Verdict

if TYPE_CHECKING:
    import numpy.typing as npt

    Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Which truth values a predicate may take in each container."""

    can_be_true: Flags
    can_be_false: Flags
    can_be_null: Flags

    @classmethod
    def unknown(cls, count: int) -> Outcome:
        """Anything is possible."""
        anything = np.ones(count, dtype=np.bool_)
        return cls(anything, anything, anything)

    @classmethod
    def constant(cls, value: bool | None, count: int) -> Outcome:  # noqa: FBT001 a truth value
        """The same for every row."""
        on, off = np.ones(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)
        return cls(
            on if value is True else off,
            on if value is False else off,
            on if value is None else off,
        )

    def __invert__(self) -> Outcome:
        return Outcome(self.can_be_false, self.can_be_true, self.can_be_null)

    def __and__(self, other: Outcome) -> Outcome:
        return Outcome(
            self.can_be_true & other.can_be_true,
            self.can_be_false | other.can_be_false,
            (self.can_be_null & (other.can_be_null | other.can_be_true))
            | (other.can_be_null & self.can_be_true),
        )

    def __or__(self, other: Outcome) -> Outcome:
        return ~(~self & ~other)

    def is_true(self) -> Outcome:
        """Null becomes false."""
        never = np.zeros(len(self.can_be_true), dtype=np.bool_)
        return Outcome(self.can_be_true, self.can_be_false | self.can_be_null, never)

    def verdicts(self) -> npt.NDArray[np.uint8]:
        """A `Verdict` per container."""
        result = np.full(len(self.can_be_true), Verdict.SOME_ROWS, dtype=np.uint8)
        result[~(self.can_be_false | self.can_be_null)] = Verdict.ALL_ROWS
        result[~self.can_be_true] = Verdict.NO_ROWS
        return result
