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

import threading
from typing import TYPE_CHECKING, Any

from lm_datafusion.engine.choose import Choice, choose, only_native
from lm_datafusion.engine.cost import is_short
from lm_datafusion.engine.explain import explain_statement
from lm_datafusion.engine.offer import native_offer
from lm_datafusion.engine.paths.late import FIRST_RUN, NO_FILTER
from lm_datafusion.engine.plan_cache import PlanCache, PlannedQuery
from lm_datafusion.engine.query import CATALOG_CHANGED, Query, table_uses, why_only_the_frame
from lm_datafusion.engine.recovery import attempt, watched_streams
from lm_datafusion.engine.shape import QueryShape
from lm_datafusion.engine.sibling import Sibling
from lm_datafusion.engine.watch import Run
from lm_datafusion.errors import FileChangedError, LateError

if TYPE_CHECKING:
    from collections.abc import Callable

    import datafusion
    from datafusion import DataFrame

    from lm_datafusion.engine.catalog import SessionCatalog
    from lm_datafusion.engine.frame import LateDataFrame
    from lm_datafusion.engine.offer import Offer
    from lm_datafusion.engine.plan_cache import Key
    from lm_datafusion.metrics import ScanReport
    from lm_datafusion.options import ScanOptions

_STREAMS = frozenset({"execute_stream", "execute_stream_partitioned", "__arrow_c_stream__"})
# Streams that cannot begin again on another frame: their consumers hold on to them.
_HANDED_OUT = _STREAMS - {"execute_stream"}
# The first may be DataFusion's; the second measures our filters.
RUNS_THAT_MEASURE = 2


class QueryServer:
    """Serves the frames of one session.

    `registered` is where errors of datasets go that the user registered.
    """

    def __init__(self, catalog: SessionCatalog, options: ScanOptions) -> None:
        self.catalog = catalog
        self.registered = Run(native_offer((), ""))
        self._options = options
        self._plans = PlanCache()
        self._thread = threading.local()

    def for_session(self, context: datafusion.SessionContext) -> QueryServer:
        """A server for another session that sees the same catalog."""
        server = QueryServer(self.catalog.shared_with(context), self._options)
        server.registered = self.registered
        return server

    def reports(self) -> list[ScanReport]:
        """The reports of this thread's last run."""
        run: Run | None = getattr(self._thread, "run", None)
        return [] if run is None else run.merged()

    def begin(self, run: Run | None) -> None:
        """Makes the reports of this thread those of a run."""
        self._thread.run = run

    def is_kept(self, text: str, options: ScanOptions | None) -> bool:
        """Whether a plan is kept for a statement, so that DataFusion need not plan it again."""
        return self.catalog.can_keep_plans and self._plans.has(
            (text, options), self.catalog.version
        )

    def plan(self, frame: LateDataFrame) -> DataFrame:
        """The frame that would run instead."""
        explained = explain_statement(frame, self)
        return self._planned(frame, runs=False).frame if explained is None else explained

    def run(self, frame: LateDataFrame, action: Callable[[DataFrame], Any], method: str) -> Any:
        """What a method gives on the frame that runs; on DataFusion's own if that one fails."""
        explained = explain_statement(frame, self)
        if explained is not None:
            return action(explained)
        can_repeat = not method.startswith("write_") and method not in _HANDED_OUT
        planned = self._kept(frame, can_repeat=can_repeat)
        if planned is None:
            planned = self._planned(frame, runs=True, can_repeat=can_repeat)
        offer = planned.offer
        run: Run = self.registered if offer.is_native else self._thread.run

        def instead(error: Exception) -> DataFrame:
            failed = f"{offer.name} failed: {error}"
            native = native_offer([access.use for access in offer.tables], failed)
            self.begin(Run(native))
            self._keep(frame, PlannedQuery(native, frame.native, key=planned.key))
            return frame.native

        may_begin_again = None if offer.is_native else instead
        found = attempt(action, planned.frame, run.errors, may_begin_again if can_repeat else None)
        if method not in _STREAMS and self._thread.run.offer is offer:
            self._keep(frame, planned)
        return watched_streams(found, run.errors, may_begin_again)

    def choose(
        self, frame: LateDataFrame, *, runs: bool = False, can_repeat: bool = True
    ) -> Choice:
        """What every path offers for a frame.

        If it runs now, the tables of a new query that no path of ours could serve are not even
        listed, which takes longer than planning it.
        """
        query = None
        try:
            shape = QueryShape.of(frame.native)
            text = shape.printed if frame.statement is None else frame.statement.text
            is_new = not self._plans.runs(text)
            if runs:
                self._plans.note_run(text)
            if runs and is_new and shape.reads_every_row:
                return only_native(Query(shape, ()), NO_FILTER)
            uses = table_uses(frame, shape, self.catalog, self._options)
            query = Query(shape, uses, is_new=is_new, can_repeat=can_repeat)
            reason = why_only_the_frame(frame, query, self.catalog)
            if reason:
                return only_native(query, reason)
            is_auto = all(
                use.options.path == "auto" and use.table.has_native_reader for use in uses
            )
            if runs and is_new and is_auto and all(map(is_short, uses)):
                return only_native(query, FIRST_RUN, is_guess=True)
            return choose(query, self.catalog)
        except Exception as error:  # noqa: BLE001 the frame itself says what is wrong, if anything
            if query is None:
                return Choice(None, (native_offer((), str(error)),))
            return only_native(query, str(error))

    def _kept(self, frame: LateDataFrame, *, can_repeat: bool) -> PlannedQuery | None:
        """The plan of a statement that has run; the reports of this thread are those of the run."""
        key = self._key(frame)
        planned = None if key is None else self._plans.take(key, frame.version)
        if planned is None or (planned.offer.most_rows is not None and not can_repeat):
            return None
        if not planned.is_current:
            return None
        run = Run(planned.offer)
        self.begin(run)
        for dataset in planned.datasets.values():
            dataset.observe(run)
        return planned

    def _planned(
        self, frame: LateDataFrame, *, runs: bool, can_repeat: bool = True
    ) -> PlannedQuery:
        """Plans a run; the reports of this thread are those of the run."""
        choice = self.choose(frame, runs=runs, can_repeat=can_repeat)
        offer, shape = choice.best, choice.shape
        key = None if shape is None else self._key_to_keep(frame, offer, shape)
        try:
            if shape is not None and not offer.is_native:
                return self._over_datasets(frame, offer, key, runs=runs)
        except FileChangedError:
            raise
        except Exception as error:  # noqa: BLE001 the frame itself says what is wrong, if anything
            offer = native_offer([access.use for access in offer.tables], str(error))
        native = frame.native
        if key is not None and shape is not None:
            # Choosing needed the optimized plan anyway.
            native = self._optimized(shape, native) or native
        self.begin(Run(offer, self._list_later(frame, choice)))
        return PlannedQuery(offer, native, key=key)

    def _over_datasets(
        self, frame: LateDataFrame, offer: Offer, key: Key | None, *, runs: bool
    ) -> PlannedQuery:
        """The query, planned over the datasets of an offer; raises what DataFusion raises."""
        run = Run(offer)
        datasets = run.watched(offer.datasets(runs=runs))
        served = Sibling(self.catalog, datasets).plan(frame)
        shape = QueryShape.of(served)
        if not _has_schema_of(served, frame.native):
            raise LateError("the schema would not be the same")
        context = self.catalog.context
        optimized = self._optimized(shape, served)
        for access in offer.tables:
            if access.late is not None and access.use.applies_all_of(shape):
                datasets[access.use.name].applies_all = True
        if not self.catalog.is_now(frame.version):
            raise LateError(CATALOG_CHANGED)
        self.begin(run)
        made = optimized or context.create_dataframe_from_logical_plan(shape.logical)
        return PlannedQuery(offer, made, datasets, key)

    def _optimized(self, shape: QueryShape, frame: DataFrame) -> DataFrame | None:
        """A frame of an optimized plan; None if it gives other types or nullability."""
        made = self.catalog.context.create_dataframe_from_logical_plan(shape.plan)
        return made if _has_schema_of(made, frame) else None

    def _key(self, frame: LateDataFrame) -> Key | None:
        """What tells a statement apart; None for a frame whose plan is not kept."""
        statement = frame.statement
        if statement is None or statement.has_params or not self.catalog.can_keep_plans:
            return None
        return (statement.text, frame.scan_options) if self.catalog.is_now(frame.version) else None

    def _key_to_keep(self, frame: LateDataFrame, offer: Offer, shape: QueryShape) -> Key | None:
        """The key of a statement whose optimized plan means the same now and the next time."""
        is_whole = len(offer.tables) == len(shape.scans) > 0
        is_lasting = is_whole and shape.is_repeatable
        if not is_lasting or self.catalog.calls_user_function(shape.printed):
            return None
        return self._key(frame)

    def _keep(self, frame: LateDataFrame, planned: PlannedQuery) -> None:
        """Keeps a plan; a guess only when runs measure no more.

        A step that few rows reach, or that statistics decide, stays a guess for ever.
        """
        key = planned.key
        if key is None or frame.version is None or self._key(frame) is None:
            return
        if not planned.offer.is_guess or self._plans.runs(key[0]) > RUNS_THAT_MEASURE:
            self._plans.put(key, frame.version, planned)

    def _list_later(self, frame: LateDataFrame, choice: Choice) -> Callable[[], Offer] | None:
        """Finds the tables of a query whose choice did not depend on them."""
        shape, reason = choice.shape, choice.best.reason
        if shape is None or choice.best.tables:
            return None
        return lambda: native_offer(table_uses(frame, shape, self.catalog, self._options), reason)


def _has_schema_of(frame: DataFrame, other: DataFrame) -> bool:
    return frame.schema().equals(other.schema(), check_metadata=True)
