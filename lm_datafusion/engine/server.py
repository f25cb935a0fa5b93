"""What runs when a frame runs.

In: a `LateDataFrame`. Out: its rows, from the cheapest offer.

1. One look at DataFusion's optimized plan gives the shape of the query (`shape`).
2. Every access path looks at the shape and offers, or declines (`choose`, `paths`).
3. The best offer's datasets stand for their tables in a sibling session, which plans the user's own
   query over them (`sibling`). DataFusion's own offer is the user's own frame.
4. A statement that runs again finds its plan in the cache (`plan_cache`).

Invariant: where the schema is not exactly that of the user's frame, or anything of ours fails, the
user's own frame runs.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from lm_datafusion.engine.choose import Choice, choose, only_native
from lm_datafusion.engine.cost import is_short
from lm_datafusion.engine.explain import explain_frame, explain_statement
from lm_datafusion.engine.paths import native
from lm_datafusion.engine.paths.late import FIRST_RUN, NO_FILTER
from lm_datafusion.engine.plan_cache import PlanCache, PlannedQuery
from lm_datafusion.engine.query import CATALOG_CHANGED, Query, table_uses, why_only_the_frame
from lm_datafusion.engine.recovery import attempt, watched, watched_streams
from lm_datafusion.engine.run_reports import RunReports
from lm_datafusion.engine.shape import QueryShape
from lm_datafusion.engine.sibling import Sibling
from lm_datafusion.errors import FileChangedError, LateError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import datafusion
    import pyarrow.dataset as ds
    from datafusion import DataFrame

    from lm_datafusion.engine.catalog import SessionCatalog
    from lm_datafusion.engine.explanation import ScanExplanation
    from lm_datafusion.engine.frame import LateDataFrame
    from lm_datafusion.engine.offer import Offer
    from lm_datafusion.engine.parquet_table import TableName
    from lm_datafusion.engine.plan_cache import Key
    from lm_datafusion.metrics import ScanReport
    from lm_datafusion.options import ScanOptions

_STREAMS = frozenset({"execute_stream", "execute_stream_partitioned", "__arrow_c_stream__"})
# Streams that cannot begin again on another frame: their consumers hold on to them.
_HANDED_OUT = _STREAMS - {"execute_stream"}
_ERRORS_KEPT = 16
# The first may be DataFusion's; the second measures our filters.
RUNS_THAT_MEASURE = 2


class QueryServer:
    """Serves the frames of one session.

    Args:
        catalog: What its names mean.
        options: How tables are scanned, unless a table or a query says otherwise.
    """

    def __init__(self, catalog: SessionCatalog, options: ScanOptions) -> None:
        self.catalog = catalog
        self._options = options
        self._plans = PlanCache()
        self._thread = threading.local()
        # What scans of datasets raised that the user registered.
        self.errors: deque[Exception] = deque(maxlen=_ERRORS_KEPT)

    def for_session(self, context: datafusion.SessionContext) -> QueryServer:
        """A server for another session that sees the same catalog."""
        return QueryServer(self.catalog.shared_with(context), self._options)

    def reports(self) -> list[ScanReport]:
        """The reports of this thread's last run."""
        run: RunReports | None = getattr(self._thread, "run", None)
        return [] if run is None else run.merged()

    def is_kept(self, text: str, options: ScanOptions | None) -> bool:
        """Whether a plan is kept for a statement, so that DataFusion need not plan it again."""
        return not self.catalog.is_shared and self._plans.has((text, options), self.catalog.version)

    def explain(self, frame: LateDataFrame) -> ScanExplanation:
        """How the frame would be served."""
        return explain_frame(frame, self)

    def plan(self, frame: LateDataFrame) -> DataFrame:
        """The frame that would run instead."""
        explained = explain_statement(frame, self)
        return self._start(frame, runs=False).frame if explained is None else explained

    def begin(self, run: RunReports | None) -> None:
        """Makes the reports of this thread those of a run."""
        self._thread.run = run

    def run(self, frame: LateDataFrame, action: Callable[[DataFrame], Any], method: str) -> Any:
        """What an action gives on the frame that runs; on DataFusion's own if that one fails."""
        explained = explain_statement(frame, self)
        if explained is not None:
            return action(explained)
        can_repeat = not method.startswith("write_") and method not in _HANDED_OUT
        planned = self._start(frame, can_repeat=can_repeat)
        found = self._attempt(frame, planned, action, can_repeat=can_repeat)
        if method not in _STREAMS and self._thread.run.offer is planned.offer:
            self._keep(frame, planned)
        return found

    def _start(
        self, frame: LateDataFrame, *, runs: bool = True, can_repeat: bool = True
    ) -> PlannedQuery:
        """Plans a run, or finds its plan; the reports of this thread are those of the run.

        Args:
            frame: What the user made.
            runs: Whether it runs now; if not, nothing is read for its plan.
            can_repeat: Whether another frame can run if this one gives up.
        """
        kept = self._kept(frame, can_repeat=can_repeat) if runs else None
        if kept is not None:
            run = self._thread.run = RunReports(kept.offer)
            for name, dataset in kept.datasets.items():
                dataset.observe(run.of(name), run.errors)
            return kept
        choice = self.choose(frame, runs=runs, can_repeat=can_repeat)
        if runs and choice.shape is not None:
            self._plans.note_run(_printed(frame, choice.shape))
        try:
            return self._planned(frame, choice, runs=runs)
        except FileChangedError:
            raise
        except Exception as error:  # noqa: BLE001 the frame itself says what is wrong, if anything
            offer = choice.best.as_native(str(error))
        self._thread.run = RunReports(offer)
        return PlannedQuery(offer=offer, frame=frame.native, shape=choice.shape)

    def _planned(self, frame: LateDataFrame, choice: Choice, *, runs: bool) -> PlannedQuery:
        """The best offer as a frame.

        Raises:
            Exception: It cannot be planned; DataFusion has classes of its own.
        """
        offer = choice.best
        if offer.is_native:
            self._thread.run = RunReports(offer, self._list_later(frame, choice))
            planned = PlannedQuery(offer=offer, frame=frame.native, shape=choice.shape)
            return self._optimized(planned) if self._can_keep(frame, planned) else planned
        run = RunReports(offer)
        chosen = offer.datasets() if runs else offer.previews()
        datasets = watched(chosen, run.of, run.errors, offer.most_rows)
        served = self.sibling(datasets).plan(frame)
        shape = QueryShape(served.logical_plan(), served.optimized_logical_plan())
        if not _has_schema_of(served, frame.native):
            raise LateError("the schema would not be the same")
        context = self.catalog.context
        optimized = context.create_dataframe_from_logical_plan(shape.plan)
        if not _has_schema_of(optimized, served):
            # Optimizing a plan may change types and nullability of what it gives.
            optimized = context.create_dataframe_from_logical_plan(shape.logical)
        for access in offer.tables:
            if access.late is not None and shape.is_filtered_as(access.use):
                datasets[access.use.name].applies_all()
        if not self.catalog.is_now(frame.version):
            raise LateError(CATALOG_CHANGED)
        self._thread.run = run
        return PlannedQuery(
            offer=offer,
            frame=optimized,
            shape=choice.shape,
            datasets=datasets,
        )

    def sibling(self, datasets: Mapping[TableName, ds.Dataset]) -> Sibling:
        """A session in which names mean datasets."""
        catalog = self.catalog
        return Sibling(catalog, {catalog.full_name(name): d for name, d in datasets.items()})

    def _attempt(
        self,
        frame: LateDataFrame,
        planned: PlannedQuery,
        action: Callable[[DataFrame], Any],
        *,
        can_repeat: bool,
    ) -> Any:
        run: RunReports = self._thread.run
        if planned.offer.is_native:
            found = attempt(action, planned.frame, self.errors, None)
            return watched_streams(found, self.errors, None)

        def instead(error: Exception) -> DataFrame:
            native_run = self._thread.run = run.as_native(f"{planned.offer.name} failed: {error}")
            self._keep(frame, PlannedQuery(native_run.offer, frame.native, planned.shape))
            return frame.native

        found = attempt(action, planned.frame, run.errors, instead if can_repeat else None)
        return watched_streams(found, run.errors, instead)

    def _key(self, frame: LateDataFrame) -> Key | None:
        """What tells a statement apart; None for a frame whose plan is not kept."""
        statement = frame.statement
        is_plain = statement is not None and not statement.has_params
        if statement is None or not is_plain or not self.catalog.can_keep_plans:
            return None
        return (statement.text, frame.scan_options) if self.catalog.is_now(frame.version) else None

    def _kept(self, frame: LateDataFrame, *, can_repeat: bool) -> PlannedQuery | None:
        key = self._key(frame)
        planned = None if key is None else self._plans.take(key, frame.version)
        if planned is None or (planned.offer.most_rows is not None and not can_repeat):
            return None
        if not all(a.use.table.is_current for a in planned.offer.tables):
            return None
        return planned

    def _keep(self, frame: LateDataFrame, planned: PlannedQuery) -> None:
        key, shape = self._key(frame), planned.shape
        if key is None or shape is None or frame.version is None:
            return
        if planned.is_kept:
            self._plans.put(key, frame.version, planned)
            return
        # A step that few rows reach, or that statistics decide, stays a guess for ever.
        runs = self._plans.runs(_printed(frame, shape))
        is_settled = not planned.offer.is_guess or runs > RUNS_THAT_MEASURE
        if is_settled and self._can_keep(frame, planned):
            self._plans.put(key, frame.version, dataclasses.replace(planned, is_kept=True))

    def _can_keep(self, frame: LateDataFrame, planned: PlannedQuery) -> bool:
        """Whether an optimized plan means what the query means, now and the next time."""
        shape = planned.shape
        if self._key(frame) is None or shape is None or not shape.is_repeatable:
            return False
        is_whole = len(planned.offer.tables) == len(shape.scans) > 0
        return is_whole and not self.catalog.calls_user_function(shape.printed)

    def _optimized(self, planned: PlannedQuery) -> PlannedQuery:
        """DataFusion's own frame, optimized already: choosing needed that plan anyway."""
        assert planned.shape is not None
        made = self.catalog.context.create_dataframe_from_logical_plan(planned.shape.plan)
        # Optimizing a plan may change types and nullability of what it gives.
        is_same = _has_schema_of(made, planned.frame)
        return dataclasses.replace(planned, frame=made) if is_same else planned

    def _list_later(self, frame: LateDataFrame, choice: Choice) -> Callable[[], Offer] | None:
        """Finds the tables of a query whose choice did not depend on them."""
        shape, reason = choice.shape, choice.best.reason
        if shape is None or choice.best.tables:
            return None
        return lambda: native.offer(table_uses(frame, shape, self.catalog, self._options), reason)

    def choose(
        self, frame: LateDataFrame, *, runs: bool = False, can_repeat: bool = True
    ) -> Choice:
        """What every path offers for a frame.

        Args:
            frame: What the user made.
            runs: Whether it runs now; then the tables of a new query that no path of ours could
                serve are not even listed, which takes longer than planning it.
            can_repeat: Whether another frame can run if this one gives up.
        """
        query = None
        try:
            native_frame = frame.native
            shape = QueryShape(native_frame.logical_plan(), native_frame.optimized_logical_plan())
            is_new = not self._plans.runs(_printed(frame, shape))
            if runs and is_new and shape.reads_every_row:
                return only_native(Query(shape, (), is_new=True), NO_FILTER)
            query = Query(
                shape,
                table_uses(frame, shape, self.catalog, self._options),
                is_new=is_new,
                can_repeat=can_repeat,
            )
            reason = why_only_the_frame(frame, query, self.catalog)
            if reason:
                return only_native(query, reason)
            if runs and is_new and _is_short(query):
                return Choice(query, (native.offer(query.uses, FIRST_RUN, is_guess=True),))
            return choose(query, self.catalog)
        except Exception as error:  # noqa: BLE001 the frame itself says what is wrong, if anything
            return only_native(query, str(error))


def _printed(frame: LateDataFrame, shape: QueryShape) -> str:
    """What tells a query from others, well enough to know whether it has run before."""
    return shape.printed if frame.statement is None else frame.statement.text


def _is_short(query: Query) -> bool:
    """Whether DataFusion is done before our paths would know what to offer."""
    return all(
        use.options.path == "auto" and use.table.has_native_reader and is_short(use)
        for use in query.uses
    )


def _has_schema_of(frame: DataFrame, other: DataFrame) -> bool:
    return frame.schema().equals(other.schema(), check_metadata=True)
