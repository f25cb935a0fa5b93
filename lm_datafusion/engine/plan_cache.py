"""Plans of statements that run again.

In: a statement that has been planned. Out: its plan, the next time the same text runs; and whether
a query has run before.

A dashboard repeats its statements. DataFusion plans one in 2 to 4 ms over a table of 105 columns;
kept as an optimized plan, ClickBench's Q0 takes 0.8 ms instead of 2.4. Only DataFusion's plan is
kept: a scan looks at its files each time, and is planned for them as they are then.

Invariant: a plan is used only in the version of the catalog it was made in, and while the files of
its tables are those it was made for. Two runs at the same time have two plans.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from datafusion import DataFrame

    from lm_datafusion.engine.offer import Offer
    from lm_datafusion.engine.parquet_table import TableName
    from lm_datafusion.engine.recovery import WatchedDataset
    from lm_datafusion.engine.shape import QueryShape
    from lm_datafusion.options import ScanOptions

    Key = tuple[str, ScanOptions | None]

STATEMENTS_KEPT = 256
QUERIES_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """A query that can run.

    Attributes:
        offer: What was chosen.
        frame: What runs.
        shape: What the query asks of its tables; None if that is not known.
        datasets: The datasets it scans, by table.
        is_kept: Whether it has been in the cache.
    """

    offer: Offer
    frame: DataFrame
    shape: QueryShape | None
    datasets: Mapping[TableName, WatchedDataset] = field(default_factory=dict)
    is_kept: bool = False


@dataclass(slots=True)
class _Kept:
    version: int
    idle: list[PlannedQuery] = field(default_factory=list)


class PlanCache:
    """The plans of one session, by statement."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()
        self._runs: OrderedDict[int, int] = OrderedDict()

    def runs(self, query: str) -> int:
        """How often a query, as its text or its printed plan, has run in this session."""
        return self._runs.get(hash(query), 0)

    def note_run(self, query: str) -> None:
        """Remembers that a query runs."""
        key = hash(query)
        with self._lock:
            self._runs[key] = self._runs.get(key, 0) + 1
            self._runs.move_to_end(key)
            while len(self._runs) > QUERIES_REMEMBERED:
                self._runs.popitem(last=False)

    def has(self, key: Key, version: int | None) -> bool:
        """Whether a plan is kept for a statement."""
        kept = self._kept.get(key)
        return kept is not None and kept.version == version and bool(kept.idle)

    def take(self, key: Key, version: int | None) -> PlannedQuery | None:
        """A plan that nobody else uses, until it is put back."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or kept.version != version or not kept.idle:
                return None
            self._kept.move_to_end(key)
            return kept.idle.pop()

    def put(self, key: Key, version: int, planned: PlannedQuery) -> None:
        """Keeps a plan."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or kept.version != version:
                kept = self._kept[key] = _Kept(version)
            kept.idle.append(planned)
            self._kept.move_to_end(key)
            while len(self._kept) > STATEMENTS_KEPT:
                self._kept.popitem(last=False)
