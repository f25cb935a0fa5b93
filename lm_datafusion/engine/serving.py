"""What runs when a frame runs.

In: a `LateDataFrame`. Out: a frame of DataFusion's with the same rows, names and types.

1. The frame's query is taken as its text, or written as text by DataFusion; written text is used
   only if DataFusion plans it to the frame's own plan, over the same files.
2. `engine.routing` gives each reference to a Parquet table a path.
3. Names of their own are put into the catalog, DataFusion plans the text over them, and they are
   taken out again: a plan holds on to its tables.

Invariant: where the schema is not exactly that of the frame, or anything of ours fails, the frame
itself runs.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict, deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from datafusion import DataFrame, SQLOptions

from lm_datafusion.engine.explanation import (
    ScanExplanation,
    explain_reference,
    plan_rows,
    with_row,
)
from lm_datafusion.engine.first_groups import FirstGroups
from lm_datafusion.engine.frame import (
    NO_EPOCH,
    LateDataFrame,
    Statement,
    rebuilt,
    sources_of,
)
from lm_datafusion.engine.own_tables import OwnTables
from lm_datafusion.engine.parquet_scan import scanned_files
from lm_datafusion.engine.plan_scans import planned_scans, scanned_columns
from lm_datafusion.engine.preparer import Preparer
from lm_datafusion.engine.recovery import attempt, watched_streams
from lm_datafusion.engine.repeats import Repeats
from lm_datafusion.engine.routing import (
    NO_TEXT,
    TELLS_TIME,
    RoutedQuery,
    Router,
)
from lm_datafusion.engine.run_reports import RunReports
from lm_datafusion.engine.tables import Tables, dotted, same_plan, same_schema, unparsed
from lm_datafusion.errors import FileChangedError, GaveUpError, LateError
from lm_datafusion.predicate.literals import quote_identifier
from lm_datafusion.sql.statement import split_explain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import datafusion
    from datafusion import LogicalPlan

    from lm_datafusion.engine.parquet_scan import ListedFile
    from lm_datafusion.engine.plan_scans import PlannedScan
    from lm_datafusion.engine.routing import RoutedReference
    from lm_datafusion.engine.tables import ParquetTable, TableName
    from lm_datafusion.engine.trial import ReadyPlan
    from lm_datafusion.engine.two_phases import TwoPhases
    from lm_datafusion.metrics import ScanReport
    from lm_datafusion.options import ScanOptions

# Statements whose routes are remembered, so that they are not worked out again.
STATEMENTS_KEPT = 1024
ERRORS_KEPT = 16
_READ_ONLY = SQLOptions().with_allow_ddl(False).with_allow_dml(False).with_allow_statements(False)
_IN_ALL_PARTITIONS = "SELECT column1 FROM (VALUES (1), (2)) GROUP BY column1"
# Frames of more nodes that were made by methods run as they are.
NODES_MADE_AGAIN = 200


class QueryServer:
    """Serves the frames of one session.

    Args:
        context: The session, with DataFusion's own methods.
        options: How tables are scanned, unless a table or a query says otherwise.
    """

    def __init__(self, context: datafusion.SessionContext, options: ScanOptions) -> None:
        self._context = context
        self._options = options
        self._table_options: dict[TableName, ScanOptions] = {}
        self._tables = Tables(context)
        self._router = Router(self._tables)
        self._known: OrderedDict[tuple[str, ScanOptions | None], RoutedQuery] = OrderedDict()
        self._repeats = Repeats()
        self._unplanned: weakref.WeakSet[LateDataFrame] = weakref.WeakSet()
        self._own_tables = OwnTables(context, self._tables)
        self._preparer = Preparer(context, self._tables, self._own_tables, self._newly_routed)
        self._lock = threading.Lock()
        self._thread = threading.local()
        # What scans of datasets raised that the user registered.
        self.errors: deque[Exception] = deque(maxlen=ERRORS_KEPT)
        self._is_catalog_shared = False
        self._epoch = 0
        self._changes_under_way = 0
        self._partitions: int | None = None

    @property
    def epoch(self) -> int:
        """The state of the catalog; none while it changes."""
        with self._lock:
            return NO_EPOCH if self._changes_under_way else self._epoch

    @contextmanager
    def catalog_changing(self) -> Iterator[None]:
        """Says that names and functions may mean something else from some time in the block on."""
        for frame in list(self._unplanned):
            _ = frame.df
        self._unplanned.clear()
        with self._lock:
            self._epoch += 1
            self._changes_under_way += 1
        try:
            yield
        finally:
            with self._lock:
                self._epoch += 1
                self._changes_under_way -= 1
                self._known.clear()
                self._repeats.forget()
                self._partitions = None
                self._tables.forget()

    def function_changed(self, name: str) -> None:
        """Says that a function is the user's own; no name: that any of them may be."""
        self._tables.own_functions.add(name)

    def for_session(self, context: datafusion.SessionContext) -> QueryServer:
        """A server for another session that sees the same catalog."""
        other = QueryServer(context, self._options)
        other._table_options = self._table_options
        other._tables.own_functions = self._tables.own_functions
        self.catalog_shared()
        other.catalog_shared()
        return other

    def catalog_shared(self) -> None:
        """Says that names may change without a word from now on."""
        self._is_catalog_shared = True
        self._tables.stop_remembering()

    def remember_view(self, name: TableName, text: str) -> None:
        """Keeps the text of a view."""
        self._tables.remember_view(name, text)

    def set_table_options(self, name: TableName, options: ScanOptions | None) -> None:
        """Sets how one table is scanned; None: as the session says."""
        self._table_options.pop(name, None)
        if options is not None:
            self._table_options[name] = options

    def reports(self) -> list[ScanReport]:
        """The reports of this thread's last run."""
        run: RunReports | None = getattr(self._thread, "run", None)
        return [] if run is None else run.merged()

    def explain(self, frame: LateDataFrame) -> ScanExplanation:
        """How the frame would be served."""
        statement = self._statement(frame)
        return self._explanation(self._routed(frame, statement), statement)

    def serve(self, frame: LateDataFrame, *, runs: bool = True) -> DataFrame:
        """The frame that runs when `frame` runs; or only its plan is wanted."""
        self._thread.run = None
        words = None if frame.statement is None else split_explain(frame.statement.text)
        if words is not None:
            return self._explained(frame, *words)
        if frame.statement is None and _is_large(frame.native):
            return frame.native
        epoch = self.epoch
        if frame.statement is None:
            left = self._newly_routed(frame.native, frame.scan_options, None)
            reasons = [reference.route.reason for reference in left.references]
            if reasons and NO_TEXT not in reasons:
                # Nothing to gain from another reader: not even SQL is made of it.
                return self._run(frame.native, left, None, epoch)
        statement = self._statement(frame)
        if frame.statement is None and statement is None and self._is_now(frame.epoch):
            served = self._made_again(frame, epoch)
            if served is not None:
                return served
        routed = self._routed(frame, statement)
        return self._run(frame.native, routed, statement, epoch, runs=runs)

    def run(
        self, frame: LateDataFrame, action: Callable[[DataFrame], Any], *, repeats: bool = True
    ) -> Any:
        """What an action gives on the frame that runs; on DataFusion's own if that one fails."""
        return self._attempt(frame, self.serve(frame), action, repeats=repeats)

    def _attempt(
        self,
        frame: LateDataFrame,
        served: DataFrame,
        action: Callable[[DataFrame], Any],
        *,
        repeats: bool = True,
    ) -> Any:
        run: RunReports | None = self._thread.run
        if run is None or run.is_native:
            found = attempt(action, served, self.errors, None)
            return watched_streams(found, self.errors, None)

        def instead(error: Exception) -> DataFrame:
            native = self._thread.run = run.as_native(f"{run.paths} failed: {error}")
            if frame.statement is not None:
                routed = RoutedQuery(text=None, references=native.references)
                self._remember_native(frame.statement, routed)
            return frame.native

        found = attempt(action, served, run.errors, instead if repeats else None)
        return watched_streams(found, run.errors, instead)

    def files_listed_anew(self) -> None:
        """Says that DataFusion lists files each time: no plan may be kept for files of before."""
        self._repeats.stop()

    def is_ready(self, text: str, options: ScanOptions | None) -> bool:
        """Whether a plan is ready for a statement, so that DataFusion need not plan it again."""
        return not self._is_catalog_shared and self._repeats.is_ready((text, options))

    def unplanned(self, frame: LateDataFrame) -> LateDataFrame:
        """Keeps in mind a frame that is not planned yet: names keep the meaning they have now."""
        self._unplanned.add(frame)
        return frame

    def collect_again(self, frame: LateDataFrame) -> list[pa.RecordBatch] | None:
        """The rows of a statement that ran before, from a plan that is ready; None without one."""
        statement = frame.statement
        if (
            statement is None
            or statement.param_values
            or statement.named_params
            or self._is_catalog_shared
            or not self._is_now(frame.epoch)
            or split_explain(statement.text) is not None
        ):
            return None
        key = (statement.text, frame.scan_options)
        ready = self._repeats.find(key, lambda: self._plans(frame, statement))
        if ready is None or not self._is_now(frame.epoch):
            return None
        plan = ready.next_plan()
        run = self._thread.run = RunReports(plan.references)
        return self._repeats.collect(key, plan, self._context, run)

    def _plans(self, frame: LateDataFrame, statement: Statement) -> list[ReadyPlan] | None:
        """The plans of a statement; None for a frame of an older catalog: others would run them."""
        if not self._is_now(frame.epoch):
            return None
        return self._preparer.prepare(frame.native, statement, self._routed(frame, statement))

    def _made_again(self, frame: LateDataFrame, epoch: int) -> DataFrame | None:
        """The frame made by the same methods of frames over other readers; None if it cannot be.

        A source knows its own files, so that names are not asked. Its filters are those that
        DataFusion pushes down to every scan of the source's name in the whole frame.
        """
        try:
            plan = frame.native.optimized_logical_plan()
            if self._tables.filters_by_own_function(plan):
                return None
            scans = planned_scans(plan)
            routed = {id(s): self._routed_source(s, scans, plan) for s in sources_of(frame)}
            references = tuple(r for query in routed.values() for r in query.references)
            if not references:
                return None
            run = RunReports(references)
            if all(reference.route.path == "native" for reference in references):
                self._thread.run = run
                return frame.native
            with self._own_tables.of(references, run):
                served = rebuilt(frame, lambda source: self._source(source, routed[id(source)]))
        except Exception:  # noqa: BLE001 the frame itself says what is wrong, if anything
            return None
        if not same_schema(served, frame.native) or not self._is_now(epoch):
            return None
        self._thread.run = run
        return served

    def _routed_source(
        self, source: LateDataFrame, scans: dict[TableName, list[PlannedScan]], plan: LogicalPlan
    ) -> RoutedQuery:
        if source.statement is not None:
            statement = self._statement(source)
            if statement is None:
                return RoutedQuery(text=None, references=())
            return self._routed(source, statement)
        table = self._tables.read_by(source.native)
        if table is None or not scans.get(table.name):
            return RoutedQuery(text=None, references=())
        options = self._options_of(table.name, source.scan_options)
        reference = self._router.route_table(table, scans[table.name], options, plan)
        return RoutedQuery(text=None, references=(reference,))

    def _source(self, source: LateDataFrame, routed: RoutedQuery) -> DataFrame:
        if source.statement is not None and routed.text is not None:
            return self._plan(routed.text, source.statement)
        if all(reference.route.path == "native" for reference in routed.references):
            return source.native
        (reference,) = routed.references
        return self._context.table(reference.own_name).alias(dotted(reference.table.name))

    def _run(
        self,
        native: DataFrame,
        routed: RoutedQuery,
        statement: Statement | None,
        epoch: int,
        words: str = "",
        *,
        runs: bool = True,
    ) -> DataFrame:
        run = RunReports(routed.references)
        self._thread.run = run
        if routed.text is None or statement is None:
            return native
        try:
            with self._own_tables.of(routed.references, run):
                if routed.phases is not None and runs:
                    served = self._fetched(routed.phases, routed, statement)
                elif routed.may_give_up and runs:
                    served = self._walked(routed, statement, run)
                else:
                    served = self._plan(words + routed.text, statement)
            is_same = self._is_now(epoch) or self._is_read(routed, statement, native)
            if is_same and same_schema(served, native):
                return served
            reason = "the catalog has changed, or the schema would have"
        except FileChangedError:
            raise
        except GaveUpError as error:
            reason = str(error)
            self._remember_native(statement, routed.as_native(reason))
        except Exception as error:  # noqa: BLE001 the frame itself says what is wrong, if anything
            reason = str(error)
        self._thread.run = RunReports(routed.as_native(reason).references)
        return native

    def _fetched(self, phases: TwoPhases, routed: RoutedQuery, statement: Statement) -> DataFrame:
        """The rows of a query in two phases: its keys, and then the query over rows with those.

        Raises:
            FileChangedError: A file is not the one whose keys were found.
            LateError: A file was not the one that was listed before.
        """
        (reference,) = routed.references
        own_name, text = reference.own_name, routed.text or ""
        if not reference.table.is_unchanged:
            raise LateError("DataFusion reads files that have changed since it listed them")
        if isinstance(phases, FirstGroups):
            # Not with filter pushdown: how many rows the groups have is not known, and what is to
            # be saved is grouping the others.
            self._own_tables.make_same(own_name, reference.table)
        source = phases.source(own_name, find_first(self._context, phases, own_name))
        planned = self._plan(text.replace(quote_identifier(own_name), source), statement)
        table = self._read_unchanged(planned, reference)
        # One batch: several could be read by several partitions, out of order.
        empty = pa.RecordBatch.from_pylist([], schema=table.schema)
        return self._context.read_batches(table.combine_chunks().to_batches() or [empty])

    def _read_unchanged(self, planned: DataFrame, reference: RoutedReference) -> pa.Table:
        """The rows of a frame, if the files of its table are the ones that were listed before it.

        Both have to be looked at: DataFusion may go on with the list that it made of a folder, and
        it may have made a new one, with files that have come since.

        Raises:
            FileChangedError: One has changed.
            LateError: The list has.
        """
        changed = FileChangedError(f"the files of {dotted(reference.table.name)} changed meanwhile")
        try:
            table = planned.to_arrow_table()
        except Exception as error:
            if not reference.table.is_unchanged:
                raise changed from error
            raise
        if not reference.table.is_unchanged:
            raise changed
        now = self._tables.find_table((reference.own_name,))
        if now is None or set(now.files) != set(reference.table.files):
            raise LateError("files came meanwhile")
        return table

    def _walked(self, routed: RoutedQuery, statement: Statement, run: RunReports) -> DataFrame:
        """The query over the first rows of an order, which our scan has found.

        Raises:
            GaveUpError: They were not where bounds led.
        """
        (reference,) = routed.references
        assert reference.late is not None
        late = reference.late.with_reports(run.of(0))
        found = late.scanner(columns=list(reference.columns)).to_table()
        self._own_tables.make_rows(reference.own_name, found, late.schema)
        return self._plan(routed.text or "", statement)

    def _remember_native(self, statement: Statement, routed: RoutedQuery) -> None:
        """Does not try again what was given up."""
        with self._lock:
            for key in [key for key in self._known if key[0] == statement.text]:
                self._known[key] = routed

    def _is_read(self, routed: RoutedQuery, statement: Statement, native: DataFrame) -> bool:
        """Whether the files of a frame are what is read for it, whatever names mean by now."""
        try:
            files = set(map(_as_set, scanned_files(native.execution_plan(), self._context)))
        except Exception:  # noqa: BLE001 what cannot be asked is not known
            return False
        is_of_files = all(
            reference.route.path != "native" and _as_set(reference.table.files) in files
            for reference in routed.references
        )
        return is_of_files and self._means(statement.text, native, is_bound=False)

    def _is_now(self, epoch: int) -> bool:
        return epoch != NO_EPOCH and epoch == self.epoch

    def _explained(self, frame: LateDataFrame, words: str, text: str) -> DataFrame:
        """DataFusion's own explanation, and a row with ours."""
        given = frame.statement or Statement(text=text)
        statement = Statement(
            text=text, param_values=given.param_values, named_params=given.named_params
        )
        epoch = self.epoch
        if not self._is_now(frame.epoch):
            return frame.native
        try:
            # Planning is all that may happen: EXPLAIN DROP TABLE drops nothing.
            planned = self._plan(text, statement, _READ_ONLY)
        except Exception:  # noqa: BLE001 what is explained is no query
            return frame.native
        inner = LateDataFrame(
            planned, self, options=frame.scan_options, statement=statement, epoch=frame.epoch
        )
        routed = self._routed(inner, statement)
        if not routed.references:
            return frame.native
        served = self._run(frame.native, routed, statement, epoch, words, runs=False)

        is_ours = not self._thread.run.is_native
        table = self._attempt(frame, served, lambda f: plan_rows(f, strict=is_ours and f is served))
        if self._thread.run.is_native:
            routed = RoutedQuery(text=None, references=self._thread.run.references)
        if "ANALYZE" in words.upper():
            told = "\n".join(map(str, self.reports()))
        else:
            told = str(self._explanation(routed, statement))
        return self._context.read_batches(with_row(table, told).to_batches())

    def _explanation(self, routed: RoutedQuery, statement: Statement | None) -> ScanExplanation:
        columns: dict[str, tuple[str, ...]] = {}
        if routed.text is not None and statement is not None:
            try:
                with self._own_tables.of(routed.references, RunReports(routed.references)):
                    plan = self._plan(routed.text, statement).optimized_logical_plan()
                columns = {name[-1]: scanned_columns(s) for name, s in planned_scans(plan).items()}
            except Exception as error:  # noqa: BLE001 then the frame itself runs
                routed = routed.as_native(str(error))
        return ScanExplanation(
            tuple(
                explain_reference(reference, columns.get(reference.own_name, reference.columns))
                for reference in routed.references
            )
        )

    def _statement(self, frame: LateDataFrame) -> Statement | None:
        """The frame's query; None if it is not sure that its text still means the frame."""
        is_bound = self._is_now(frame.epoch) and not self._is_catalog_shared
        if frame.statement is None:
            text = unparsed(frame.native)
            if text is None or not self._means(text, frame.native, is_bound=is_bound):
                return None
            return Statement(text=text)
        if is_bound or self._means(frame.statement.text, frame.native, is_bound=False):
            return frame.statement
        return None

    def _means(self, text: str, native: DataFrame, *, is_bound: bool) -> bool:
        """Whether a text, planned now, is the frame's plan over the frame's files.

        Other tables and functions of the user's show in a plan by name only, so that they have to
        be bound: names have the meaning they had when the frame was made.
        """
        try:
            fresh = self._context.sql(text, _READ_ONLY)
            files = scanned_files(native.execution_plan(), self._context)
            if not is_bound and (None in files or self._tables.has_own_function(native)):
                return False
            return same_plan(fresh, native) and files == scanned_files(
                fresh.execution_plan(), self._context
            )
        except Exception:  # noqa: BLE001 what cannot be compared is not the same
            return False

    def _routed(self, frame: LateDataFrame, statement: Statement | None) -> RoutedQuery:
        if statement is None or statement.param_values or statement.named_params:
            return self._newly_routed(frame.native, frame.scan_options, statement)
        key = (statement.text, frame.scan_options)
        known = None if self._is_catalog_shared else self._known.get(key)
        if known is not None and self._router.is_current(known):
            return known.renamed()
        epoch = self.epoch
        routed = self._newly_routed(frame.native, frame.scan_options, statement)
        is_now = self._is_now(epoch)
        with self._lock:
            if is_now and epoch == self._epoch and not routed.is_for_once:
                self._known[key] = routed
            while len(self._known) > STATEMENTS_KEPT:
                self._known.popitem(last=False)
        return routed

    def _newly_routed(
        self, native: DataFrame, options: ScanOptions | None, statement: Statement | None
    ) -> RoutedQuery:
        try:
            plan = native.optimized_logical_plan()
            is_clear = (
                self._context.enable_ident_normalization()
                and self._tables.quotes_as_we_do()
                and not self._tables.filters_by_own_function(plan)
                and not _tells_time(statement)
            )
            return self._router.route(
                plan,
                statement.text if is_clear and statement is not None else None,
                lambda name: self._options_of(name, options),
                lambda text, tables: self._plan_over(text, tables, statement),
            )
        except Exception:  # noqa: BLE001 the frame itself says what is wrong, if anything
            return RoutedQuery(text=None, references=())

    def _options_of(self, name: TableName, options: ScanOptions | None) -> ScanOptions:
        chosen = options or self._table_options.get(name[-1:]) or self._options
        if chosen.threads is not None:
            return chosen
        return chosen.with_changes(threads=self._target_partitions())

    def _target_partitions(self) -> int:
        """The session's setting, which has no other way to be asked: one keeps rows in order."""
        known = self._partitions
        if known is None:
            plan = self._context.sql(_IN_ALL_PARTITIONS).execution_plan()
            known = self._partitions = plan.partition_count
        return known

    def _plan(self, text: str, statement: Statement, checks: SQLOptions | None = None) -> DataFrame:
        return statement.planned_as(text, self._context, checks)

    def _plan_over(
        self, text: str, tables: Mapping[str, ParquetTable], statement: Statement | None
    ) -> LogicalPlan:
        """A plan of a text in which names of their own stand for tables."""
        with self._own_tables.same(tables):
            given = statement or Statement(text=text)
            return self._plan(text, given).optimized_logical_plan()


def find_first(context: datafusion.SessionContext, phases: TwoPhases, own_name: str) -> pa.Table:
    """What the first of two phases finds."""
    return context.sql(phases.narrow_query(own_name)).to_arrow_table()


def _tells_time(statement: Statement | None) -> bool:
    """Whether a text that is put into a statement asks for the time: plans would be of two."""
    texts = {} if statement is None else statement.named_params or {}
    return any(TELLS_TIME.search(str(text)) for text in texts.values())


def _is_large(frame: DataFrame) -> bool:
    """Whether a plan is so large that SQL of it might be too deep for DataFusion to plan."""
    return frame.logical_plan().display_indent().count("\n") > NODES_MADE_AGAIN


def _as_set(files: tuple[ListedFile, ...] | None) -> frozenset[ListedFile] | None:
    return None if files is None else frozenset(files)
