"""The cache of file facts: bounded in memory, keyed by file version.

In: an open file. Out: its facts, from memory if this version was seen before.

Invariant: facts of one version are never returned for another; what does not fit is dropped,
least recently used first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from lm_datafusion.formats.parquet.footer import FileFacts, load_file_facts

if TYPE_CHECKING:
    from lm_datafusion.storage import FileVersion, OpenFile


class FactsCache:
    """Facts by file version; safe to share between threads."""

    def __init__(self) -> None:
        self._facts: OrderedDict[FileVersion, FileFacts] = OrderedDict()
        self._current: dict[str, FileVersion] = {}
        self._loads_until_check = 0
        self._lock = threading.Lock()

    def get(self, version: FileVersion) -> FileFacts | None:
        """The facts of a version, if they are here."""
        with self._lock:
            facts = self._facts.get(version)
            if facts is not None:
                self._facts.move_to_end(version)
            return facts

    def load(self, file: OpenFile, *, limit_bytes: int) -> FileFacts:
        """The facts of an open file; the footer is read if it must be.

        Facts grow while they are used, so what they hold is summed up again every few loads.
        """
        facts = self.get(file.version)
        if facts is not None:
            return facts
        facts = load_file_facts(file)
        with self._lock:
            facts = self._facts.setdefault(file.version, facts)
            stale = self._current.get(file.version.path)
            self._current[file.version.path] = file.version
            if stale is not None and stale != file.version:
                self._facts.pop(stale, None)
            self._loads_until_check -= 1
            if self._loads_until_check < 0:
                self._shrink(limit_bytes)
        return facts

    def trim(self, limit_bytes: int) -> None:
        """Drops what is over the limit; for the end of a scan, in which facts have grown."""
        with self._lock:
            self._shrink(limit_bytes)

    def clear(self) -> None:
        """Forgets everything."""
        with self._lock:
            self._facts.clear()
            self._current.clear()

    def memory_bytes(self) -> int:
        """Roughly what the cache holds."""
        with self._lock:
            return sum(facts.memory_bytes() for facts in self._facts.values())

    def __len__(self) -> int:
        return len(self._facts)

    def _shrink(self, limit_bytes: int) -> None:
        sizes = {version: facts.memory_bytes() for version, facts in self._facts.items()}
        total = sum(sizes.values())
        while total > limit_bytes and self._facts:
            version, _ = self._facts.popitem(last=False)
            self._current.pop(version.path, None)
            total -= sizes[version]
        # The nearer to the limit, the sooner the next look: a 64th of what is still free.
        typical = max(1, total // max(1, len(self._facts)))
        self._loads_until_check = max(0, limit_bytes - total) // (64 * typical)


FACTS = FactsCache()
