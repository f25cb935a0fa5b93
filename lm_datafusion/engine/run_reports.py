"""What the scans of one run of a query did: one report per table reference.

In: the routed references of a query, and reports of partitions as they end. Out: `ScanReport`s.

Invariant: reports of one run never reach another, whichever threads its partitions run on.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from lm_datafusion.metrics import merge_reports

if TYPE_CHECKING:
    from lm_datafusion.engine.routing import RoutedReference
    from lm_datafusion.metrics import ScanReport


class RunReports:
    """The reports of one run.

    Attributes:
        references: What was routed.
        errors: What scans of ours raised.
    """

    def __init__(self, references: tuple[RoutedReference, ...]) -> None:
        self.errors: list[Exception] = []
        self.references = references
        self._by_reference: list[list[ScanReport]] = [[] for _ in references]

    @property
    def paths(self) -> str:
        """The paths of the run, for people."""
        return " and ".join(dict.fromkeys(reference.route.path for reference in self.references))

    @property
    def is_native(self) -> bool:
        """Whether DataFusion's own reader serves all references."""
        return all(reference.route.path == "native" for reference in self.references)

    def as_native(self, reason: str) -> RunReports:
        """Reports of a run in which DataFusion's own reader serves them after all."""
        return RunReports(tuple(reference.as_native(reason) for reference in self.references))

    def of(self, place: int) -> list[ScanReport]:
        """Where the partitions of a reference put their reports."""
        return self._by_reference[place]

    def merged(self) -> list[ScanReport]:
        """One report per reference; as far as the run has come."""
        return [
            _merged(reference, list(reports))
            for reference, reports in zip(self.references, self._by_reference, strict=True)
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
