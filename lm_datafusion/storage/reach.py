"""How far away a store is, measured by the requests made to it.

In: requests, each with the time until its answer began and until it ended. Out: latency and
bandwidth, and from these how many bytes cost as much as a round trip.

Invariant: estimates change what is read together, never what is read.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

# What is taken for granted before anything is measured: an object store in the same region.
_LATENCY_S: Final = 0.03
_BYTES_PER_S: Final = 100e6
# The most bytes that are read although nobody wants them, to save a request or a round.
MOST_GAP_BYTES: Final = 1 << 20
MOST_ROUND_BYTES: Final = 4 << 20
# Shorter transfers measure the machine, not the store.
_SHORT_S: Final = 2e-3
_ENOUGH_BYTES: Final = 1 << 20


@dataclass(slots=True)
class Traffic:
    """What was asked of a store: requests, bytes, rounds of requests, and the time waited."""

    requests: int = 0
    bytes_fetched: int = 0
    round_trips: int = 0
    wait_s: float = 0.0

    def add(self, other: Traffic) -> None:
        """Adds what another counted."""
        self.requests += other.requests
        self.bytes_fetched += other.bytes_fetched
        self.round_trips += other.round_trips
        self.wait_s += other.wait_s

    def counts(self) -> dict[str, int]:
        """The counters of a scan's metrics."""
        return {
            "requests": self.requests,
            "bytes_fetched": self.bytes_fetched,
            "round_trips": self.round_trips,
            "wait_us": int(self.wait_s * 1e6),
        }

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Counts a block as a round that a thread waits for."""
        started = time.perf_counter()
        self.round_trips += 1
        try:
            yield
        finally:
            self.wait_s += time.perf_counter() - started


class Reach:
    """Latency and bandwidth of one store; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latency_s = _LATENCY_S
        self._bytes_per_s = _BYTES_PER_S
        self._is_measured = False
        # Bodies under way, since when there are any, and what arrived since.
        self._bodies = 0
        self._since = 0.0
        self._busy_s = 0.0
        self._bytes = 0

    @property
    def gap_bytes(self) -> int:
        """Ranges with a smaller gap are read as one."""
        return int(min(MOST_GAP_BYTES, self._latency_s * self._bytes_per_s))

    @property
    def round_bytes(self) -> int:
        """Bytes that take as long as a round of requests."""
        return int(min(MOST_ROUND_BYTES, self._latency_s * self._bytes_per_s))

    @property
    def latency_s(self) -> float:
        """The time until an answer begins."""
        return self._latency_s

    def begin_body(self, latency_s: float) -> None:
        """Records that an answer began."""
        with self._lock:
            if not self._is_measured:
                self._latency_s, self._is_measured = latency_s, True
            # Waiting for the processor is no latency of the store: low values count more.
            weight = 0.5 if latency_s < self._latency_s else 0.05
            self._latency_s += weight * (latency_s - self._latency_s)
            if not self._bodies:
                self._since = time.perf_counter()
            self._bodies += 1

    def end_body(self, size_bytes: int) -> None:
        """Records that an answer has arrived."""
        with self._lock:
            self._bodies -= 1
            self._bytes += size_bytes
            if self._bodies:
                return
            self._busy_s += time.perf_counter() - self._since
            if self._bytes >= _ENOUGH_BYTES:
                found = self._bytes / max(self._busy_s, _SHORT_S)
                self._bytes_per_s += 0.5 * (found - self._bytes_per_s)
                self._bytes, self._busy_s = 0, 0.0
