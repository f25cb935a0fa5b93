"""What a query will read, in which order, and why: before it runs.

In: the routed references of a query. Out: text for people, dicts for programs.

Invariant: explaining reads footers only, and runs nothing.
"""

from __future__ import annotations

import dataclasses
import math
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lm_datafusion.metrics import ScanMetrics
from lm_datafusion.plan import ScanRequest
from lm_datafusion.scan import load_facts, plan_scan

if TYPE_CHECKING:
    from lm_datafusion.dataset import LateDataset
    from lm_datafusion.engine.routing import RoutedReference
    from lm_datafusion.plan import RowGroupTask

_WIDTH = 96


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
    """How one table reference will be served.

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
        bytes_estimated: Compressed bytes expected to be fetched.
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

    def __str__(self) -> str:
        lines = [f"{self.table}: {_PATHS[self.path]}", f"  why      {self.reason}"]
        if self.path == "late":
            lines += self._late_lines()
        else:
            lines += _wrapped("reads", ", ".join(self.columns) or "no column: rows are counted")
        return "\n".join(lines)

    def _late_lines(self) -> list[str]:
        ruled_out = self.row_groups_total - self.row_groups_left
        groups = _count(self.row_groups_total, "row group")
        rows = f"{self.rows_left:,} of {self.rows_total:,} rows left"
        lines = [
            f"  prune    {ruled_out} of {groups} ruled out by statistics; {rows}",
            "           then bloom filters, dictionaries and the page index, where there are any",
        ]
        for place, step in enumerate(self.filters, 1):
            lines += _wrapped(f"filter {place}", step.predicate)
            lines.append(
                f"           {_bytes(step.bytes)} of columns, about {_share(step.rows_share)} of"
                " rows expected to pass"
            )
        read = ", ".join(self.columns) or "no further column: rows are counted"
        lines += _wrapped("then", read)
        if self.columns:
            lines.append(f"           {_bytes(self.columns_bytes)} if every row passed")
        lines.append(
            f"  expect   about {self.rows_estimated:,} rows, {_bytes(self.bytes_estimated)} of"
            f" {_bytes(self.bytes_total)} fetched"
        )
        return lines


_PATHS = {
    "late": "late materialization, filters first, other columns for surviving rows only",
    "native": "DataFusion's own reader",
    "native_pushdown": "DataFusion's own reader, with filter pushdown",
    "row_fetch": "DataFusion finds the rows, the other columns are fetched for those only",
}


@dataclass(frozen=True, slots=True)
class ScanExplanation:
    """The plans of all references to Parquet tables of a query, in the order of its text."""

    references: tuple[ReferencePlan, ...]

    def to_dict(self) -> list[dict[str, Any]]:
        """Plain dicts, one per reference."""
        return [dataclasses.asdict(reference) for reference in self.references]

    def __str__(self) -> str:
        if not self.references:
            return "no Parquet table is scanned"
        return "\n".join(map(str, self.references))


def explain_reference(reference: RoutedReference, columns: tuple[str, ...]) -> ReferencePlan:
    """The plan of one reference, of which a query needs these columns."""
    known: dict[str, Any] = {
        "table": reference.alias,
        "path": reference.route.path,
        "reason": reference.route.reason,
        "files": len(reference.table.files),
        "bytes_total": sum(file.size for file in reference.table.files),
        "columns": columns,
    }
    if reference.late is None:
        return ReferencePlan(**known)
    return ReferencePlan(**known | _late_plan(reference.late, columns))


def _late_plan(late: LateDataset, columns: tuple[str, ...]) -> dict[str, Any]:
    metrics = ScanMetrics()
    request = ScanRequest(conjuncts=late.conjuncts, columns=columns)
    plan = plan_scan(late.table, request, late.options, metrics)
    report = metrics.report()
    sizes = [_column_bytes(task, late) for task in plan.tasks]

    def size(names: tuple[str, ...]) -> int:
        return sum(by_name.get(name, 0) for by_name in sizes for name in set(names))

    filters, kept, fetched = [], 1.0, 0.0
    seen: set[str] = set()
    for step in plan.row_filter.steps:
        new = tuple(name for name in step.conjunct.columns if name not in seen)
        seen.update(new)
        fetched += size(new) * kept
        kept *= step.selectivity
        filters.append(
            FilterPlan(
                predicate=str(step.conjunct),
                rows_share=step.selectivity,
                bytes=size(step.conjunct.columns),
            )
        )
    rest = tuple(name for name in columns if name not in seen)
    rows_left = sum(task.access.row_count for task in plan.tasks)
    return {
        "filters": tuple(filters),
        "columns": columns,
        "columns_bytes": size(rest),
        "row_groups_total": report.row_groups_total,
        "row_groups_left": len(plan.tasks),
        "rows_total": report.rows_total,
        "rows_left": rows_left,
        "rows_estimated": math.ceil(rows_left * kept),
        "bytes_estimated": round(fetched + size(rest) * kept),
    }


def _column_bytes(task: RowGroupTask, late: LateDataset) -> dict[str, int]:
    """Compressed bytes of the columns in play in one row group, by name."""
    facts = load_facts(late.table.storage, task.file.version.path, late.options)
    return {
        name: sum(
            chunk.byte_range.length for chunk in facts.chunks_of(task.access.row_group, column)
        )
        for name, column in task.file.columns.items()
    }


def _wrapped(label: str, text: str) -> list[str]:
    indent = " " * 11
    lines = textwrap.wrap(text, _WIDTH - len(indent), break_long_words=False) or [""]
    first, *others = lines
    return [f"  {label:<8} {first}", *(indent + line for line in others[:8])]


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def _share(share: float) -> str:
    return f"{share:.2%}" if share < 0.1 else f"{share:.0%}"  # noqa: PLR2004 one in ten


def _bytes(number: int) -> str:
    size, unit = float(number), "bytes"
    for larger in ("KB", "MB", "GB"):
        if size < 1000:  # noqa: PLR2004 the next unit
            break
        size, unit = size / 1000, larger
    return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
