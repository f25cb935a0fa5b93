"""EXPLAIN and `explain_scan`: what would run, without running it.

In: a frame, and what plans it. Out: a `ScanExplanation`; for an EXPLAIN statement, the rows that
DataFusion gives for the plan that would run, and a row with our explanation.

Invariant: EXPLAIN plans and nothing more: EXPLAIN DROP TABLE drops nothing. Only EXPLAIN ANALYZE
runs the query.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
from datafusion import SQLOptions

from lm_datafusion.engine.choose import only_native
from lm_datafusion.engine.explanation import explain_choice
from lm_datafusion.engine.frame import LateDataFrame, Server
from lm_datafusion.engine.recovery import attempt, watched
from lm_datafusion.engine.run_reports import RunReports
from lm_datafusion.engine.shape import QueryShape
from lm_datafusion.errors import CorruptFileError, LateError, StorageError
from lm_datafusion.sql.statement import split_explain

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow.dataset as ds
    from datafusion import DataFrame

    from lm_datafusion.engine.catalog import SessionCatalog
    from lm_datafusion.engine.choose import Choice
    from lm_datafusion.engine.explanation import ScanExplanation
    from lm_datafusion.engine.frame import Statement
    from lm_datafusion.engine.parquet_table import TableName
    from lm_datafusion.engine.sibling import Sibling
    from lm_datafusion.metrics import ScanReport

# The row that EXPLAIN gets from us, and DataFusion's for a plan that it could not make.
PLAN_TYPE = "parquet_scans"
_FAILED = "physical_plan_error"
_READ_ONLY = SQLOptions().with_allow_ddl(False).with_allow_dml(False).with_allow_statements(False)


class Planner(Server, Protocol):
    """Chooses what would run; `engine.server` is one."""

    @property
    def catalog(self) -> SessionCatalog:
        """What names mean."""

    def choose(self, frame: LateDataFrame) -> Choice:
        """What every path offers for a frame."""

    def sibling(self, datasets: Mapping[TableName, ds.Dataset]) -> Sibling:
        """A session in which names mean datasets."""

    def begin(self, run: RunReports | None) -> None:
        """Makes the reports of this thread those of a run."""

    def reports(self) -> list[ScanReport]:
        """The reports of this thread's last run."""


def explain_frame(frame: LateDataFrame, planner: Planner) -> ScanExplanation:
    """How a frame would be served."""
    choice = planner.choose(frame)
    return explain_choice(choice, _columns(frame, choice, planner))


def _columns(
    frame: LateDataFrame, choice: Choice, planner: Planner
) -> dict[TableName, tuple[str, ...]]:
    """The columns that DataFusion would ask our datasets for; nothing if it asks none."""
    if choice.best.is_native:
        return {}
    try:
        served = planner.sibling(choice.best.previews()).plan(frame)
    except Exception:  # noqa: BLE001 then the frame itself runs
        return {}
    shape = QueryShape(served.logical_plan(), served.optimized_logical_plan())
    return {name: shape.columns_of(name) for name in shape.scans}


def explain_statement(frame: LateDataFrame, planner: Planner) -> DataFrame | None:
    """DataFusion's own explanation, and a row with ours; None for any other statement."""
    words = None if frame.statement is None else split_explain(frame.statement.text)
    if words is None or frame.statement is None:
        return None
    planner.begin(None)
    inner = _inner(frame, frame.statement, words[1], planner)
    choice = None if inner is None else planner.choose(inner)
    if inner is None or choice is None or not choice.best.tables:
        return frame.native
    try:
        table = _plan_rows(inner, choice, words[0], planner)
    except (CorruptFileError, StorageError):
        raise
    except Exception as error:  # noqa: BLE001 then the frame itself runs
        choice = only_native(choice.query, f"{choice.best.name} failed: {error}")
        planner.begin(RunReports(choice.best))
        table = _rows_of(frame.native, is_strict=False)
    is_analysis = "ANALYZE" in words[0].upper()
    text = "\n".join(map(str, planner.reports())) if is_analysis else str(explain_choice(choice))
    return planner.catalog.context.read_batches(_with_row(table, text).to_batches())


def _inner(
    frame: LateDataFrame, statement: Statement, text: str, planner: Planner
) -> LateDataFrame | None:
    """The query that is explained; None if it is none, or names mean something else by now."""
    inner = dataclasses.replace(statement, text=text)
    if not planner.catalog.is_now(frame.version):
        return None
    try:
        planned = inner.planned(planner.catalog.context, checks=_READ_ONLY)
    except Exception:  # noqa: BLE001 what is explained is no query
        return None
    return LateDataFrame(
        planned, planner, options=frame.scan_options, statement=inner, version=frame.version
    )


def _plan_rows(inner: LateDataFrame, choice: Choice, words: str, planner: Planner) -> pa.Table:
    """The rows of EXPLAIN over what would run.

    Raises:
        LateError: The data is at fault, or the plan cannot be made.
    """
    offer = choice.best
    run = RunReports(offer)
    planner.begin(run)
    assert inner.statement is not None
    if offer.is_native:
        text = f"{words} {inner.statement.text}"
        return _rows_of(inner.statement.planned(planner.catalog.context, text), is_strict=False)
    is_analysis = "ANALYZE" in words.upper()
    chosen = offer.datasets() if is_analysis else offer.previews()
    explained = planner.sibling(watched(chosen, run.of, run.errors)).explain(inner, words)
    return attempt(lambda f: _rows_of(f, is_strict=True), explained, run.errors, None)


def _rows_of(frame: DataFrame, *, is_strict: bool) -> pa.Table:
    """The rows of EXPLAIN.

    Args:
        frame: What explains.
        is_strict: Whether a plan that could not be made is an error, not a row that says so.

    Raises:
        LateError: It could not be made.
    """
    table = frame.to_arrow_table()
    kinds = table.column(0).to_pylist()
    if is_strict and _FAILED in kinds:
        raise LateError(table.column(1)[kinds.index(_FAILED)].as_py())
    return table


def _with_row(table: pa.Table, text: str) -> pa.Table:
    """The rows of EXPLAIN, and one of ours."""
    values = {"plan_type": PLAN_TYPE, "plan": text}
    row = pa.table(
        {field.name: pa.array([values.get(field.name)], field.type) for field in table.schema},
        schema=table.schema,
    )
    return pa.concat_tables([table, row]).combine_chunks()
