"""Pruning stages that found nothing to prune: no scan need try them there again.

In: a file version, a conjunct, a row group and a stage that ruled nothing out and in. Out: the
same, to a later scan.

Dictionaries and page indexes cost a row group up to two milliseconds, mostly of Python. Where a
conjunct fails on every bound they leave everything as it was, and will again: both are facts of
the file. What a stage did find is not kept here, it is found anew.

Invariant: bounded; of another version of a file nothing is known. A stage that is left out costs
speed at most, never a row: pruning fails open.
"""

from __future__ import annotations

import enum
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lm_datafusion.scan.condition_cache import ConjunctKey
    from lm_datafusion.storage import FileVersion

# Of about 300 bytes each, and two bits per row group.
_MOST_ENTRIES = 4096


class Stage(enum.IntEnum):
    """The stages that are worth remembering: those that read more than a footer."""

    DICTIONARY = 0
    PAGE_INDEX = 1


class FruitlessStages:
    """Row groups by file version and conjunct; safe to share between threads."""

    def __init__(self) -> None:
        # Per stage a number whose bits are row groups.
        self._found: OrderedDict[tuple[FileVersion, ConjunctKey], list[int]] = OrderedDict()
        self._lock = threading.Lock()

    def knows(
        self, version: FileVersion, key: ConjunctKey | None, stage: Stage, row_group: int
    ) -> bool:
        """Whether a stage is known to find nothing for a conjunct in a row group."""
        if key is None:
            return False
        with self._lock:
            bits = self._found.get((version, key))
            if bits is None:
                return False
            self._found.move_to_end((version, key))
            return bool(bits[stage] >> row_group & 1)

    def note(
        self, version: FileVersion, key: ConjunctKey | None, stage: Stage, row_group: int
    ) -> None:
        """Keeps that a stage found nothing; without a key there is nothing to keep it under."""
        if key is None:
            return
        with self._lock:
            bits = self._found.setdefault((version, key), [0] * len(Stage))
            bits[stage] |= 1 << row_group
            self._found.move_to_end((version, key))
            while len(self._found) > _MOST_ENTRIES:
                self._found.popitem(last=False)

    def clear(self) -> None:
        """Forgets everything."""
        with self._lock:
            self._found.clear()

    def __len__(self) -> int:
        return len(self._found)


FRUITLESS = FruitlessStages()
