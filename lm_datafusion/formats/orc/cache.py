"""The cache of facts: bounded in memory, keyed by file version.

In: an open file. Out: its facts, from memory if this version was seen before.

Invariant: facts of one version are never returned for another; facts that do not fit are evicted,
least recently used first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from lm_datafusion.forks import hold_over_forks
from lm_datafusion.formats.orc.facts import OrcFacts

if TYPE_CHECKING:
    from lm_datafusion.storage import FileVersion, OpenFile


class OrcFactsCache:
    """Facts by file version; thread-safe."""

    def __init__(self) -> None:
        self._facts: OrderedDict[FileVersion, OrcFacts] = OrderedDict()
        self.lock = threading.Lock()

    def load(self, file: OpenFile, *, limit_bytes: int) -> OrcFacts:
        """The facts of an open file; reads the tail if they are not cached."""
        with self.lock:
            facts = self._facts.get(file.version)
            if facts is not None:
                self._facts.move_to_end(file.version)
                return facts
        facts = OrcFacts(file)
        # Statistics in a tail can rule out stripes, so it must be of the version it is cached for.
        file.check_unchanged()
        with self.lock:
            facts = self._facts.setdefault(file.version, facts)
            stale = [v for v in self._facts if v.path == file.version.path and v != file.version]
            for version in stale:
                del self._facts[version]
        self.shrink(limit_bytes)
        return facts

    def shrink(self, limit_bytes: int) -> None:
        """Evicts facts until the others fit; facts grow as scans read indexes."""
        with self.lock:
            total = sum(facts.memory_bytes() for facts in self._facts.values())
            while total > limit_bytes and self._facts:
                _, facts = self._facts.popitem(last=False)
                total -= facts.memory_bytes()

    def clear(self) -> None:
        """Forgets everything."""
        with self.lock:
            self._facts.clear()

    def memory_bytes(self) -> int:
        """About how much memory the facts take."""
        with self.lock:
            return sum(facts.memory_bytes() for facts in self._facts.values())

    def __len__(self) -> int:
        return len(self._facts)


ORC_FACTS = OrcFactsCache()
hold_over_forks(ORC_FACTS.lock)
