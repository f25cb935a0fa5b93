"""Interleaved timing: contenders take turns, so that noise meets all of them alike.

In: named functions. Out: wall and CPU times of every run.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class Times:
    """All runs of one contender, in seconds."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def wall_ms(self) -> float:
        return statistics.median(self.wall) * 1e3

    @property
    def cpu_ms(self) -> float:
        return statistics.median(self.cpu) * 1e3


def interleave(contenders: dict[str, Callable[[], object]], repeats: int) -> dict[str, Times]:
    """Runs each contender `repeats` times, in turns whose order rotates; one run to warm up."""
    names = list(contenders)
    times = {name: Times() for name in names}
    for name in names:
        contenders[name]()
    for turn in range(repeats):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            wall, cpu = time.perf_counter(), time.process_time()
            contenders[name]()
            times[name].wall.append(time.perf_counter() - wall)
            times[name].cpu.append(time.process_time() - cpu)
    return times


def show(title: str, times: dict[str, Times], baseline: str) -> None:
    """Prints medians, and ratios to the baseline (below 1 is faster)."""
    base = times[baseline]
    print(f"\n{title}")
    print(f"  {'':24}{'wall ms':>10}{'cpu ms':>10}{'wall ratio':>12}{'cpu ratio':>11}")
    for name, taken in times.items():
        print(
            f"  {name:24}{taken.wall_ms:10.1f}{taken.cpu_ms:10.1f}"
            f"{taken.wall_ms / base.wall_ms:12.2f}{taken.cpu_ms / max(base.cpu_ms, 1e-9):11.2f}"
        )
