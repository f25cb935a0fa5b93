"""A query as access paths look at it: its shape, and what it asks of each Parquet table.

In: a frame and the shape of its plan. Out: a `Query`.

Invariant: a table is in it only if its files are known and nothing else in the query may mean them.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from lm_datafusion.engine.shape import can_fail_below, prints_exactly
from lm_datafusion.forks import cached_property
from lm_datafusion.predicate import evaluator
from lm_datafusion.predicate.fallible import can_fail
from lm_datafusion.predicate.pushed_filters import to_conjuncts

if TYPE_CHECKING:
    from datafusion import Expr

    from lm_datafusion.dataset import LateDataset
    from lm_datafusion.engine.catalog import SessionCatalog
    from lm_datafusion.engine.frame import LateDataFrame
    from lm_datafusion.engine.parquet_table import ParquetTable
    from lm_datafusion.engine.shape import QueryShape
    from lm_datafusion.options import ScanOptions
    from lm_datafusion.predicate.conjunct import Conjunct
    from lm_datafusion.sql.table_name import TableName

CATALOG_CHANGED = "the catalog has changed since the frame was planned"
# Larger frames without a text are not sent through Substrait: it recurses.
MOST_NODES = 200
# Nodes that only name, compute and filter columns.
_PLAIN = frozenset({"SubqueryAlias", "Projection", "Filter"})
# Tables of fewer bytes are read before a choice pays.
SMALL_BYTES = 1 << 20


@dataclass(frozen=True)
class TableUse:
    """What a query asks of one Parquet table, which it calls `alias`.

    Attributes:
        filters: What all rows have to meet, as DataFusion has it.
        columns: Columns that the query needs of it.
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
    def filter_columns(self) -> set[str]:
        """The columns of those."""
        return {name for conjunct in self.conjuncts for name in conjunct.columns}

    @property
    def why_native(self) -> str:
        """Why DataFusion reads the table without a look at what it costs; empty if it does not."""
        if self.options.path == "native":
            return "path=native"
        is_auto = self.options.path == "auto" and self.table.has_native_reader
        return "the table is small" if is_auto and self.table.size_bytes < SMALL_BYTES else ""

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

    def applies_all_of(self, shape: QueryShape) -> bool:
        """Whether a plan scans this table only, once, by filters that our scan applies anyway.

        With other tables beside it, DataFusion might derive more filters when it plans again.
        """
        scans = shape.scans.get(self.name, [])
        is_exact = len(self.conjuncts) == len(self.filters)
        if len(scans) != 1 or len(shape.scans) != 1 or not is_exact:
            return False
        pushed = set(map(str, scans[0].filters))
        return pushed <= set(map(str, self.filters)) and all(map(prints_exactly, pushed))

    def open_dataset(self) -> LateDataset:
        """The table, filtered by what its scans have in common.

        Raises:
            LateError: A file whose columns DataFusion would have to adapt.
        """
        # Imported here: most statements need no dataset, and PyArrow's take 9 MB.
        from lm_datafusion.dataset import LateDataset

        dataset = LateDataset(self.table.as_exact_table(self.options), options=self.options)
        return dataset.with_conjuncts(self.conjuncts)


class OneTable(NamedTuple):
    """A node of a plan over one Parquet table, and those below, which filter exactly."""

    use: TableUse
    node: Any
    below: list[Any]


@dataclass(frozen=True)
class Query:
    """A query, as access paths look at it.

    Attributes:
        is_new: Whether the session has not run it before.
        can_repeat: Whether it can be run again if a path gives up.
    """

    shape: QueryShape
    uses: tuple[TableUse, ...]
    is_new: bool = False
    can_repeat: bool = True

    def over_one_table(self, kind: str, above: set[str]) -> OneTable | None:
        """The only node of a kind, in a query that scans one Parquet table, once, and nothing else.

        None if there are other nodes above than those of some kinds, if rows that the scan leaves
        out could make the query fail, or if our scan cannot apply every filter.
        """
        kinds, nodes = self.shape.kinds, self.shape.nodes
        if kinds.count(kind) != 1 or kinds[-1] != "TableScan":
            return None
        index = kinds.index(kind)
        if set(kinds[:index]) - above or set(kinds[index + 1 : -1]) - _PLAIN:
            return None
        if len(self.uses) != 1 or len(self.shape.scans) != 1:
            return None
        (use,), node, below = self.uses, nodes[index], nodes[index + 1 :]
        predicates = [n.predicate() for n in below if type(n).__name__ == "Filter"]
        asked = [part for p in predicates for part in evaluator.operands_of("AND", p)]
        pushed = set(map(str, below[-1].filters()))
        if not set(map(str, asked)) <= pushed or len(pushed) != len(asked):
            return None
        table = use.table
        if len(to_conjuncts(asked, table.printed_names, table.schema)) != len(asked):
            return None
        return None if can_fail_below(below, table.schema) else OneTable(use, node, below)


def table_uses(
    frame: LateDataFrame, shape: QueryShape, catalog: SessionCatalog, options: ScanOptions
) -> tuple[TableUse, ...]:
    """What a query asks of each of its Parquet tables.

    They are scanned by `options`, unless the query or a table has options of its own.
    """
    found = []
    names = [catalog.full_name(name) for name in shape.scans]
    for name, full_name in zip(shape.scans, names, strict=True):
        table = catalog.parquet_table(name, frame.source)
        # A table under two names (t, public.t) has filters that cannot be compared.
        if table is None or names.count(full_name) > 1:
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
    shape = query.shape
    if not query.uses:
        return "no Parquet table of local files"
    if not catalog.is_now(frame.version):
        return CATALOG_CHANGED
    if frame.statement is None and shape.printed.count("\n") >= MOST_NODES:
        return "the frame is large"
    if catalog.is_shared and not catalog.has_files_of(frame.native, shape.scans, frame.source):
        return "names may have changed since the frame was planned"
    return ""


@functools.lru_cache(maxsize=64)
def _with_threads(options: ScanOptions, threads: int) -> ScanOptions:
    return options if options.threads is not None else options.with_changes(threads=threads)
