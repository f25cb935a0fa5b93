"""`SessionContext`: DataFusion's, which sees each query before DataFusion does.

In: SQL. Out: DataFusion's own DataFrames.

1. DataFusion plans the query as it is: its errors, schemas and side effects are the answer to
   everything that is not a query over Parquet tables.
2. Each reference to such a table gets a name of its own, and DataFusion plans that text: what its
   optimizer pushes down to a name is what that reference may filter by (`engine.plan_scans`).
3. References on the late path become datasets with those filters inside; the query is planned a
   last time over them.
4. If the schema is not exactly that of step 1, the query of step 1 is the answer.

Invariant: a DataFrame is lazy: nothing but footers is read before it is collected.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import datafusion

from lm_datafusion.dataset import LateDataset, dataset
from lm_datafusion.engine.explanation import ReferencePlan, ScanExplanation
from lm_datafusion.engine.plan_scans import (
    common_filters,
    has_join,
    planned_scans,
    to_conjunct,
)
from lm_datafusion.errors import LateError
from lm_datafusion.metrics import ScanMetrics
from lm_datafusion.options import ScanOptions
from lm_datafusion.plan import ScanRequest
from lm_datafusion.predicate.literals import quote_identifier, quote_string
from lm_datafusion.scan import load_facts, plan_scan
from lm_datafusion.sql.statement import parse_query

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator

    from datafusion import DataFrame, RuntimeEnvBuilder, SessionConfig, SQLOptions

    from lm_datafusion.metrics import ScanReport
    from lm_datafusion.plan import RowGroupTask
    from lm_datafusion.sql.statement import Query

_names = itertools.count()
_FILE_GROUPS = re.compile(r"file_groups=\{\d+ groups?: \[(?P<entries>.*?)\]\}")
_BYTE_RANGE = re.compile(r":\d+\.\.\d+$")


class SessionContext(datafusion.SessionContext):
    """DataFusion's session; Parquet tables in it can be scanned late.

    Args:
        config: As for DataFusion.
        runtime: As for DataFusion.
        options: How tables are scanned; `path` says which reader serves them. `auto` leaves every
            table to DataFusion's own reader for now.
    """

    def __init__(
        self,
        config: SessionConfig | None = None,
        runtime: RuntimeEnvBuilder | None = None,
        *,
        options: ScanOptions | None = None,
    ) -> None:
        super().__init__(config, runtime)
        self._options = options or ScanOptions()
        self._tables: dict[str, str] = {}
        self._thread = threading.local()

    def register_parquet(
        self, name: str, path: str | pathlib.Path, *arguments: Any, **options: Any
    ) -> None:
        """Registers Parquet files as a table; arguments as for DataFusion.

        One file can be scanned late. Folders, globs and tables with options of their own are
        left to DataFusion, which lists files by other rules than a dataset does.
        """
        super().register_parquet(name, path, *arguments, **options)
        self._tables.pop(name, None)
        is_plain = not arguments and not any(value is not None for value in options.values())
        if is_plain and os.path.isfile(path) and os.fspath(path).endswith(".parquet"):
            self._tables[name] = os.path.abspath(path)

    def deregister_table(self, name: str) -> None:
        """Removes a table."""
        self._tables.pop(name, None)
        super().deregister_table(name)

    def sql(
        self,
        query: str,
        options: SQLOptions | ScanOptions | None = None,
        param_values: dict[str, Any] | None = None,
        **named_params: Any,
    ) -> DataFrame:
        """As DataFusion's `sql`; `options` may also be `ScanOptions` for this query."""
        scan_options, checks = self._options, None
        if isinstance(options, ScanOptions):
            scan_options = options
        else:
            checks = options
        native = super().sql(query, checks, param_values, **named_params)
        if scan_options.path in ("auto", "native") or named_params or param_values:
            return native
        found = self._tables_in(query)
        if not found or _loses_rows(native, scan_options):
            return native
        self._thread.reports = []
        return self._serve(found, native, scan_options)

    def explain_scan(self, query: str, options: ScanOptions | None = None) -> ScanExplanation:
        """What a query would read, in which order, and why; nothing is run."""
        native = super().sql(query)
        found = self._tables_in(query)
        scan_options = options or self._options
        if not found:
            return ScanExplanation(())
        if scan_options.path != "late":
            path, reason = "native", f"path={scan_options.path}"
            if _loses_rows(native, scan_options):
                reason = "filter pushdown under a join loses rows in DataFusion 55"
            elif scan_options.path == "native_pushdown":
                path = "native_pushdown"
            plans = [
                ReferencePlan(table=r.alias, path=path, reason=reason) for r in found.references
            ]
            return ScanExplanation(tuple(plans))
        with self._planned(found, scan_options) as (text, datasets):
            scans = planned_scans(super().sql(text).optimized_logical_plan())
            plans = [
                _explained(
                    found.references[index].alias,
                    late,
                    {name for scan in scans.get(table, []) for name in scan.columns},
                )
                for index, (table, late) in datasets.items()
            ]
        return ScanExplanation(tuple(plans))

    def scan_reports(self) -> list[ScanReport]:
        """Reports of this thread's last query, once it has run: one per partition scanned."""
        return list(getattr(self._thread, "reports", []))

    def _tables_in(self, query: str) -> Query | None:
        parsed = parse_query(query)
        names = {reference.name[-1] for reference in parsed.references} if parsed else set()
        known = names & self._tables.keys()
        if not known or not all(map(self._is_registered_file, known)):
            return None
        return parsed

    def _is_registered_file(self, name: str) -> bool:
        """Whether a name still leads to the file that was registered under it.

        SQL and the catalog can put another table in its place without our seeing it, so
        DataFusion's own plan is asked.
        """
        if self.catalog().schema().table(name).kind != "physical":
            return False
        plan = super().table(name).execution_plan().display_indent()
        groups = _FILE_GROUPS.search(plan)
        if groups is None or "file_type=parquet" not in plan:
            return False
        # A large file is cut into byte ranges: the path, a colon, and the range.
        entries = groups["entries"].replace("[", "").replace("]", "").split(", ")
        path = self._tables[name].lstrip(os.sep)
        return all(_BYTE_RANGE.sub("", entry) == path for entry in entries)

    def _serve(self, query: Query, native: DataFrame, options: ScanOptions) -> DataFrame:
        try:
            with self._planned(query, options) as (text, _):
                served = super().sql(text)
        except LateError:
            return native
        return served if served.schema() == native.schema() else native

    @contextmanager
    def _planned(
        self, query: Query, options: ScanOptions
    ) -> Iterator[tuple[str, dict[int, tuple[str, LateDataset]]]]:
        """The query's text over tables of its own, which are there inside this block only."""
        prefix = f"__lm_{next(_names)}"
        names = {
            index: f"{prefix}_{index}"
            for index, reference in enumerate(query.references)
            if len(reference.name) == 1 and reference.name[0] in self._tables
        }
        text = query.renamed(names)
        try:
            for index, name in names.items():
                self._register_native(name, self._tables[query.references[index].name[0]], options)
            datasets = self._late_datasets(query, text, names, options)
            for name, late in datasets.values():
                super().deregister_table(name)
                super().register_dataset(name, late)
            yield text, datasets
        finally:
            for name in names.values():
                super().deregister_table(name)

    def _register_native(self, name: str, path: str, options: ScanOptions) -> None:
        pushed = str(options.path == "native_pushdown").lower()
        super().sql(
            f"CREATE EXTERNAL TABLE {quote_identifier(name)} STORED AS PARQUET"
            f" LOCATION {quote_string(path)} OPTIONS ('format.pushdown_filters' '{pushed}',"
            f" 'format.reorder_filters' '{pushed}')"
        )

    def _late_datasets(
        self, query: Query, text: str, names: dict[int, str], options: ScanOptions
    ) -> dict[int, tuple[str, LateDataset]]:
        if options.path != "late":
            return {}
        scans = planned_scans(super().sql(text).optimized_logical_plan())
        views = options.with_changes(string_type="string_view")
        datasets = {}
        for index, name in names.items():
            if name not in scans:
                continue
            late = dataset(self._tables[query.references[index].name[0]], options=views)
            found = [to_conjunct(e, name, late.schema) for e in common_filters(scans[name])]
            late = late.with_conjuncts(tuple(c for c in found if c is not None))
            datasets[index] = (name, late.with_reports(self._thread_reports()))
        return datasets

    def _thread_reports(self) -> list[ScanReport]:
        if not hasattr(self._thread, "reports"):
            self._thread.reports = []
        return self._thread.reports


def _loses_rows(native: DataFrame, options: ScanOptions) -> bool:
    """Whether DataFusion's filter pushdown is not to be trusted with a query.

    DataFusion 55 loses rows of outer joins once its Parquet reader takes filters;
    `tests/property/test_statements.py` has the query.
    """
    return options.path == "native_pushdown" and has_join(native.optimized_logical_plan())


def _explained(alias: str, late: LateDataset, columns: set[str]) -> ReferencePlan:
    metrics = ScanMetrics()
    wanted = tuple(name for name in late.schema.names if name in columns)
    request = ScanRequest(conjuncts=late.conjuncts, columns=wanted)
    plan = plan_scan(late.table, request, late.options, metrics)
    report = metrics.report()
    rows = sum(task.access.row_count for task in plan.tasks)
    kept = math.prod(step.selectivity for step in plan.row_filter.steps)
    return ReferencePlan(
        table=alias,
        path="late",
        reason=f"path={late.options.path}",
        filters=tuple(str(step.conjunct) for step in plan.row_filter.steps),
        columns=wanted,
        row_groups_total=report.row_groups_total,
        row_groups_left=len(plan.tasks),
        rows_total=report.rows_total,
        rows_estimated=round(rows * kept),
        bytes_estimated=sum(_column_bytes(task, late) for task in plan.tasks),
    )


def _column_bytes(task: RowGroupTask, late: LateDataset) -> int:
    """Compressed bytes of all columns in play in one row group."""
    facts = load_facts(late.table.storage, task.file.version.path, late.options)
    return sum(
        chunk.byte_range.length
        for column in task.file.columns.values()
        for chunk in facts.chunks_of(task.access.row_group, column)
    )
