"""A part of a dataset that one partition of an engine scans: a group of row groups.

In: a table and a part of a plan for it. Out: scanners over that part.

DataFusion calls `fragment.scanner(schema, columns=, filter=, batch_size=)` with the schema first;
such a filter has DataFusion's semantics and is exact. Every other call has PyArrow's semantics.

Invariant: the fragments of a dataset hold each row once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from lm_datafusion.dataset.extent import Extent, chosen_extent
from lm_datafusion.dataset.lookalike import Lookalike
from lm_datafusion.dataset.scanner import LateScanner, conjuncts_of
from lm_datafusion.dataset.verbs import ScanVerbs
from lm_datafusion.predicate.expression import Meaning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lm_datafusion.dataset.verbs import Columns, Filter, OrderBy
    from lm_datafusion.metrics import ScanReport
    from lm_datafusion.options import ScanOptions
    from lm_datafusion.plan import PlanPart, Table
    from lm_datafusion.predicate.conjunct import Conjunct


class LateFragment(ScanVerbs, Lookalike, face=ds.Fragment):
    """Some row groups of a table."""

    def __init__(
        self,
        table: Table,
        part: PlanPart,
        *,
        conjuncts: tuple[Conjunct, ...],
        options: ScanOptions,
        on_report: Callable[[ScanReport], None] | None = None,
        pruned: Mapping[str, int] | None = None,
        extent: Extent | None = None,
    ) -> None:
        self._table = table
        self._part = part
        self._conjuncts = conjuncts
        self._options = options
        self._on_report = on_report
        # Only the report of one fragment counts what planning the dataset pruned.
        self._pruned = pruned or {}
        self._extent = extent or Extent()

    @property
    def physical_schema(self) -> pa.Schema:
        """The schema of the table."""
        return self._table.schema

    @property
    def partition_expression(self) -> pc.Expression:
        """Always true: a fragment may span partitions."""
        return pc.scalar(True)

    @property
    def row_groups(self) -> dict[str, frozenset[int]]:
        """Row groups by path."""
        found: dict[str, frozenset[int]] = {}
        for index, row_groups in self._part.row_groups.items():
            path = self._table.files[index].path
            found[path] = found.get(path, frozenset()) | row_groups
        return found

    def scanner(  # noqa: PLR0913 PyArrow's arguments and ours
        self,
        schema: pa.Schema | None = None,
        *,
        columns: Columns = None,
        filter: Filter = None,  # noqa: A002 PyArrow's name
        batch_size: int | None = None,
        use_threads: bool = True,
        reverse: bool = False,
        limit: int | None = None,
        order_by: OrderBy = None,
        null_placement: str = "at_end",
        **_tuning: Any,
    ) -> LateScanner:
        """A scanner over the fragment.

        Args:
            schema: The dataset's schema, as engines pass it; the filter then has DataFusion's
                semantics.
            columns: Names of columns; all by default.
            filter: A PyArrow expression or a SQL condition.
            batch_size: The most rows per batch. Ignored if an engine sets it: large batches cost
                it nothing, and small ones cost a call each.
            use_threads: Whether to scan on more than one thread.
            reverse: Rows from the last to the first.
            limit: The most rows to return.
            order_by: The limit keeps the first rows by these columns; as for a dataset's scanner.
            null_placement: Where nulls go in `order_by`.
            **_tuning: Options of PyArrow's own reader, without effect.
        """
        meaning = Meaning.PYARROW if schema is None else Meaning.DATAFUSION
        added = conjuncts_of(filter, self._table.schema, meaning)
        taken = None if schema is not None else batch_size
        return LateScanner(
            self._table,
            columns=columns,
            conjuncts=self._conjuncts + added,
            options=tuned(self._options, batch_size=taken, use_threads=use_threads),
            part=self._part,
            on_report=self._on_report,
            pruned=self._pruned,
            extent=chosen_extent(
                self._extent,
                reverse=reverse,
                limit=limit,
                order_by=order_by,
                null_placement=null_placement,
            ),
        )

    def to_table(  # type: ignore[override]  # PyArrow's fragments take a schema, its datasets do not
        self,
        schema: pa.Schema | None = None,
        columns: Columns = None,
        filter: Filter = None,  # noqa: A002 PyArrow's name
        **tuning: Any,
    ) -> pa.Table:
        """The matching rows as a table; PyArrow's fragments take the schema first."""
        return self.scanner(schema, columns=columns, filter=filter, **tuning).to_table()

    def to_batches(  # type: ignore[override]
        self,
        schema: pa.Schema | None = None,
        columns: Columns = None,
        filter: Filter = None,  # noqa: A002 PyArrow's name
        **tuning: Any,
    ) -> Iterator[pa.RecordBatch]:
        """The matching rows as batches; PyArrow's fragments take the schema first."""
        return self.scanner(schema, columns=columns, filter=filter, **tuning).to_batches()

    def _late_scanner(self, columns: Columns, filter: Filter, **tuning: Any) -> LateScanner:  # noqa: A002
        return self.scanner(columns=columns, filter=filter, **tuning)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_fragment, (
            self._table,
            self._part,
            self._conjuncts,
            self._options,
            self._extent,
        )

    def __repr__(self) -> str:
        by_file = self._part.row_groups
        count = sum(map(len, by_file.values()))
        return f"<LateFragment of {count} row groups in {len(by_file)} files>"


def tuned(options: ScanOptions, *, batch_size: int | None, use_threads: bool) -> ScanOptions:
    """The options, changed by the arguments of a scanner call."""
    if batch_size is not None:
        options = options.with_changes(batch_rows=batch_size)
    return options if use_threads else options.with_changes(threads=1)


def _restore_fragment(
    table: Table,
    part: PlanPart,
    conjuncts: tuple[Conjunct, ...],
    options: ScanOptions,
    extent: Extent,
) -> LateFragment:
    return LateFragment(table, part, conjuncts=conjuncts, options=options, extent=extent)
