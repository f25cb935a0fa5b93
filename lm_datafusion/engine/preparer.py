"""What is made ready for a statement that runs again.

In: its frame, its text, and how it was routed. Out: plans, the one expected to be the fastest
first; none if the statement is to be served each time anew.

Where filter pushdown could pay, there are two plans, with it and without it; where our own scan
could, that is a third. `engine.trial` finds out. Of a plan of DataFusion's that cannot be prepared
(`engine.prepared`) the frame is kept; so are frames over our own scan.

Invariant: each plan gives the rows of the frame, as long as names and files stay what they are.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from lm_datafusion.engine.choice import has_delta_pages, late_seconds
from lm_datafusion.engine.parquet_scan import scanned_files
from lm_datafusion.engine.plan_scans import is_named, planned_scans
from lm_datafusion.engine.prepared import can_be_tried, prepare
from lm_datafusion.engine.routing import CHANGES_BY_ITSELF
from lm_datafusion.engine.run_reports import RunReports
from lm_datafusion.engine.tables import same_schema
from lm_datafusion.engine.trial import PlannedAnew, ReadyPlan
from lm_datafusion.scan import load_facts
from lm_datafusion.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Callable

    import datafusion
    from datafusion import DataFrame

    from lm_datafusion.dataset import LateDataset
    from lm_datafusion.engine.frame import Statement
    from lm_datafusion.engine.own_tables import OwnTables
    from lm_datafusion.engine.routing import RoutedQuery, RoutedReference
    from lm_datafusion.engine.tables import Tables
    from lm_datafusion.formats.parquet.footer import FileFacts
    from lm_datafusion.options import ScanOptions

    Route = Callable[[DataFrame, ScanOptions | None, Statement], RoutedQuery]

_MEASURED = "tried for a statement that runs again: the fastest reader goes on"


@dataclass(slots=True, eq=False, kw_only=True)
class ScannedAgain(ReadyPlan):
    """A query over our own scan. Its frames are kept: one for as many runs as there are at a time.

    Only DataFusion's plan of the query is kept. The scan looks at its files each time, and is
    planned for them as they are then.
    """

    routed: RoutedQuery
    statement: Statement
    own_tables: OwnTables
    _idle: list[_PlannedScan] = field(default_factory=list, repr=False)

    def planned(self, context: datafusion.SessionContext) -> _PlannedScan:
        """The query, planned; names of its own keep runs at the same time apart."""
        routed = self.routed.renamed()
        with self.own_tables.of(routed.references, RunReports(routed.references)) as scanned:
            frame = self.statement.planned_as(routed.text or "", context)
        # Optimized as far as DataFusion gets, as it does for PREPARE: the next time is shorter.
        plan = frame.optimized_logical_plan()
        return _PlannedScan(context.create_dataframe_from_logical_plan(plan), scanned)

    def _collect(self, context: datafusion.SessionContext, run: RunReports) -> list[pa.RecordBatch]:
        try:
            scan = self._idle.pop()
        except IndexError:
            scan = self.planned(context)
        for place, dataset in scan.scanned.items():
            dataset.report_to(run.of(place))
        batches = scan.frame.collect()
        self._idle.append(scan)
        return batches


class _PlannedScan(NamedTuple):
    """A frame, and by reference the datasets that it scans."""

    frame: DataFrame
    scanned: dict[int, LateDataset]


class Preparer:
    """Makes statements of one session ready.

    Args:
        context: The session.
        tables: Its catalog.
        own_tables: Puts names of their own into it.
        route: Gives each reference of a statement a path.
    """

    def __init__(
        self,
        context: datafusion.SessionContext,
        tables: Tables,
        own_tables: OwnTables,
        route: Route,
    ) -> None:
        self._context = context
        self._tables = tables
        self._own_tables = own_tables
        self._route = route

    def prepare(
        self, native: DataFrame, statement: Statement, routed: RoutedQuery
    ) -> list[ReadyPlan]:
        """The plans of a statement."""
        try:
            if not self._can_repeat(native) or any(map(_has_constant_float, routed.references)):
                return []
            if not routed.is_read_by_datafusion:
                again = self._scanned_again(native, statement, routed)
                return [] if again is None else [again]
            choices = (routed, *self._others(native, statement, routed))
            made = [self._made_ready(native, choice, statement) for choice in choices]
        except Exception:  # noqa: BLE001 the frame itself says what is wrong, if anything
            return []
        plans = [plan for plan in made if plan is not None]
        with contextlib.suppress(Exception):  # it is an offer, and the others stand without it
            plans += filter(None, [self._late_offer(native, statement, routed)])
        # Where there is nothing to try, a plan that is not ready is what happens anyway.
        return [] if len(plans) == 1 and isinstance(plans[0], PlannedAnew) else plans

    def _can_repeat(self, native: DataFrame) -> bool:
        """Whether a frame's plan means the same at another time: all its tables are files."""
        names = planned_scans(native.optimized_logical_plan())
        tables = [self._tables.known_table(name) for name in names]
        return (
            not CHANGES_BY_ITSELF.search(native.logical_plan().display_indent())
            and not self._tables.has_own_function(native)
            and all(table is not None and table.is_unchanged for table in tables)
        )

    def _others(
        self, native: DataFrame, statement: Statement, routed: RoutedQuery
    ) -> list[RoutedQuery]:
        """The same statement by the path that might be faster, if any might."""
        paths = {reference.route.path for reference in routed.references}
        is_free = all(reference.route.options.path == "auto" for reference in routed.references)
        if not is_free or not any(map(_reads_more_than_filters, routed.references)):
            return []
        if any(has_delta_pages(r.table, r.columns, r.route.options) for r in routed.references):
            return []
        other = "native" if paths == {"native_pushdown"} else "native_pushdown"
        options = routed.references[0].route.options.with_changes(path=other)
        found = self._route(native, options, statement)
        is_other = {reference.route.path for reference in found.references} == {other}
        return [found.because(_MEASURED)] if is_other else []

    def _late_offer(
        self, native: DataFrame, statement: Statement, routed: RoutedQuery
    ) -> ReadyPlan | None:
        """The same statement by our own scan, if that might be faster."""
        if len(routed.references) != 1 or routed.references[0].route.options.path != "auto":
            return None
        (reference,) = routed.references
        options = reference.route.options.with_changes(path="late")
        expected_s = late_seconds(reference.table, reference.columns, reference.filters, options)
        if math.isinf(expected_s) or not can_be_tried(native.execution_plan()):
            return None
        found = self._route(native, options, statement).because(_MEASURED)
        if any(r.late is None for r in found.references):
            return None
        return self._scanned_again(native, statement, found, expected_s)

    def _scanned_again(
        self,
        native: DataFrame,
        statement: Statement,
        routed: RoutedQuery,
        expected_s: float = 0.0,
    ) -> ReadyPlan | None:
        """A statement over our own scan; None if it takes more than one query, or a choice."""
        is_one = routed.text is not None and routed.phases is None
        if not is_one or routed.may_give_up or routed.is_for_once:
            return None
        plan = ScannedAgain(
            references=routed.references,
            expected_s=expected_s,
            routed=routed,
            statement=statement,
            own_tables=self._own_tables,
        )
        return plan if same_schema(plan.planned(self._context).frame, native) else None

    def _made_ready(
        self, native: DataFrame, routed: RoutedQuery, statement: Statement
    ) -> ReadyPlan | None:
        """A plan that is ready, or its reader settled; None if neither can be."""
        references = routed.references
        with self._own_tables.of(references, RunReports(references)):
            text = routed.text
            served = native if text is None else statement.planned_as(text, self._context)
            if not same_schema(served, native):
                return None
            plan = prepare(self._context, served, references)
            if plan is None and not self._can_be_tried(served, references):
                return None
        return plan or PlannedAnew(references=references, frame=served)

    def _can_be_tried(self, frame: DataFrame, references: tuple[RoutedReference, ...]) -> bool:
        """Whether a frame reads the files of its references, and gives the same rows each time."""
        plan = frame.execution_plan()
        if not can_be_tried(plan):
            return False
        found = scanned_files(plan, self._context)
        wanted = {file for reference in references for file in reference.table.files}
        return None not in found and {file for files in found for file in files or ()} == wanted


def _reads_more_than_filters(reference: RoutedReference) -> bool:
    """Whether there are columns that rows which fail a filter need not be read of."""
    said = " ".join(map(str, reference.filters))
    return bool(reference.filters) and not all(is_named(c, said) for c in reference.columns)


def _has_constant_float(reference: RoutedReference) -> bool:
    """Whether DataFusion's reader takes a column of floats for a constant, in some file.

    Bounds leave NaN out, so that it may not be one, and readers differ. A kept plan would change
    the answer.
    """
    schema = reference.table.schema
    floats = [n for n in reference.columns if pa.types.is_floating(schema.field(n).type)]
    return any(
        _is_constant(load_facts(LocalStorage(), file.path, reference.route.options), name)
        for file in reference.table.files
        for name in floats
    )


def _is_constant(facts: FileFacts, name: str) -> bool:
    """Whether the bounds of a column are one value."""
    leaf = facts.leaf_index((name,))
    groups = range(facts.num_row_groups)
    found = [facts.chunk(group, leaf).statistics for group in groups] if leaf is not None else []
    bounds = [bound for s in found if s and s.has_min_max for bound in (s.min, s.max)]
    return bool(bounds) and min(bounds) == max(bounds)
