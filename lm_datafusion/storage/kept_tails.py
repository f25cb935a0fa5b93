"""The ends of objects, kept between planning and reading.

In: the last bytes of a version, where a file has its footer and page index. Out: the same, as long
as they fit.

Invariant: bytes are given out for the version that they were read from, and no other.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from lm_datafusion.forks import hold_over_forks

if TYPE_CHECKING:
    from lm_datafusion.storage.protocol import FileVersion

# What a tail has: footers and page indexes take 1 to 2 % of most files.
_SHARE: Final = 64
_LEAST_BYTES: Final = 64 * 1024
_MOST_BYTES: Final = 512 * 1024
# Smaller objects are read whole.
_SMALL_BYTES: Final = 128 * 1024
_KEPT_BYTES: Final = 64 << 20


def tail_bytes(size_bytes: int) -> int:
    """How much of the end of an object to read at once."""
    if size_bytes <= _SMALL_BYTES:
        return size_bytes
    return max(_LEAST_BYTES, min(_MOST_BYTES, size_bytes // _SHARE))


class KeptTails:
    """Tails by version, the last used ones; thread-safe."""

    def __init__(self) -> None:
        self._tails: OrderedDict[FileVersion, tuple[int, memoryview]] = OrderedDict()
        self._size_bytes = 0
        self._lock = threading.Lock()
        hold_over_forks(self._lock)

    def keep(self, version: FileVersion, offset: int, data: memoryview) -> None:
        """Keeps the bytes from an offset on."""
        with self._lock:
            known = self._tails.pop(version, None)
            self._size_bytes += len(data) - (len(known[1]) if known else 0)
            self._tails[version] = offset, data
            while self._size_bytes > _KEPT_BYTES:
                _, (_, dropped) = self._tails.popitem(last=False)
                self._size_bytes -= len(dropped)

    def get(self, version: FileVersion) -> tuple[int, memoryview] | None:
        """The kept bytes and where they begin."""
        with self._lock:
            found = self._tails.get(version)
            if found is not None:
                self._tails.move_to_end(version)
            return found

    def clear(self) -> None:
        """Forgets everything."""
        with self._lock:
            self._tails.clear()
            self._size_bytes = 0


TAILS = KeptTails()
