"""The cache of file facts: bounded in memory, keyed by file version.

In: an open file. Out: its facts, from memory if this version was seen before.

Invariant: facts of one version are never returned for another; facts that do not fit are evicted,
least recently used first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from lm_datafusion.forks import hold_over_forks
from lm_datafusion.formats.recognition import load_file_facts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lm_datafusion.formats.protocol import FileFacts
    from lm_datafusion.storage import FileVersion, OpenFile

# The most scans of the same columns between two measurements of facts.
_TRIMS_UNMEASURED = 64


class FactsCache:
    """Facts by file version; thread-safe."""

    def __init__(self) -> None:
        self._facts: OrderedDict[FileVersion, FileFacts] = OrderedDict()
        self._sizes: dict[FileVersion, int] = {}
        # The number of trims, and the number of chunks at the last one.
        self._trims: dict[FileVersion, tuple[int, int]] = {}
        self._total_bytes = 0
        self._current: dict[str, FileVersion] = {}
        self.lock = threading.Lock()

    def get(self, version: FileVersion) -> FileFacts | None:
        """The facts of a version, if cached."""
        with self.lock:
            facts = self._facts.get(version)
            if facts is not None:
                self._facts.move_to_end(version)
            return facts

    def load(self, file: OpenFile, *, limit_bytes: int) -> FileFacts:
        """The facts of an open file; reads its footer if they are not cached."""
        facts = self.get(file.version)
        if facts is not None:
            return facts
        facts = load_file_facts(file)
        # A footer alone can rule out row groups, so it must be from the version it is cached for.
        file.check_unchanged()
        with self.lock:
            facts = self._facts.setdefault(file.version, facts)
            stale = self._current.get(file.version.path)
            if stale is not None and stale != file.version:
                self._drop(stale)
            self._current[file.version.path] = file.version
            self._measure(file.version)
            self._shrink(limit_bytes)
        return facts

    def trim(self, versions: Iterable[FileVersion], *, limit_bytes: int) -> None:
        """Measures facts again, since a scan may have made them grow, and enforces the limit.

        Not every time: measuring all chunks of ten files takes milliseconds, and facts grow mostly
        in the first scans and when a scan reads other columns.
        """
        with self.lock:
            for version in versions:
                if self._is_due(version):
                    self._measure(version)
            self._shrink(limit_bytes)

    def _is_due(self, version: FileVersion) -> bool:
        facts = self._facts.get(version)
        if facts is None:
            return False
        trims, chunk_count = self._trims.get(version, (0, 0))
        trims += 1
        self._trims[version] = (trims, facts.chunk_count)
        is_turn = trims.bit_count() == 1 or trims % _TRIMS_UNMEASURED == 0  # 1, 2, 4, 8, ...
        return is_turn or facts.chunk_count != chunk_count

    def clear(self) -> None:
        """Forgets everything."""
        with self.lock:
            self._facts.clear()
            self._sizes.clear()
            self._trims.clear()
            self._current.clear()
            self._total_bytes = 0

    def memory_bytes(self) -> int:
        """The approximate size of the cache, as of the last measurement of each file."""
        return self._total_bytes

    def __len__(self) -> int:
        return len(self._facts)

    def _measure(self, version: FileVersion) -> None:
        facts = self._facts.get(version)
        if facts is not None:
            size = facts.memory_bytes()
            self._total_bytes += size - self._sizes.get(version, 0)
            self._sizes[version] = size

    def _drop(self, version: FileVersion) -> None:
        self._facts.pop(version, None)
        self._trims.pop(version, None)
        self._total_bytes -= self._sizes.pop(version, 0)
        if self._current.get(version.path) == version:
            del self._current[version.path]

    def _shrink(self, limit_bytes: int) -> None:
        while self._total_bytes > limit_bytes and self._facts:
            self._drop(next(iter(self._facts)))


FACTS = FactsCache()
hold_over_forks(FACTS.lock)
