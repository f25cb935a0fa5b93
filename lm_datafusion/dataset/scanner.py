"""One scan that has not run yet: `LateScanner`.

In: a table, columns and conjuncts. Out: batches, tables, counts; and a report of what was read.

Names, types and SQL are checked when the scanner is made, so errors come before any row. Files are
opened when it runs, each at the version planned for that run.

Invariant: running a scanner twice scans twice.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from lm_datafusion.dataset.extent import Extent
from lm_datafusion.dataset.lookalike import Lookalike
from lm_datafusion.dataset.sorting import sorted_batches
from lm_datafusion.errors import OptionError
from lm_datafusion.metrics import ScanMetrics
from lm_datafusion.plan import ScanRequest
from lm_datafusion.predicate.conjunct import check_expressions
from lm_datafusion.predicate.expression import (
    Meaning,
    translate_expression,
    translate_for_pruning,
)
from lm_datafusion.predicate.expression_tree import ExpressionTree, fields
from lm_datafusion.scan import ScanRun, bind_request, plan_scan
from lm_datafusion.scan.row_fetch import plan_row_fetch
from lm_datafusion.selection.values import without_views
from lm_datafusion.sql import parse_condition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from lm_datafusion.dataset.verbs import Columns, Filter
    from lm_datafusion.metrics import ScanReport
    from lm_datafusion.options import ScanOptions
    from lm_datafusion.plan import PlanPart, ReadPlan, Table
    from lm_datafusion.predicate.conjunct import BoundConjunct, Conjunct


class LateScanner(Lookalike, face=ds.Scanner):
    """A scan of some columns of the matching rows."""

    def __init__(  # noqa: PLR0913 made by datasets and fragments only
        self,
        table: Table,
        *,
        columns: Columns,
        conjuncts: tuple[Conjunct, ...],
        options: ScanOptions,
        part: PlanPart | None = None,
        on_report: Callable[[ScanReport], None] | None = None,
        pruned: Mapping[str, int] | None = None,
        extent: Extent | None = None,
    ) -> None:
        self._table = table
        self._options = options
        self._extent = extent or Extent()
        self._part = part
        self._on_report = on_report
        self._pruned = pruned or {}
        self._conjuncts = conjuncts
        self._columns = columns
        self._expressions = _projection(columns)
        self._names = _column_names(columns, table.schema)
        self._metrics: ScanMetrics | None = None
        # Bound now to report errors, and for the first run; each run plans, as files may change.
        self._bound: tuple[BoundConjunct, ...] | None = bind_request(
            table, self._request(self._extent)
        )

    @property
    def dataset_schema(self) -> pa.Schema:
        """The schema of the table."""
        return self._table.schema

    @property
    def projected_schema(self) -> pa.Schema:
        """The schema of the result."""
        schema = self._table.schema
        if self._expressions is not None:
            empty = schema.empty_table()
            return ds.InMemoryDataset(empty).scanner(columns=self._expressions).projected_schema
        chosen = [schema.field(name) for name in self._names]
        return pa.schema(chosen, metadata=schema.metadata)

    @property
    def report(self) -> ScanReport | None:
        """What the last run has done so far; None before the first."""
        return None if self._metrics is None else self._metrics.report()

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The matching rows; closing the iterator stops the scan."""
        return self._run(self._plan())

    def scan_batches(self) -> Iterator[ds.TaggedRecordBatch]:
        """As `to_batches`, each batch with a fragment (None: batches may span row groups)."""
        for batch in self.to_batches():
            yield ds.TaggedRecordBatch(record_batch=batch, fragment=None)

    def to_reader(self) -> pa.RecordBatchReader:
        """The matching rows as a stream."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        """The matching rows as an Arrow C stream."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_table(self) -> pa.Table:
        """The matching rows as a table."""
        return self._table_of(list(self.to_batches()))

    def head(self, num_rows: int) -> pa.Table:
        """The first rows; reading stops once they are found."""
        extent = self._extent.with_limit(num_rows)
        return self._table_of(list(self._run(self._plan(extent), extent)))

    def take(self, indices: Any) -> pa.Table:
        """Rows by position, in the order asked for.

        Raises:
            OptionError: A position is out of range.
        """
        positions = _positions(indices)
        extent = self._extent
        if self._conjuncts or extent.scanned_first() is not None:
            table = self.to_table()
            _check_inside(positions, table.num_rows)
            return self._reordered(table, positions)
        plan, metrics = self._plan(Extent())
        total = sum(task.row_count for task in plan.tasks)
        _check_inside(positions, total if extent.limit is None else min(total, extent.limit))
        if extent.is_reverse:
            positions = total - 1 - positions
        wanted, order = np.unique(positions, return_inverse=True)
        fetched = list(self._run((plan_row_fetch(plan, wanted), metrics)))
        return self._reordered(self._table_of(fetched), order)

    def _table_of(self, batches: list[pa.RecordBatch]) -> pa.Table:
        if not self.projected_schema:
            return _table_without_columns(sum(batch.num_rows for batch in batches))
        return pa.Table.from_batches(batches, schema=self.projected_schema)

    def _reordered(self, table: pa.Table, order: npt.NDArray[np.int64]) -> pa.Table:
        if not self.projected_schema:
            return _table_without_columns(len(order))
        rows = pa.array(order)
        columns = [
            without_views(column).take(rows).cast(column.type) for column in table.itercolumns()
        ]
        return pa.Table.from_arrays(columns, schema=table.schema)

    def count_rows(self) -> int:
        """The number of matching rows."""
        limit = self._extent.limit
        if not self._conjuncts and self._extent.first is None:
            plan, metrics = self._plan(Extent())
            metrics.finish()
            self._metrics = metrics
            total = sum(task.row_count for task in plan.tasks)
            return total if limit is None else min(total, limit)
        # An order does not change how many rows a limit leaves.
        extent = dataclasses.replace(self._extent, order_by=(), is_any_order=limit is not None)
        counting = self._copy(columns=[], extent=extent)
        count = sum(batch.num_rows for batch in counting.to_batches())
        self._metrics = counting._metrics  # noqa: SLF001 of this very class
        return count

    def _copy(self, **changes: Any) -> LateScanner:
        current: dict[str, Any] = {
            "columns": self._columns,
            "conjuncts": self._conjuncts,
            "options": self._options,
            "part": self._part,
            "on_report": self._on_report,
            "pruned": self._pruned,
            "extent": self._extent,
        }
        return LateScanner(self._table, **(current | changes))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_scanner, (
            self._table,
            self._columns,
            self._conjuncts,
            self._options,
            self._part,
            self._extent,
        )

    def __repr__(self) -> str:
        filters = " AND ".join(map(str, self._conjuncts)) or "all rows"
        return f"<LateScanner {', '.join(self._names)} WHERE {filters}>"

    @staticmethod
    def from_dataset(*_: Any, **__: Any) -> Any:
        """Not for this class: use `LateDataset.scanner`."""
        raise OptionError("make a LateScanner with LateDataset.scanner")

    @staticmethod
    def from_fragment(*_: Any, **__: Any) -> Any:
        """Not for this class: use `LateFragment.scanner`."""
        raise OptionError("make a LateScanner with LateFragment.scanner")

    @staticmethod
    def from_batches(*_: Any, **__: Any) -> Any:
        """Not for this class: batches in memory have nothing left to prune."""
        raise OptionError("use pyarrow.dataset.Scanner.from_batches")

    def _plan(self, extent: Extent | None = None) -> tuple[ReadPlan, ScanMetrics]:
        metrics = ScanMetrics(table=_table_name(self._table))
        metrics.add(**self._pruned)
        request = self._request(extent or self._extent)
        bound, self._bound = self._bound, None
        plan = plan_scan(self._table, request, self._options, metrics, self._part, bound)
        return plan, metrics

    def _request(self, extent: Extent) -> ScanRequest:
        sorted_by = [column for column, _ in extent.order_by]
        return ScanRequest(
            conjuncts=self._conjuncts,
            columns=tuple(dict.fromkeys([*self._names, *sorted_by])),
            is_reverse=extent.is_reverse,
            limit=None if extent.order_by else extent.limit,
            is_any_order=extent.is_any_order,
            first=extent.scanned_first(),
        )

    def _run(
        self, planned: tuple[ReadPlan, ScanMetrics], extent: Extent | None = None
    ) -> Iterator[pa.RecordBatch]:
        plan, metrics = planned
        extent = extent or self._extent
        self._metrics = metrics
        check_expressions((step.conjunct for step in plan.row_filter.steps), plan.filter_schema)
        try:
            with contextlib.closing(ScanRun(plan, metrics).batches()) as scanned:
                keys = extent.order_by
                for batch in sorted_batches(scanned, plan, extent) if keys else scanned:
                    yield self._projected(batch)
        finally:
            metrics.finish()
            if self._on_report is not None:
                self._on_report(metrics.report())

    def _projected(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._expressions is not None:
            table = pa.Table.from_batches([batch])
            projected = ds.InMemoryDataset(table).to_table(columns=self._expressions)
            return projected.combine_chunks().to_batches()[0]
        if batch.schema.names != self._names:
            return batch.select(self._names)
        return batch


def conjuncts_of(
    filter: Filter,  # noqa: A002 PyArrow's name
    schema: pa.Schema,
    meaning: Meaning = Meaning.PYARROW,
) -> tuple[Conjunct, ...]:
    """The conjuncts of a filter in any form."""
    if filter is None:
        return ()
    if isinstance(filter, str):
        return parse_condition(filter, schema)
    return translate_expression(_expression(filter), schema, meaning)


def pruning_conjuncts(filter: Filter, schema: pa.Schema) -> tuple[Conjunct, ...]:  # noqa: A002 PyArrow's name
    """The conjuncts of a filter that may prune under either engine's semantics."""
    if filter is None or isinstance(filter, str):
        return conjuncts_of(filter, schema)
    return translate_for_pruning(_expression(filter), schema)


def _expression(filter: Any) -> pc.Expression:  # noqa: A002 PyArrow's name
    if isinstance(filter, pa.BooleanScalar):
        # DataFusion pushes down constants as scalars.
        return pc.scalar(filter)
    if isinstance(filter, pc.Expression):
        return filter
    raise OptionError(f"a filter is a SQL string or a PyArrow expression, not {filter!r}")


def _projection(columns: Columns) -> Mapping[str, pc.Expression] | None:
    return columns if isinstance(columns, Mapping) else None


def _column_names(columns: Columns, schema: pa.Schema) -> list[str]:
    if columns is None:
        return list(schema.names)
    if isinstance(columns, str):
        raise OptionError(f"columns is a list of names; write [{columns!r}]")
    expressions = _projection(columns)
    if expressions is None:
        return [str(name) for name in columns]
    found = [f.path[0] for e in expressions.values() for f in fields(ExpressionTree(e).root)]
    # An expression without columns still needs the number of rows.
    return list(dict.fromkeys(found)) or list(schema.names[:1])


def _positions(indices: Any) -> npt.NDArray[np.int64]:
    positions = np.asarray(indices)
    if positions.ndim != 1 or (positions.size and positions.dtype.kind not in "iu"):
        raise OptionError(f"rows are asked for by a list of whole numbers, not {indices!r}")
    return positions.astype(np.int64)


def _check_inside(positions: npt.NDArray[np.int64], row_count: int) -> None:
    outside = positions[(positions < 0) | (positions >= row_count)]
    if outside.size:
        raise OptionError(f"there is no row {outside[0]}: rows are 0 to {row_count - 1}")


def _table_without_columns(row_count: int) -> pa.Table:
    """Not made from batches or by `take`, which lose the length of a table without columns."""
    return pa.table({"rows": pa.nulls(row_count)}).select([])


def _restore_scanner(
    table: Table,
    columns: Columns,
    conjuncts: tuple[Conjunct, ...],
    options: ScanOptions,
    part: PlanPart | None,
    extent: Extent,
) -> LateScanner:
    return LateScanner(
        table, columns=columns, conjuncts=conjuncts, options=options, part=part, extent=extent
    )


def _table_name(table: Table) -> str:
    paths = [file.path for file in table.files]
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more files"
