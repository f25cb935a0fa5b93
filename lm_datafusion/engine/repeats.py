"""Which statements run again, and what is ready for them.

In: frames as they run. Out: rows, of a statement whose plans are ready; or nothing, and then the
frame is served as any other.

A statement is prepared when it runs for the second time: to prepare one costs about as much as to
plan it a few times over.

Invariant: a statement that cannot be prepared, or whose plan fails, is served as any other.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from lm_datafusion.engine.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    import pyarrow as pa
    from datafusion import SessionContext

    from lm_datafusion.engine.run_reports import RunReports
    from lm_datafusion.engine.trial import ReadyPlan

# A serialised plan takes some ten thousand bytes.
STATEMENTS_KEPT = 256


class Repeats:
    """The statements of one session that ran, by whatever tells them apart."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # None: seen once, or not to be prepared.
        self._seen: OrderedDict[Hashable, Trial | None] = OrderedDict()
        self._left_alone: set[Hashable] = set()
        self._generation = 0
        self._is_stopped = False

    def stop(self) -> None:
        """Prepares nothing from now on: files may come and go, and DataFusion would notice."""
        self._is_stopped = True
        self.forget()

    def forget(self) -> None:
        """Begins anew: names or settings may mean something else."""
        with self._lock:
            self._generation += 1
            self._seen.clear()
            self._left_alone.clear()

    def is_ready(self, key: Hashable) -> bool:
        """Whether a plan is ready for a statement."""
        with self._lock:
            return self._seen.get(key) is not None and key not in self._left_alone

    def find(self, key: Hashable, plans: Callable[[], list[ReadyPlan] | None]) -> Trial | None:
        """What is ready for a statement.

        Args:
            key: The statement.
            plans: Prepares it; None if that cannot be done now.
        """
        with self._lock:
            is_new = key not in self._seen
            known = self._seen.setdefault(key, None)
            self._seen.move_to_end(key)
            while len(self._seen) > STATEMENTS_KEPT:
                dropped, _ = self._seen.popitem(last=False)
                self._left_alone.discard(dropped)
            if is_new or self._is_stopped or key in self._left_alone:
                return None
            generation = self._generation
        if known is not None and known.is_current:
            return known
        found = plans()
        if found is None:
            return None
        made = Trial(found) if found else None
        with self._lock:
            if generation != self._generation:
                return None  # names may mean something else by now
            if made is None:
                self._left_alone.add(key)
            elif key in self._seen:
                self._seen[key] = made
        return made

    def collect(
        self, key: Hashable, plan: ReadyPlan, context: SessionContext, run: RunReports
    ) -> list[pa.RecordBatch] | None:
        """Runs a plan that was ready; None if it fails, and then it is not used again."""
        try:
            return plan.collect(context, run)
        except Exception:  # noqa: BLE001 the frame itself says what is wrong, if anything
            with self._lock:
                self._left_alone.add(key)
            return None
