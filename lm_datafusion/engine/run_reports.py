"""What the scans of one run of a query did: one report per table reference.

In: the routed references of a query, and reports of partitions as they end. Out: `ScanReport`s.

Invariant: reports of one run never reach another, whichever threads its partitions run on.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from lm_datafusion.metrics import merge_reports

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lm_datafusion.engine.routing import RoutedReference
    from lm_datafusion.metrics import ScanReport


class RunReports:
    """The reports of one run."""

    def __init__(self, references: Sequence[RoutedReference]) -> None:
        self._references = references
        self._by_reference: list[list[ScanReport]] = [[] for _ in references]

    def of(self, place: int) -> list[ScanReport]:
        """Where the partitions of a reference put their reports."""
        return self._by_reference[place]

    def merged(self) -> list[ScanReport]:
        """One report per reference; as far as the run has come."""
        return [
            _merged(reference, list(reports))
            for reference, reports in zip(self._references, self._by_reference, strict=True)
        ]


def _merged(reference: RoutedReference, reports: list[ScanReport]) -> ScanReport:
    whole = merge_reports(
        reports,
        table=reference.alias,
        path=reference.route.path,
        reason=reference.route.reason,
    )
    files = reference.table.files
    return dataclasses.replace(
        whole, files=len(files), bytes_total=sum(file.size for file in files)
    )
