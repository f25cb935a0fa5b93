"""What a scan did, and what it would do, as values that people and programs read.

In: counts from every stage of a scan; what a session would read of a table. Out: `ScanReport` after
a run, `ScanExplanation` before one.

Invariant: nothing here decides anything.
"""

from __future__ import annotations

from lm_datafusion.metrics.report import (
    COUNTERS,
    ScanMetrics,
    ScanReport,
    StepReport,
    merge_reports,
)

__all__ = ["COUNTERS", "ScanMetrics", "ScanReport", "StepReport", "merge_reports"]
