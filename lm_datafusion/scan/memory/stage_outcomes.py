"""What pruning stages found in a row group, so that no later scan has to look again.

In: a file version, a conjunct, a row group and what a stage found. Out: the same, to a later scan.

Dictionaries and page indexes cost a row group up to two milliseconds. What they say about a
conjunct is a fact of the file: a verdict about the row group, or about ranges of its rows.

Invariant: bounded in memory; nothing is known of another version of a file. An outcome that was
dropped costs speed, never a row.
"""

from __future__ import annotations

import enum
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable

    import numpy.typing as npt

    from lm_datafusion.plan import RowGroupAccess
    from lm_datafusion.selection import RowSelection
    from lm_datafusion.storage import FileVersion

    # A verdict about the row group; the rows left and those undecided, None for all of both;
    # which values of a dictionary pass; or what all stages left.
    Outcome: TypeAlias = (
        "int | tuple[RowSelection, RowSelection] | npt.NDArray[np.bool_] | Pruned | None"
    )
    Key: TypeAlias = "tuple[FileVersion, Hashable]"

_LIMIT_BYTES: Final = 8 << 20
_ENTRY_BYTES: Final = 120
_RANGE_BYTES: Final = 16


class Pruned(NamedTuple):
    """What the stages left of a row group, and the counter of the one that left nothing."""

    access: RowGroupAccess
    counter: str


class Stage(enum.IntEnum):
    """The stages that are worth remembering: those that read more than a footer."""

    DICTIONARY = 0
    PAGE_INDEX = 1
    # Not a verdict, but which values of a small dictionary pass, for the filter.
    PASSES = 2
    # What all stages left; its key is that of all conjuncts.
    ALL = 3


class StageOutcomes:
    """Outcomes by file version and conjunct; safe to share between threads."""

    def __init__(self) -> None:
        self._found: OrderedDict[Key, dict[tuple[Stage, int], Outcome]] = OrderedDict()
        self._sizes: dict[Key, int] = {}
        self._total_bytes = 0
        self._lock = threading.Lock()

    def recall(
        self, version: FileVersion, key: Hashable | None, stage: Stage, row_group: int
    ) -> tuple[Outcome] | None:
        """What a stage found for a conjunct in a row group; None if nobody looked."""
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
        """Keeps what a stage found; without a key there is nothing to keep it under."""
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
        with self._lock:
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
        with self._lock:
            self._found.clear()
            self._sizes.clear()
            self._total_bytes = 0

    def memory_bytes(self) -> int:
        """Roughly what is held."""
        return self._total_bytes

    def __len__(self) -> int:
        return len(self._found)


OUTCOMES = StageOutcomes()
