"""What a scan saw, pruned, read and kept.

In: counts from every stage of a scan, from several threads. Out: a frozen `ScanReport`.

Counter names follow DataFusion's `ParquetFileMetrics`, so that reports read alike.

Invariant: counters only grow; a report is a copy and never changes afterwards.
"""

from __future__ import annotations

import dataclasses
import textwrap
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

COUNTERS = (
    "files",
    "files_pruned",
    "row_groups_total",
    "row_groups_pruned_statistics",
    "row_groups_pruned_bloom_filter",
    "row_groups_pruned_dictionary",
    "row_groups_pruned_early_stop",
    "row_groups_pruned_condition_cache",
    "row_groups_fully_matched",
    "pages_total",
    "pages_pruned",
    "pages_pruned_early_stop",
    "pages_fetched",
    "rows_total",
    "rows_selected",
    "bytes_scanned",
    "bytes_metadata",
    "bytes_total",
    "chunks_by_kernels",
    "chunks_by_splice",
    "chunks_fallback",
    "dictionary_evaluations",
    "condition_cache_hits",
    "condition_cache_rows",
    "predicate_evaluation_errors",
    "requests",
    "bytes_fetched",
    "round_trips",
    "wait_us",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """One filter step: rows it was given, rows it left, time it took."""

    predicate: str
    rows_in: int
    rows_out: int
    elapsed_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanReport:
    """What one scan of one table reference did; see `to_dict` for a plain form.

    `bytes_scanned` counts data and dictionary pages fetched, `bytes_metadata` footers, indexes,
    bloom filters and page headers read on the way; `bytes_total` is the size of the files.
    `pages_total` counts the pages of the columns the scan was about in the row groups left
    after row-group pruning, `pages_pruned` those of them that no fetch touched. Of these,
    `pages_pruned_early_stop` are pages of filter and sort columns that might have held a row, but
    enough rows were found before; `row_groups_pruned_early_stop` were never begun for that reason.
    Of the column chunks read, `chunks_by_kernels` were decoded by compiled kernels,
    `chunks_by_splice` by PyArrow (`chunks_fallback` of those were read whole).
    `mechanism` says how a scan that need not see all rows went about it, `order` what is known
    of the order of rows, and from what. `condition_cache_hits` counts the row groups in which the
    condition cache knew a conjunct, `condition_cache_rows` the rows of those;
    `condition_cache_bytes` is what the cache held when the scan ended.

    Of an object store, `requests` and `bytes_fetched` count what was asked of it, listings and
    metadata included; `round_trips` how often a thread of the scan had nothing to do but wait for
    an answer, and `wait_us` for how many microseconds. They are 0 for local files.
    """

    table: str
    path: str
    reason: str
    mechanism: str
    order: str
    files: int
    files_pruned: int
    row_groups_total: int
    row_groups_pruned_statistics: int
    row_groups_pruned_bloom_filter: int
    row_groups_pruned_dictionary: int
    row_groups_pruned_early_stop: int
    row_groups_pruned_condition_cache: int
    row_groups_fully_matched: int
    pages_total: int
    pages_pruned: int
    pages_pruned_early_stop: int
    pages_fetched: int
    rows_total: int
    rows_selected: int
    bytes_scanned: int
    bytes_metadata: int
    bytes_total: int
    chunks_by_kernels: int
    chunks_by_splice: int
    chunks_fallback: int
    fallback_columns: tuple[str, ...]
    dictionary_evaluations: int
    condition_cache_hits: int
    condition_cache_rows: int
    condition_cache_bytes: int
    predicate_evaluation_errors: int
    requests: int
    bytes_fetched: int
    round_trips: int
    wait_us: int
    steps: tuple[StepReport, ...]
    elapsed_s: float

    def to_dict(self) -> dict[str, Any]:
        """The report as plain dicts, lists and numbers."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        lines = [f"scan of {self.table}: {self.path} ({self.reason})"]
        pruned = (
            f"{self.row_groups_pruned_statistics} by statistics, "
            f"{self.row_groups_pruned_bloom_filter} by bloom filter, "
            f"{self.row_groups_pruned_dictionary} by dictionary"
        )
        if self.row_groups_pruned_condition_cache:
            pruned += f", {self.row_groups_pruned_condition_cache} by condition cache"
        lines += [
            f"  files        {self.files} ({self.files_pruned} pruned)",
            f"  row groups   {self.row_groups_total}: pruned {pruned}",
            f"  matched      {self.row_groups_fully_matched} row groups without a look at a row",
            f"  pages        {self.pages_total}: {self.pages_pruned} never fetched",
            f"  rows         {self.rows_total:,} -> {self.rows_selected:,}",
            f"  bytes        {self.bytes_scanned:,} of {self.bytes_total:,}",
            f"  metadata     {self.bytes_metadata:,} bytes",
        ]
        if self.requests:
            lines.append(
                f"  requests     {self.requests:,} for {self.bytes_fetched:,} bytes;"
                f" {self.round_trips:,} waits, {self.wait_us / 1e3:.1f} ms"
            )
        if self.mechanism:
            lines.append(f"  mechanism    {self.mechanism}")
        if self.order:
            lines.append(f"  order        {self.order}")
        if self.row_groups_pruned_early_stop or self.pages_pruned_early_stop:
            lines.append(
                f"  early stop   {self.row_groups_pruned_early_stop} row groups never begun,"
                f" {self.pages_pruned_early_stop} pages of others never read"
            )
        if self.condition_cache_hits:
            lines.append(
                f"  known        {self.condition_cache_rows:,} rows in"
                f" {self.condition_cache_hits} row groups, from a condition cache of"
                f" {self.condition_cache_bytes:,} bytes"
            )
        if self.chunks_fallback:
            columns = ", ".join(self.fallback_columns)
            lines.append(f"  whole chunks {self.chunks_fallback} read through pyarrow: {columns}")
        for step in self.steps:
            predicate = textwrap.shorten(step.predicate, 120, placeholder=" ...")
            lines.append(
                f"  filter       {predicate}: {step.rows_in:,} -> {step.rows_out:,} rows,"
                f" {step.elapsed_s * 1e3:.1f} ms"
            )
        lines.append(f"  time         {self.elapsed_s * 1e3:.1f} ms")
        return "\n".join(lines)


def merge_reports(
    reports: Sequence[ScanReport], *, table: str, path: str, reason: str
) -> ScanReport:
    """One report for the scans of one table reference, which partitions of an engine shared.

    Args:
        reports: What each partition did; none for a table that another reader served.
        table: What the query calls the table.
        path: Which reader served it.
        reason: Why.
    """
    whole = ScanMetrics(table=table, path=path, reason=reason)
    for report in reports:
        whole.mechanism = whole.mechanism or report.mechanism
        whole.order = whole.order or report.order
        whole.add(**{name: getattr(report, name) for name in COUNTERS})
        whole.add_fallback_columns(report.fallback_columns)
        whole.note_condition_cache(report.condition_cache_bytes)
        for step in report.steps:
            whole.add_step(
                step.predicate,
                rows_in=step.rows_in,
                rows_out=step.rows_out,
                elapsed_s=step.elapsed_s,
            )
    elapsed_s = max((report.elapsed_s for report in reports), default=0.0)
    return dataclasses.replace(whole.report(), elapsed_s=elapsed_s)


@dataclass(slots=True)
class _StepCounter:
    rows_in: int = 0
    rows_out: int = 0
    elapsed_s: float = 0.0


@dataclass(slots=True)
class ScanMetrics:
    """Counters of one running scan; safe to share between its threads."""

    table: str = ""
    path: str = "late"
    reason: str = "a dataset scan is always late"
    mechanism: str = ""
    order: str = ""
    _counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0))
    _steps: dict[str, _StepCounter] = field(default_factory=dict)
    _fallback_columns: set[str] = field(default_factory=set)
    _condition_cache_bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _started: float = field(default_factory=time.perf_counter)
    _elapsed_s: float | None = None

    def add(self, **counts: int) -> None:
        """Adds to counters by name."""
        with self._lock:
            for name, count in counts.items():
                self._counts[name] += count

    def count_of(self, name: str) -> int:
        """A counter as it is now."""
        return self._counts[name]

    def add_step(self, predicate: str, *, rows_in: int, rows_out: int, elapsed_s: float) -> None:
        """Adds one evaluation of a filter step."""
        with self._lock:
            step = self._steps.setdefault(predicate, _StepCounter())
            step.rows_in += rows_in
            step.rows_out += rows_out
            step.elapsed_s += elapsed_s

    def add_fallback(self, column: str, chunk_count: int = 1) -> None:
        """Counts column chunks that were read whole through pyarrow."""
        with self._lock:
            self._counts["chunks_fallback"] += chunk_count
            self._fallback_columns.add(column)

    def add_fallback_columns(self, columns: Iterable[str]) -> None:
        """Names columns with chunks that were read whole, which are counted already."""
        with self._lock:
            self._fallback_columns.update(columns)

    def note_condition_cache(self, memory_bytes: int) -> None:
        """What the condition cache holds; the largest note counts."""
        with self._lock:
            self._condition_cache_bytes = max(self._condition_cache_bytes, memory_bytes)

    def finish(self) -> None:
        """Stops the clock; the first call counts."""
        if self._elapsed_s is None:
            self._elapsed_s = time.perf_counter() - self._started

    def report(self) -> ScanReport:
        """A frozen copy of the counters as they are now."""
        with self._lock:
            steps = tuple(
                StepReport(
                    predicate=predicate,
                    rows_in=step.rows_in,
                    rows_out=step.rows_out,
                    elapsed_s=step.elapsed_s,
                )
                for predicate, step in self._steps.items()
            )
            elapsed_s = self._elapsed_s
            return ScanReport(
                table=self.table,
                path=self.path,
                reason=self.reason,
                mechanism=self.mechanism,
                order=self.order,
                steps=steps,
                fallback_columns=tuple(sorted(self._fallback_columns)),
                condition_cache_bytes=self._condition_cache_bytes,
                elapsed_s=time.perf_counter() - self._started if elapsed_s is None else elapsed_s,
                **self._counts,
            )
