"""What a query will read, in which order, and why: before it runs.

In: the plan of each table reference. Out: text for people, dicts for programs.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferencePlan:
    """How one table reference will be served.

    Attributes:
        table: The name in the query.
        path: Which reader serves it.
        reason: Why.
        filters: The filter chain, in the order it starts with.
        columns: Columns that are read for the result.
        row_groups_total: Row groups of the table.
        row_groups_left: Those that statistics do not rule out.
        rows_total: Rows of the table.
        rows_estimated: Rows expected to pass.
        bytes_estimated: Compressed bytes of the columns in the row groups left.
    """

    table: str
    path: str
    reason: str
    filters: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    row_groups_total: int = 0
    row_groups_left: int = 0
    rows_total: int = 0
    rows_estimated: int = 0
    bytes_estimated: int = 0

    def __str__(self) -> str:
        lines = [f"{self.table}: {self.path} ({self.reason})"]
        if self.path == "late":
            lines += [f"  filter {place}  {text}" for place, text in enumerate(self.filters, 1)]
            lines += [
                f"  then read {', '.join(self.columns) or 'nothing: rows are counted'}",
                f"  {self.row_groups_left} of {self.row_groups_total} row groups, by statistics",
                f"  about {self.rows_estimated:,} of {self.rows_total:,} rows expected",
                f"  at most {self.bytes_estimated:,} bytes",
            ]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class ScanExplanation:
    """The plans of all table references of a query, in the order of its text."""

    references: tuple[ReferencePlan, ...]

    def to_dict(self) -> list[dict[str, Any]]:
        """Plain dicts, one per reference."""
        return [dataclasses.asdict(reference) for reference in self.references]

    def __str__(self) -> str:
        if not self.references:
            return "no table that could be scanned late"
        return "\n".join(map(str, self.references))
