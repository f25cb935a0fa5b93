"""What the scans of one run of a query did: one report per Parquet table.

In: how each table is read, and reports of partitions as they end. Out: `ScanReport`s.

Invariant: reports of one run never reach another, whichever threads its partitions run on.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from lm_datafusion.metrics import merge_reports

if TYPE_CHECKING:
    from collections.abc import Callable

    from lm_datafusion.engine.offer import Offer, TableAccess
    from lm_datafusion.engine.parquet_table import TableName
    from lm_datafusion.metrics import ScanReport


class RunReports:
    """The reports of one run.

    Args:
        offer: What runs.
        list_tables: The same with its tables, if nobody had to know them.

    Attributes:
        offer: What runs.
        errors: What scans of ours raised.
    """

    def __init__(self, offer: Offer, list_tables: Callable[[], Offer] | None = None) -> None:
        self.offer = offer
        self.errors: list[Exception] = []
        self._list_tables = list_tables
        self._by_table: dict[TableName, list[ScanReport]] = {a.use.name: [] for a in offer.tables}

    def of(self, name: TableName) -> list[ScanReport]:
        """Where the partitions of a table put their reports."""
        return self._by_table[name]

    def as_native(self, reason: str) -> RunReports:
        """Reports of a run in which DataFusion's own reader serves every table after all."""
        return RunReports(self.offer.as_native(reason))

    def merged(self) -> list[ScanReport]:
        """One report per table; as far as the run has come."""
        offer = self.offer if self._list_tables is None else self._list_tables()
        return [_merged(a, list(self._by_table.get(a.use.name, []))) for a in offer.tables]


def _merged(access: TableAccess, reports: list[ScanReport]) -> ScanReport:
    table = access.use.table
    whole = merge_reports(reports, table=access.use.alias, path=access.path, reason=access.reason)
    return dataclasses.replace(whole, files=len(table.files), bytes_total=table.size_bytes)
