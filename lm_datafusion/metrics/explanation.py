"""What a query will read, in which order, and why: before it runs.

In: what a session finds out about each Parquet table, and what access paths offer. Out: text for
people, dicts for programs.

Invariant: a value, and how it is written; finding it out is up to the engine.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from lm_datafusion.metrics.plan_text import byte_size, counted, listed, percent, readable, wrapped


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterPlan:
    """One step of a filter chain.

    Attributes:
        predicate: The condition.
        rows_share: The share of rows it is expected to keep.
        bytes: Compressed bytes of its columns in the row groups left.
    """

    predicate: str
    rows_share: float
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferencePlan:
    """How one table will be read.

    Attributes:
        table: What the query calls it.
        path: Which reader serves it.
        reason: Why.
        files: Files of the table.
        filters: The filter chain, in the order it starts with; the scan may change it as it
            measures.
        columns: Columns that are read for the result, after the filters.
        columns_bytes: Compressed bytes of those in the row groups left, if all rows passed.
        row_groups_total: Row groups of the table.
        row_groups_left: Those that statistics do not rule out.
        rows_total: Rows of the table.
        rows_left: Rows of the row groups left.
        rows_estimated: Rows expected to pass.
        bytes_total: Size of the files.
        bytes_estimated: Compressed bytes of all columns in play in the row groups left: what is
            fetched at most.
        mechanism: How a scan goes that need not see all rows.
        order: What is known of the order of rows, and from what.
    """

    table: str
    path: str
    reason: str
    files: int = 0
    filters: tuple[FilterPlan, ...] = ()
    columns: tuple[str, ...] = ()
    columns_bytes: int = 0
    row_groups_total: int = 0
    row_groups_left: int = 0
    rows_total: int = 0
    rows_left: int = 0
    rows_estimated: int = 0
    bytes_total: int = 0
    bytes_estimated: int = 0
    mechanism: str = ""
    order: str = ""

    def __str__(self) -> str:
        lines = [f"{self.table}: {_PATHS[self.path]}", *wrapped("why", self.reason)]
        lines += wrapped("how", self.mechanism) if self.mechanism else []
        lines += wrapped("order", self.order) if self.order else []
        lines += self._pruning_lines()
        lines += self._late_lines() if self.path == "late" else self._native_lines()
        rows = f"about {self.rows_estimated:,} rows" if self.filters else "every row"
        fetched = f"{byte_size(self.bytes_estimated)} of {byte_size(self.bytes_total)}"
        lines.append(f"  expect   {rows}; at most {fetched} fetched")
        return "\n".join(lines)

    def _pruning_lines(self) -> list[str]:
        if not self.filters:
            return [
                f"  rows     {self.rows_total:,} in {counted(self.row_groups_total, 'row group')}"
            ]
        ruled_out = self.row_groups_total - self.row_groups_left
        groups = counted(self.row_groups_total, "row group")
        rows = f"{self.rows_left:,} of {self.rows_total:,} rows left"
        return [
            f"  prune    {ruled_out} of {groups} ruled out by statistics; {rows}",
            f"           {_PRUNING[self.path]}",
        ]

    def _late_lines(self) -> list[str]:
        lines = []
        for number, step in enumerate(self.filters, 1):
            lines += wrapped(f"filter {number}", readable(step.predicate))
            passing = f"{percent(step.rows_share)} of rows are expected to pass"
            lines.append(f"           {byte_size(step.bytes)}; {passing}")
        lines += wrapped("then", listed(self.columns) or "no further column: rows are counted")
        if self.columns_bytes:
            lines.append(f"           {byte_size(self.columns_bytes)} if every row passed")
        return lines

    def _native_lines(self) -> list[str]:
        lines = wrapped("read", listed(self.columns) or "no column: rows are counted")
        for step in self.filters:
            lines += wrapped("filter", readable(step.predicate))
        return lines


_PRUNING = {
    "late": "then by bloom filter, dictionary and page index, where there are any",
    "native": "then by bloom filter and page index, where there are any",
}
_PATHS = {
    "late": "late: columns of filters first, other columns for rows that pass",
    "native": "DataFusion's own reader",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PathPlan:
    """What one access path offered for the query.

    Attributes:
        name: The path.
        seconds: Expected processor time; None if it declined, or was not compared with another.
        reason: Why it would be chosen, or why it declined.
        is_chosen: Whether it runs.
    """

    name: str
    seconds: float | None
    reason: str
    is_chosen: bool = False

    def __str__(self) -> str:
        mark = "*" if self.is_chosen else " "
        cost = "" if self.seconds is None else f"{self.seconds * 1e3:,.1f} ms: "
        return "\n".join(wrapped(f"{mark} {self.name}", f"{cost}{self.reason}", width=15))


@dataclass(frozen=True, slots=True)
class ScanExplanation:
    """How each Parquet table of a query will be read, and what every path offered, best first."""

    references: tuple[ReferencePlan, ...]
    paths: tuple[PathPlan, ...] = ()

    def to_dict(self) -> list[dict[str, Any]]:
        """Plain dicts, one per table."""
        return [dataclasses.asdict(reference) for reference in self.references]

    def __str__(self) -> str:
        if not self.references:
            return "no Parquet table is scanned"
        lines = list(map(str, self.references))
        if len(self.paths) > 1:
            lines += ["paths", *map(str, self.paths)]
        return "\n".join(lines)
