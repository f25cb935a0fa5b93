"""EXPLAIN and `explain_scan`: what would run, without running it.

In: a frame, and the server of its session. Out: a `ScanExplanation`; for an EXPLAIN statement, the
rows that DataFusion gives for the plan that would run, and a row with our explanation.

Invariant: EXPLAIN plans and nothing more: EXPLAIN DROP TABLE drops nothing. Only EXPLAIN ANALYZE
runs the query. Explaining reads footers, indexes, and a few pages where the share of rows that a
filter keeps decides (`scan.sampling`).
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from datafusion import SQLOptions

from lm_datafusion.engine.frame import LateDataFrame
from lm_datafusion.engine.offer import native_offer
from lm_datafusion.engine.recovery import DATA_ERRORS, attempt
from lm_datafusion.engine.shape import QueryShape
from lm_datafusion.engine.sibling import Sibling
from lm_datafusion.engine.watch import Run
from lm_datafusion.errors import LateError
from lm_datafusion.metrics import ScanMetrics
from lm_datafusion.metrics.explanation import FilterPlan, PathPlan, ReferencePlan, ScanExplanation
from lm_datafusion.plan import ScanRequest
from lm_datafusion.scan import known_steps, load_facts, plan_scan
from lm_datafusion.sql.statement import split_explain

if TYPE_CHECKING:
    from datafusion import DataFrame

    from lm_datafusion.engine.choose import Choice
    from lm_datafusion.engine.offer import TableAccess
    from lm_datafusion.engine.server import QueryServer
    from lm_datafusion.sql.table_name import TableName

# The row that EXPLAIN gets from us, and DataFusion's for a plan that it could not make.
PLAN_TYPE = "parquet_scans"
_FAILED = "physical_plan_error"
_READ_ONLY = SQLOptions().with_allow_ddl(False).with_allow_dml(False).with_allow_statements(False)


def explain_frame(frame: LateDataFrame, server: QueryServer) -> ScanExplanation:
    """How a frame would be served."""
    choice = server.choose(frame)
    return _explained(choice, _columns(frame, choice, server))


def explain_statement(frame: LateDataFrame, server: QueryServer) -> DataFrame | None:
    """DataFusion's own explanation, and a row with ours; None for any other statement."""
    words = None if frame.statement is None else split_explain(frame.statement.text)
    if words is None:
        return None
    server.begin(None)
    inner = _inner(frame, words[1], server)
    choice = None if inner is None else server.choose(inner)
    if inner is None or choice is None or not choice.best.tables:
        return frame.native
    is_analysis = "ANALYZE" in words[0].upper()
    try:
        table = _plan_rows(inner, choice, words[0], server, runs=is_analysis)
    except DATA_ERRORS:
        raise
    except Exception as error:  # noqa: BLE001 then the frame itself runs
        best = choice.best
        uses = [access.use for access in best.tables]
        native = native_offer(uses, f"{best.name} failed: {error}")
        choice = dataclasses.replace(choice, offers=(native,), declined=())
        server.begin(Run(native))
        table = frame.native.to_arrow_table()
    text = "\n".join(map(str, server.reports())) if is_analysis else str(_explained(choice, {}))
    return server.catalog.context.read_batches(_with_row(table, text).to_batches())


def _inner(frame: LateDataFrame, text: str, server: QueryServer) -> LateDataFrame | None:
    """The query that is explained; None if it is none, or names mean something else by now."""
    assert frame.statement is not None
    inner = dataclasses.replace(frame.statement, text=text)
    if not server.catalog.is_now(frame.version):
        return None
    try:
        planned = inner.planned(server.catalog.context, checks=_READ_ONLY)
    except Exception:  # noqa: BLE001 what is explained is no query
        return None
    return LateDataFrame(
        planned, server, options=frame.scan_options, statement=inner, version=frame.version
    )


def _plan_rows(
    inner: LateDataFrame, choice: Choice, words: str, server: QueryServer, *, runs: bool
) -> pa.Table:
    """The rows of EXPLAIN over what would run.

    Raises:
        LateError: The data is at fault, or the plan cannot be made.
    """
    run = Run(choice.best)
    server.begin(run)
    if choice.best.is_native:
        assert inner.statement is not None
        text = f"{words} {inner.statement.text}"
        return inner.statement.planned(server.catalog.context, text).to_arrow_table()
    datasets = run.watched(choice.best.datasets(runs=runs))
    explained = Sibling(server.catalog, datasets).plan(inner, words)
    table = attempt(lambda frame: frame.to_arrow_table(), explained, run.errors, None)
    kinds = table.column(0).to_pylist()
    if _FAILED in kinds:
        raise LateError(table.column(1)[kinds.index(_FAILED)].as_py())
    return table


def _with_row(table: pa.Table, text: str) -> pa.Table:
    """The rows of EXPLAIN, and one of ours."""
    values = {"plan_type": PLAN_TYPE, "plan": text}
    columns = [pa.array([values.get(field.name)], field.type) for field in table.schema]
    row = pa.table(columns, schema=table.schema)
    return pa.concat_tables([table, row]).combine_chunks()


def _columns(
    frame: LateDataFrame, choice: Choice, server: QueryServer
) -> dict[TableName, tuple[str, ...]]:
    """The columns that DataFusion would ask our datasets for; nothing if it asks none."""
    if choice.best.is_native:
        return {}
    try:
        served = Sibling(server.catalog, choice.best.datasets(runs=False)).plan(frame)
    except Exception:  # noqa: BLE001 then the frame itself runs
        return {}
    shape = QueryShape.of(served)
    return {name: shape.columns_of(name) for name in shape.scans}


def _explained(choice: Choice, columns: dict[TableName, tuple[str, ...]]) -> ScanExplanation:
    """What a query will do.

    Args:
        choice: What was offered.
        columns: What is read of tables, where that is less than DataFusion's own plan reads.
    """
    offered = [
        PathPlan(name=o.name, seconds=o.seconds, reason=o.reason, is_chosen=o is choice.best)
        for o in choice.offers
    ]
    declined = [PathPlan(name=d.name, seconds=None, reason=d.reason) for d in choice.declined]
    tables = (_table(a, columns.get(a.use.name, a.use.columns)) for a in choice.best.tables)
    return ScanExplanation(tuple(tables), (*offered, *declined))


def _table(access: TableAccess, columns: tuple[str, ...]) -> ReferencePlan:
    use = access.use
    known = ReferencePlan(
        table=use.alias,
        path=access.path,
        reason=access.reason,
        files=len(use.table.files),
        bytes_total=use.table.size_bytes,
        columns=columns,
    )
    try:
        return dataclasses.replace(known, **_read_plan(access, columns))
    except LateError:
        return known  # a file that only DataFusion can say something about


def _read_plan(access: TableAccess, columns: tuple[str, ...]) -> dict[str, Any]:
    metrics = ScanMetrics()
    use = access.use
    table, extent = use.table.as_table(), None if access.late is None else access.late.extent
    request = ScanRequest(
        conjuncts=use.conjuncts,
        columns=columns,
        first=None if extent is None else extent.first,
        limit=None if extent is None else extent.limit,
        is_any_order=extent is not None and extent.is_any_order,
    )
    plan = plan_scan(table, request, use.options, metrics)
    measured, report = known_steps(plan), metrics.report()
    # Compressed bytes of columns in the row groups left.
    sizes = Counter[str]()
    for task in plan.tasks:
        facts = load_facts(table.storage, task.file.version.path, use.options)
        for name, column in task.file.columns.items():
            chunks = facts.chunks_of(task.access.row_group, column)
            sizes[name] += sum(chunk.stored_bytes for chunk in chunks)

    def size(names: set[str]) -> int:
        return sum(sizes[name] for name in names)

    filters, seen = [], set[str]()
    for step in plan.row_filter.steps:
        names, found = set(step.conjunct.columns), measured.get(step.index)
        share = step.selectivity if found is None else found.kept_share
        filters.append(
            FilterPlan(predicate=str(step.conjunct), rows_share=share, bytes=size(names))
        )
        seen |= names
    rows_left = sum(task.access.row_count for task in plan.tasks)
    return {
        "filters": tuple(filters),
        "columns_bytes": size(set(columns) - seen),
        "row_groups_total": report.row_groups_total,
        "row_groups_left": len(plan.tasks),
        "rows_total": report.rows_total,
        "rows_left": rows_left,
        "rows_estimated": math.ceil(rows_left * math.prod(f.rows_share for f in filters)),
        "bytes_estimated": size(seen | set(columns)),
        "mechanism": report.mechanism,
        "order": report.order,
    }
