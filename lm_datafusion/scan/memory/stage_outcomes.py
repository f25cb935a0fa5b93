"""Outcomes of pruning stages per row group, so that later scans need not repeat them.

In: a file version, a conjunct, a row group and the outcome of a stage. Out: the same, for a later
scan.

Dictionaries and page indexes cost up to two milliseconds per row group. Their outcome for a
conjunct is a fact of the file: a verdict about the row group, or about ranges of its rows.

Invariant: memory is bounded; an outcome belongs to one version of a file. A dropped outcome costs
time, never a row.
"""

from __future__ import annotations

import enum
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from lm_datafusion.forks import hold_over_forks

if TYPE_CHECKING:
    from collections.abc import Hashable

    import numpy.typing as npt

    from lm_datafusion.plan import RowGroupAccess
    from lm_datafusion.selection import RowSelection
    from lm_datafusion.storage import FileVersion

    # A verdict about the row group; the remaining and the undecided rows, None if both are all
    # rows; which dictionary values pass; or what all stages left.
    Outcome: TypeAlias = (
        "int | tuple[RowSelection, RowSelection] | npt.NDArray[np.bool_] | Pruned | None"
    )
    Key: TypeAlias = "tuple[FileVersion, Hashable]"

_LIMIT_BYTES: Final = 8 << 20
_ENTRY_BYTES: Final = 120
_RANGE_BYTES: Final = 16


class Pruned(NamedTuple):
    """What the stages left of a row group, and the counter of the stage that ruled it out."""

    access: RowGroupAccess
    counter: str


class Stage(enum.IntEnum):
    """The stages worth caching: those that read more than the footer."""

    DICTIONARY = 0
    PAGE_INDEX = 1
    # Not a verdict: which values of a small dictionary pass, for the filter.
    PASSES = 2
    # What all stages left; keyed by all conjuncts.
    ALL = 3


class StageOutcomes:
    """Outcomes by file version and conjunct; thread-safe."""

    def __init__(self) -> None:
        self._found: OrderedDict[Key, dict[tuple[Stage, int], Outcome]] = OrderedDict()
        self._sizes: dict[Key, int] = {}
        self._total_bytes = 0
        self.lock = threading.Lock()

    def recall(
        self, version: FileVersion, key: Hashable | None, stage: Stage, row_group: int
    ) -> tuple[Outcome] | None:
        """The outcome of a stage for a conjunct in a row group; None if it has not run."""
        if key is None:
            return None
        known = self._found.get((version, key))
        if known is None or (stage, row_group) not in known:
            return None
        return (known[stage, row_group],)

    def keep(
        self,
        version: FileVersion,
        key: Hashable | None,
        stage: Stage,
        row_group: int,
        outcome: Outcome,
    ) -> None:
        """Keeps the outcome of a stage; does nothing without a key."""
        if key is None:
            return
        size = _ENTRY_BYTES
        if isinstance(outcome, np.ndarray):
            size += outcome.nbytes
        elif isinstance(outcome, Pruned):
            held = (outcome.access.selection, *outcome.access.undecided)
            size += sum(_RANGE_BYTES * rows.selector_count for rows in held)
        elif isinstance(outcome, tuple):
            size += sum(_RANGE_BYTES * rows.selector_count for rows in outcome)
        with self.lock:
            known = self._found.setdefault((version, key), {})
            if (stage, row_group) not in known:
                known[stage, row_group] = outcome
                self._sizes[version, key] = self._sizes.get((version, key), 0) + size
                self._total_bytes += size
            self._found.move_to_end((version, key))
            while self._total_bytes > _LIMIT_BYTES:
                dropped, _ = self._found.popitem(last=False)
                self._total_bytes -= self._sizes.pop(dropped)

    def clear(self) -> None:
        """Forgets everything."""
        with self.lock:
            self._found.clear()
            self._sizes.clear()
            self._total_bytes = 0

    def memory_bytes(self) -> int:
        """The approximate size."""
        return self._total_bytes

    def __len__(self) -> int:
        return len(self._found)


OUTCOMES = StageOutcomes()
hold_over_forks(OUTCOMES.lock)
