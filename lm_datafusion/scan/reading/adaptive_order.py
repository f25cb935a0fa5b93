"""The learned order of filter steps.

In: how long each step took and how many rows it dropped. Out: the order for the next window.

Cost is time per dropped row, including decoding: one number weighs a cheap step that drops little
against an expensive step that drops much (Velox sorts its filters the same way). A late step
decodes whole pages for a few rows; its cost is computed as if it came first, or it never would.
Steps not reached yet keep the cost that earlier scans measured (`scan.memory.step_history`), or
else their estimated cost.

Invariant: pinned steps stay behind those written before them; the order is only advice.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from lm_datafusion.plan.row_filter import FilterStep, order_steps
from lm_datafusion.scan.memory.step_history import Measured

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lm_datafusion.plan import RowFilter


# About the time to evaluate a step on no rows.
CALL_S = 3e-4


class AdaptiveOrder:
    """Shared by the workers of a scan."""

    def __init__(
        self,
        row_filter: RowFilter,
        *,
        reorder: bool,
        recalled: Mapping[int, Measured] | None = None,
    ) -> None:
        self._steps = row_filter.steps
        self._reorder = reorder and len(row_filter.steps) > 1
        self._measured = {step.index: Measured() for step in row_filter.steps}
        self._measured.update(recalled or {})
        self._lock = threading.Lock()

    @property
    def is_known(self) -> bool:
        """Whether every step has been measured, or may not move."""
        return not self._reorder or all(found.rows_in for found in self._measured.values())

    def permutation(self) -> tuple[FilterStep, ...]:
        """The steps, in the best order known."""
        if not self._reorder:
            return self._steps
        with self._lock:
            costs = {step.index: self._cost(step) for step in self._steps}
        return order_steps(self._steps, costs)

    def observe(
        self,
        step: FilterStep,
        *,
        rows_in: int,
        rows_out: int,
        evaluate_s: float,
        rows_decoded: int = 0,
        decode_s: float = 0.0,
    ) -> None:
        """Learns from one evaluation, which decoded `rows_decoded` rows of its columns."""
        seen = Measured(
            rows_in=rows_in,
            rows_dropped=rows_in - rows_out,
            rows_decoded=rows_decoded,
            decode_s=decode_s,
            evaluate_s=max(0.0, evaluate_s - CALL_S),
        )
        with self._lock:
            self._measured[step.index] = self._measured[step.index].plus(seen)

    def measured(self) -> dict[int, Measured]:
        """What has been measured so far, by conjunct."""
        with self._lock:
            return dict(self._measured)

    def _cost(self, step: FilterStep) -> float:
        measured = self._measured[step.index]
        return measured.cost if measured.rows_in else step.cost
