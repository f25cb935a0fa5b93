"""DataFusion as it comes, with filter pushdown, and lm_datafusion's session.

In: Parquet files, SQL. Out: Arrow tables, and counts of what the Parquet reader skipped.

Counts come from two places and have the same names: lm_datafusion's own scan reports, and the
numbers DataFusion prints for its reader under EXPLAIN ANALYZE, which runs the query once more.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, get_args

import datafusion
import pyarrow as pa

import lm_datafusion
from clickbench.engines.engine import EngineError, is_orc, refuse_orc
from clickbench.queries import load_view
from lm_datafusion.options import AccessPath

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lm_datafusion.metrics import ScanReport

_SUMMED = (
    "files",
    "files_pruned",
    "row_groups_total",
    "row_groups_pruned_statistics",
    "row_groups_pruned_bloom_filter",
    "row_groups_pruned_dictionary",
    "row_groups_fully_matched",
    "pages_total",
    "pages_pruned",
    "rows_total",
    "rows_selected",
    "bytes_scanned",
    "bytes_metadata",
)
_NUMBER = r"(?P<{0}>[\d.]+)(?P<{0}_unit> [KMBT])?"
_PRUNED = re.compile(
    rf"(?P<name>\w+)={_NUMBER.format('total')} total → {_NUMBER.format('left')} matched"
    rf"(?: -> {_NUMBER.format('full')} fully matched)?"
)
_ROWS_OUT = re.compile(r"DataSourceExec: .*?metrics=\[output_rows=([\d.]+(?: [KMBT])?)")
_UNITS = {None: 1, " K": 10**3, " M": 10**6, " B": 10**9, " T": 10**12}


class DataFusion:
    """DataFusion over its own listing of the files."""

    def __init__(self, *, pushdown: bool) -> None:
        self._pushdown = str(pushdown).lower()
        self._reader = "native_pushdown" if pushdown else "native"
        self._context: datafusion.SessionContext | None = None

    def open(self, files: Sequence[str], threads: int) -> None:
        """Makes the session and the view."""
        refuse_orc(files, "DataFusion")
        self._context = datafusion.SessionContext(_config(threads, self._pushdown))
        self._context.register_parquet("hits_raw", _location(files))
        self._context.sql(load_view())

    def run(self, sql: str) -> pa.Table:
        """The answer."""
        return _collect(self.context.sql(sql))

    def pruned(self, sql: str) -> dict[str, Any]:
        """What DataFusion's reader skipped, from another run."""
        return {"reader": self._reader, **_analyzed(self.context, sql)}

    def close(self) -> None:
        """Drops the session."""
        self._context = None

    @property
    def context(self) -> datafusion.SessionContext:
        """The open session."""
        assert self._context is not None, "not open"
        return self._context


class LateDataFusion:
    """lm_datafusion's session, on one of its paths.

    Conditions are not remembered from run to run, unless the path is `remember`.
    """

    def __init__(self, path: str) -> None:
        if path not in (*get_args(AccessPath), "dataset", "remember"):
            known = ", ".join((*get_args(AccessPath), "dataset", "remember"))
            raise EngineError(f"lm has no path {path!r}; there are {known}")
        self._remembers = path == "remember"
        self._path = "auto" if self._remembers else path
        self._context: lm_datafusion.SessionContext | None = None
        self._dataset: lm_datafusion.LateDataset | None = None
        self._files: tuple[str, ...] = ()
        self._threads = 0
        self._seen: list[ScanReport] = []

    def open(self, files: Sequence[str], threads: int) -> None:
        """Makes the session and the view."""
        self._files, self._threads = tuple(files), threads
        if self._path == "dataset":
            options = lm_datafusion.ScanOptions(
                threads=threads, string_type="string_view", condition_cache_bytes=0
            )
            self._context = lm_datafusion.SessionContext(_config(threads, "false"))
            self._dataset = lm_datafusion.dataset(list(files), options=options)
            self._context.register_dataset("hits_raw", self._dataset)
            self._context.sql(load_view())
            return
        options = lm_datafusion.ScanOptions(threads=threads, path=self._path)  # type: ignore[arg-type]
        if not self._remembers:
            options = options.with_changes(condition_cache_bytes=0)
        self._context = lm_datafusion.SessionContext(_config(threads, "false"), options=options)
        if is_orc(files):
            self._context.register_orc("hits_raw", list(files))
        else:
            self._context.register_parquet("hits_raw", _location(files))
        self._context.sql(load_view())

    def run(self, sql: str) -> pa.Table:
        """The answer."""
        self._seen = self._reports() if self._dataset is not None else []
        return _collect(self.context.sql(sql))

    def pruned(self, sql: str) -> dict[str, Any]:
        """What the scans of the last run skipped; from another run if DataFusion read."""
        # A dataset keeps the reports of earlier queries, too; a session those of the last one.
        old = {id(report) for report in self._seen}
        reports = [report for report in self._reports() if id(report) not in old]
        if is_orc(self._files):
            return _summed(reports) if reports else {}
        if not reports:
            return self._read_by_datafusion(sql)
        paths = {report.path for report in reports}
        if paths == {"late"}:
            held = {"condition_cache_bytes": lm_datafusion.condition_cache_bytes()}
            return _summed(reports) | (held if self._remembers else {})
        counts = _analyzed(self.context, sql)
        return {"reader": " and ".join(sorted(paths)), **counts}

    def close(self) -> None:
        """Drops the session."""
        self._context = None
        self._dataset = None
        self._seen = []

    @property
    def context(self) -> lm_datafusion.SessionContext:
        """The open session."""
        assert self._context is not None, "not open"
        return self._context

    def _read_by_datafusion(self, sql: str) -> dict[str, Any]:
        """By a session of DataFusion's that is there for this only: what it keeps is memory."""
        native = DataFusion(pushdown=False)
        native.open(self._files, self._threads)
        return native.pruned(sql)

    def _reports(self) -> list[ScanReport]:
        source = self.context if self._dataset is None else self._dataset
        return list(source.scan_reports())


def _config(threads: int, pushdown: str) -> datafusion.SessionConfig:
    return datafusion.SessionConfig(
        {
            "datafusion.execution.target_partitions": str(threads),
            "datafusion.execution.parquet.binary_as_string": "true",
            "datafusion.execution.parquet.pushdown_filters": pushdown,
            "datafusion.execution.parquet.reorder_filters": pushdown,
        }
    )


def _location(files: Sequence[str]) -> str:
    """One file by its name, several by their folder."""
    if len(files) == 1:
        return files[0]
    return os.path.join(os.path.dirname(files[0]), "")


def _collect(frame: datafusion.DataFrame) -> pa.Table:
    batches = frame.collect()
    # The schema of batches may forbid nulls where that of the plan allows them.
    return pa.Table.from_batches(batches, schema=None if batches else frame.schema())


def _summed(reports: list[ScanReport]) -> dict[str, Any]:
    """One count per level: a query leaves a report per partition."""
    plain = [report.to_dict() for report in reports]
    counts: dict[str, Any] = {name: sum(report[name] for report in plain) for name in _SUMMED}
    steps: dict[str, dict[str, Any]] = {}
    for step in (step for report in plain for step in report["steps"]):
        total = steps.setdefault(step["predicate"], {"rows_in": 0, "rows_out": 0})
        total["rows_in"] += step["rows_in"]
        total["rows_out"] += step["rows_out"]
    counts["steps"] = [{"predicate": name, **rows} for name, rows in steps.items()]
    return {"reader": plain[0]["path"], "rows_out": counts["rows_selected"], **counts}


def _analyzed(context: datafusion.SessionContext, sql: str) -> dict[str, Any]:
    """Counts of DataFusion's Parquet reader; those it prints rounded stay rounded."""
    plan = context.sql(f"EXPLAIN ANALYZE {sql}").collect()
    text = "\n".join(str(cell) for batch in plan for cell in batch.column(1).to_pylist())
    counts: dict[str, Any] = {}
    for match in _PRUNED.finditer(text):
        total, left = _number(match, "total"), _number(match, "left")
        name = match["name"]
        counts[name] = counts.get(name, 0) + total - left
        if name == "row_groups_pruned_statistics":
            counts["row_groups_total"] = counts.get("row_groups_total", 0) + total
            full = 0 if match["full"] is None else _number(match, "full")
            counts["row_groups_fully_matched"] = counts.get("row_groups_fully_matched", 0) + full
        elif name == "page_index_pages_pruned":
            counts["pages_total"] = counts.get("pages_total", 0) + total
    counts["pages_pruned"] = counts.pop("page_index_pages_pruned", 0)
    for name in ("pushdown_rows_pruned", "row_groups_pruned_dynamic_filter", "bytes_scanned"):
        counts[name] = sum(
            _plain(found) for found in re.findall(rf"{name}=([\d.]+(?: [KMBT])?)", text)
        )
    counts["rows_out"] = sum(_plain(found) for found in _ROWS_OUT.findall(text))
    return counts


def _number(match: re.Match[str], name: str) -> int:
    return round(float(match[name]) * _UNITS[match[f"{name}_unit"]])


def _plain(text: str) -> int:
    number, _, unit = text.partition(" ")
    return round(float(number) * _UNITS[f" {unit}" if unit else None])
