"""What a query will read, in which order, and why: before it runs.

In: the routed references of a query. Out: text for people, dicts for programs.

Invariant: explaining reads footers, indexes, and a few pages where what a filter drops decides
(`scan.sampling`); it runs nothing.
"""

from __future__ import annotations

import dataclasses
import math
import re
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lm_datafusion.engine.plan_scans import to_conjuncts
from lm_datafusion.errors import LateError
from lm_datafusion.metrics import ScanMetrics
from lm_datafusion.plan import ScanRequest
from lm_datafusion.scan import known_steps, load_facts, plan_scan

if TYPE_CHECKING:
    from datafusion import DataFrame

    from lm_datafusion.engine.routing import RoutedReference
    from lm_datafusion.options import ScanOptions
    from lm_datafusion.plan import RowGroupTask, Table

# The row that EXPLAIN gets from us, and DataFusion's for a plan that it could not make.
PLAN_TYPE = "parquet_scans"
_FAILED = "physical_plan_error"
_WIDTH = 96
_COLUMNS_SHOWN = 12
_TYPED_NUMBER = re.compile(r"arrow_cast\('(-?[\d.]+)', '(?:U?Int|Float)\d+'\)")
_TYPED_TEXT = re.compile(r"arrow_cast\(('[^']*'), '(?:Large)?Utf8(?:View)?'\)")
_BARE_NUMBER = re.compile(r" \((-?[\d.]+)\)")


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
        lines = [f"{self.table}: {_PATHS[self.path]}", *_wrapped("why", self.reason)]
        lines += _wrapped("how", self.mechanism) if self.mechanism else []
        lines += _wrapped("order", self.order) if self.order else []
        lines += self._pruning_lines()
        lines += self._late_lines() if self.path == "late" else self._native_lines()
        rows = f"about {self.rows_estimated:,} rows" if self.filters else "every row"
        fetched = f"{_bytes(self.bytes_estimated)} of {_bytes(self.bytes_total)}"
        lines.append(f"  expect   {rows}; at most {fetched} fetched")
        return "\n".join(lines)

    def _pruning_lines(self) -> list[str]:
        if not self.filters:
            return [
                f"  rows     {self.rows_total:,} in {_count(self.row_groups_total, 'row group')}"
            ]
        ruled_out = self.row_groups_total - self.row_groups_left
        groups = _count(self.row_groups_total, "row group")
        rows = f"{self.rows_left:,} of {self.rows_total:,} rows left"
        return [
            f"  prune    {ruled_out} of {groups} ruled out by statistics; {rows}",
            f"           {_PRUNING[self.path]}",
        ]

    def _late_lines(self) -> list[str]:
        lines = []
        for place, step in enumerate(self.filters, 1):
            lines += _wrapped(f"filter {place}", readable(step.predicate))
            passing = f"{_share(step.rows_share)} of rows are expected to pass"
            lines.append(f"           {_bytes(step.bytes)}; {passing}")
        lines += _wrapped("then", _listed(self.columns) or "no further column: rows are counted")
        if self.columns_bytes:
            lines.append(f"           {_bytes(self.columns_bytes)} if every row passed")
        return lines

    def _native_lines(self) -> list[str]:
        lines = _wrapped("read", _listed(self.columns) or "no column: rows are counted")
        for step in self.filters:
            lines += _wrapped("filter", readable(step.predicate))
        return lines


_PRUNING = {
    "late": "then by bloom filter, dictionary and page index, where there are any",
    "native": "then by bloom filter and page index, where there are any",
    "native_pushdown": "then by bloom filter and page index, where there are any",
    "row_fetch": "then by bloom filter and page index, where there are any",
}
_PATHS = {
    "late": "late: columns of filters first, other columns for rows that pass",
    "native": "DataFusion's own reader",
    "native_pushdown": "DataFusion's own reader, with filter pushdown",
    "row_fetch": "two phases: DataFusion finds the first rows, then reads them",
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
    try:
        return ReferencePlan(**known | _read_plan(reference, columns))
    except LateError:
        # A file that only DataFusion can say something about.
        return ReferencePlan(**known)


def plan_rows(frame: DataFrame, *, strict: bool) -> pa.Table:
    """The rows of EXPLAIN.

    Args:
        frame: What explains.
        strict: Whether a plan that could not be made is an error, not a row that says so.

    Raises:
        LateError: It could not be made.
    """
    table = frame.to_arrow_table()
    kinds = table.column(0).to_pylist()
    if strict and _FAILED in kinds:
        raise LateError(table.column(1)[kinds.index(_FAILED)].as_py())
    return table


def with_row(table: pa.Table, told: str) -> pa.Table:
    """The rows of EXPLAIN, and one of ours."""
    values = {"plan_type": PLAN_TYPE, "plan": told}
    row = pa.table(
        {field.name: pa.array([values.get(field.name)], field.type) for field in table.schema},
        schema=table.schema,
    )
    return pa.concat_tables([table, row]).combine_chunks()


def _read_plan(reference: RoutedReference, columns: tuple[str, ...]) -> dict[str, Any]:
    metrics = ScanMetrics()
    table, options = reference.table.as_table(), reference.route.options
    if reference.late is None:
        names = {reference.own_name or reference.table.name[-1], *reference.table.printed_names}
        conjuncts = to_conjuncts(reference.filters, names, table.schema)
    else:
        conjuncts = reference.late.conjuncts
    route = reference.route
    request = ScanRequest(
        conjuncts=conjuncts,
        columns=columns,
        first=route.first,
        limit=None if reference.late is None else route.limit,
        is_any_order=route.limit is not None,
    )
    plan = plan_scan(table, request, options, metrics)
    measured = known_steps(plan)
    report = metrics.report()
    sizes = [_column_bytes(task, table, options) for task in plan.tasks]

    def size(names: tuple[str, ...]) -> int:
        return sum(by_name.get(name, 0) for by_name in sizes for name in set(names))

    filters, kept = [], 1.0
    seen: set[str] = set()
    for step in plan.row_filter.steps:
        seen.update(step.conjunct.columns)
        found = measured.get(step.index)
        share = step.selectivity if found is None else found.kept_share
        kept *= share
        filters.append(
            FilterPlan(
                predicate=str(step.conjunct),
                rows_share=share,
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
        "bytes_estimated": size((*seen, *rest)),
        "mechanism": report.mechanism,
        "order": report.order,
    }


def _column_bytes(task: RowGroupTask, table: Table, options: ScanOptions) -> dict[str, int]:
    """Compressed bytes of the columns in play in one row group, by name."""
    facts = load_facts(table.storage, task.file.version.path, options)
    return {
        name: sum(
            chunk.byte_range.length for chunk in facts.chunks_of(task.access.row_group, column)
        )
        for name, column in task.file.columns.items()
    }


def readable(predicate: str) -> str:
    """A condition without the types of its literals and its outermost parentheses."""
    text = _TYPED_NUMBER.sub(r"\1", predicate)
    text = _TYPED_TEXT.sub(r"\1", text)
    text = _BARE_NUMBER.sub(r" \1", text)
    if text.startswith("(") and text.endswith(")") and "(" not in text[1:-1]:
        return text[1:-1]
    return text


def _wrapped(label: str, text: str) -> list[str]:
    indent = " " * 11
    lines = textwrap.wrap(text, _WIDTH - len(indent), break_long_words=False) or [""]
    first, *others = lines
    return [f"  {label:<8} {first}", *(indent + line for line in others)]


def _listed(columns: tuple[str, ...]) -> str:
    if len(columns) <= _COLUMNS_SHOWN:
        return ", ".join(columns)
    shown = ", ".join(columns[:_COLUMNS_SHOWN])
    return f"{len(columns)} columns: {shown} and {len(columns) - _COLUMNS_SHOWN} more"


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
