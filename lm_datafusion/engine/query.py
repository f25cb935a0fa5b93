"""A query as access paths look at it: its shape, and what it asks of each Parquet table.

In: a frame and the shape of its plan. Out: a `Query`.

Invariant: a table is in it only if its files are known and nothing else in the query may mean them.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lm_datafusion.engine.catalog import ANONYMOUS
from lm_datafusion.engine.conjuncts import to_conjuncts
from lm_datafusion.engine.fallible import can_fail
from lm_datafusion.engine.listing import scanned_files
from lm_datafusion.forks import cached_property

if TYPE_CHECKING:
    from datafusion import Expr

    from lm_datafusion.engine.catalog import SessionCatalog
    from lm_datafusion.engine.frame import LateDataFrame
    from lm_datafusion.engine.parquet_table import ParquetTable, TableName
    from lm_datafusion.engine.shape import QueryShape
    from lm_datafusion.options import ScanOptions
    from lm_datafusion.predicate.conjunct import Conjunct

CATALOG_CHANGED = "the catalog has changed since the frame was planned"
# Larger frames without a text are not sent through Substrait: it recurses.
MOST_NODES = 200


@dataclass(frozen=True)
class TableUse:
    """What a query asks of one Parquet table.

    Attributes:
        table: The table.
        alias: What the query calls it.
        filters: What all rows have to meet, as DataFusion has it.
        columns: Columns that the query needs of it.
        options: How it is scanned.
    """

    table: ParquetTable
    alias: str
    filters: tuple[Expr, ...]
    columns: tuple[str, ...]
    options: ScanOptions

    @property
    def name(self) -> TableName:
        """The table's name, as the plan has it."""
        return self.table.name

    @cached_property
    def conjuncts(self) -> tuple[Conjunct, ...]:
        """The filters that our scan can apply."""
        return to_conjuncts(self.filters, self.table.printed_names, self.table.schema)

    @property
    def is_exact(self) -> bool:
        """Whether those are all filters."""
        return len(self.conjuncts) == len(self.filters)

    def equates_floats(self) -> bool:
        """Whether a filter says that a floating point column equals something."""
        schema = self.table.schema
        return any(
            pa.types.is_floating(schema.field(operand.to_variant().name()).type)
            for expression in self.filters
            if expression.variant_name() == "BinaryExpr"
            and expression.rex_call_operator() in ("=", "IS NOT DISTINCT FROM")
            for operand in expression.rex_call_operands()
            if operand.variant_name() == "Column"
        )

    def can_fail(self) -> bool:
        """Whether evaluating a filter may raise on some value."""
        return can_fail(self.filters, self.table.schema)


@dataclass(frozen=True)
class Query:
    """A query, as access paths look at it.

    Attributes:
        shape: What it asks of its tables.
        uses: What it asks of each Parquet table.
        is_new: Whether the session has not run it before.
        can_repeat: Whether it can be run again if a path gives up.
    """

    shape: QueryShape
    uses: tuple[TableUse, ...]
    is_new: bool = False
    can_repeat: bool = True

    @property
    def only_use(self) -> TableUse | None:
        """The table of a query that scans one Parquet table, once, and nothing else."""
        if len(self.uses) != 1 or list(self.shape.scans) != [self.uses[0].name]:
            return None
        return self.uses[0] if len(self.shape.scans[self.uses[0].name]) == 1 else None


def table_uses(
    frame: LateDataFrame, shape: QueryShape, catalog: SessionCatalog, options: ScanOptions
) -> tuple[TableUse, ...]:
    """What a query asks of each of its Parquet tables.

    Args:
        frame: The query.
        shape: Its shape.
        catalog: What its names mean.
        options: How tables are scanned, unless the query or a table says otherwise.
    """
    found = []
    names = [catalog.full_name(name) for name in shape.scans]
    for name in shape.scans:
        table = _table(frame, name, catalog)
        # A table under two names (t, public.t) has filters that cannot be compared.
        if table is None or names.count(catalog.full_name(name)) > 1:
            continue
        filters = shape.filters_of(name)
        if not table.has_native_reader:
            over = [e for e in shape.filters_over(name) if not catalog.calls_user_function(str(e))]
            filters += [e for e in over if str(e) not in set(map(str, filters))]
        chosen = frame.scan_options or catalog.options_of(name) or options
        use = TableUse(
            table=table,
            alias=shape.alias_of(name),
            filters=tuple(filters),
            columns=shape.columns_of(name),
            options=_with_threads(chosen, catalog.target_partitions),
        )
        found.append(use)
    return tuple(found)


def why_only_the_frame(frame: LateDataFrame, query: Query, catalog: SessionCatalog) -> str:
    """Why only the frame itself is sure to mean what it meant; empty if others are, too."""
    if not query.uses:
        return "no Parquet table of local files"
    if not catalog.is_now(frame.version):
        return CATALOG_CHANGED
    if frame.statement is None and query.shape.node_count > MOST_NODES:
        return "the frame is large"
    if catalog.is_shared and not _reads_files_of(frame, query, catalog):
        return "names may have changed since the frame was planned"
    return ""


def _table(frame: LateDataFrame, name: TableName, catalog: SessionCatalog) -> ParquetTable | None:
    if name != (ANONYMOUS,):
        return catalog.parquet_table(name)
    return None if frame.source is None else catalog.listed(name, frame.source)


@functools.lru_cache(maxsize=64)
def _with_threads(options: ScanOptions, threads: int) -> ScanOptions:
    return options if options.threads is not None else options.with_changes(threads=threads)


def _reads_files_of(frame: LateDataFrame, query: Query, catalog: SessionCatalog) -> bool:
    """Whether a frame reads just the files that names mean now."""
    bound = scanned_files(frame.native.execution_plan(), catalog.context)
    named = [use.table.files for use in query.uses for _ in query.shape.scans[use.name]]
    return None not in bound and sorted(map(sorted, named)) == sorted(
        sorted(files) for files in bound if files is not None
    )
