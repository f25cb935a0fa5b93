"""The ordered chain of filter steps.

In: bound conjuncts, the cost of reading their columns, their expected selectivity. Out: a
`RowFilter`: steps, fewest bytes per expected dropped row first.

A conjunct that can fail on a value (a cast, a division), or that is volatile, never moves before
one written earlier: `x <> 0 AND 1 / x > 2` must not divide by zero.

Invariant: the order changes what is read, never which rows are left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lm_datafusion.predicate.conjunct import BoundConjunct

# The assumed cost of decoding and evaluating a byte, until it is measured.
SECONDS_PER_BYTE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterStep:
    """One conjunct of the chain.

    Attributes:
        index: Its index among the conjuncts as written.
        conjunct: What is evaluated.
        bytes_per_row: What reading its columns costs.
        selectivity: The fraction of rows it is expected to leave.
    """

    index: int
    conjunct: BoundConjunct
    bytes_per_row: float
    selectivity: float

    @property
    def is_pinned(self) -> bool:
        """Whether it must stay behind the conjuncts written before it."""
        return self.conjunct.can_fail or self.conjunct.conjunct.is_volatile

    @property
    def cost(self) -> float:
        """Seconds per dropped row, as expected."""
        seconds = max(1.0, self.bytes_per_row) * SECONDS_PER_BYTE
        return seconds / max(1e-3, 1.0 - self.selectivity)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """The steps, in their initial order."""

    steps: tuple[FilterStep, ...]


def plan_row_filter(steps: Sequence[FilterStep], *, reorder: bool = True) -> RowFilter:
    """Orders steps by expected cost."""
    if not reorder:
        return RowFilter(steps=tuple(sorted(steps, key=lambda step: step.index)))
    return RowFilter(steps=order_steps(steps, {step.index: step.cost for step in steps}))


def order_steps(steps: Sequence[FilterStep], costs: dict[int, float]) -> tuple[FilterStep, ...]:
    """Cheapest first; pinned steps stay behind those written before them."""
    waiting = sorted(steps, key=lambda step: step.index)
    ordered: list[FilterStep] = []
    while waiting:
        free = [step for index, step in enumerate(waiting) if index == 0 or not step.is_pinned]
        best = min(free, key=lambda step: (costs[step.index], step.index))
        ordered.append(best)
        waiting.remove(best)
    return tuple(ordered)
