"""Plans of statements that run again.

In: a statement that has been planned. Out: its plan, the next time the same text runs; and whether
a query has run before.

A dashboard repeats its statements. DataFusion plans one in 2 to 4 ms over a table of 105 columns;
kept as an optimized plan, ClickBench's Q0 takes 0.8 ms instead of 2.4. Only DataFusion's plan is
kept: a scan looks at its files each time.

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
    from lm_datafusion.engine.watch import WatchedDataset
    from lm_datafusion.options import ScanOptions
    from lm_datafusion.sql.table_name import TableName

    Key = tuple[str, ScanOptions | None]

STATEMENTS_KEPT = 256
QUERIES_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """A query that can run: what was chosen, its frame and datasets; a key if it may be kept."""

    offer: Offer
    frame: DataFrame
    datasets: Mapping[TableName, WatchedDataset] = field(default_factory=dict)
    key: Key | None = None

    @property
    def is_current(self) -> bool:
        """Whether the files of its tables are those it was made for."""
        return all(access.use.table.is_current for access in self.offer.tables)


class PlanCache:
    """The plans of one session, by statement; each with the version of the catalog it is of."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, tuple[int, list[PlannedQuery]]] = OrderedDict()
        self._runs: OrderedDict[int, int] = OrderedDict()

    def runs(self, query: str) -> int:
        """How often a query, as its text or its printed plan, has been planned to run."""
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
        kept_version, idle = self._kept.get(key, (None, []))
        return kept_version == version and bool(idle)

    def take(self, key: Key, version: int | None) -> PlannedQuery | None:
        """A plan that nobody else uses, until it is put back."""
        with self._lock:
            if not self.has(key, version):
                return None
            self._kept.move_to_end(key)
            return self._kept[key][1].pop()

    def put(self, key: Key, version: int, planned: PlannedQuery) -> None:
        """Keeps a plan."""
        with self._lock:
            kept_version, idle = self._kept.get(key, (version, []))
            self._kept[key] = version, [*(idle if kept_version == version else ()), planned]
            self._kept.move_to_end(key)
            while len(self._kept) > STATEMENTS_KEPT:
                self._kept.popitem(last=False)
