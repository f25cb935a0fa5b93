"""What an access path looks at, and what it offers.

In: the shape of a query and its Parquet tables. Out: an `Offer`: what running the query on a path
would cost, why, and the datasets it would run over.

Invariant: an offer reads footers, indexes and at most a few pages; it runs nothing. Whatever its
cost says, it gives the rows of the query.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from lm_datafusion.engine.conjuncts import to_conjuncts
from lm_datafusion.engine.fallible import can_fail

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from datafusion import Expr

    from lm_datafusion.dataset import LateDataset
    from lm_datafusion.engine.parquet_table import ParquetTable, TableName
    from lm_datafusion.engine.shape import QueryShape
    from lm_datafusion.options import AccessPath, ScanOptions
    from lm_datafusion.predicate.conjunct import Conjunct


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAccess:
    """How one table would be read.

    Attributes:
        use: What is asked of it.
        path: Which reader serves it.
        reason: Why.
        late: The dataset that serves it; None on DataFusion's own path.
    """

    use: TableUse
    path: AccessPath
    reason: str
    late: LateDataset | None = None

    def as_native(self, reason: str) -> TableAccess:
        """The same table, read by DataFusion after all."""
        return self if self.path == "native" else native_access(self.use, reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a path offers.

    Attributes:
        name: The path.
        seconds: Expected processor time of reading the tables; of DataFusion's own reader only
            where there is something to compare it with.
        native_s: What DataFusion's own reader would take.
        reason: Why it would be chosen.
        tables: How each Parquet table is read.
        prepare: Finishes the datasets when the query runs, if what they read depends on the data.
        is_guess: Whether the cost rests on shares of rows that nobody has measured.
        most_rows: If its scan finds more rows, it gives up, and DataFusion's own reader runs.
    """

    name: str
    seconds: float | None
    native_s: float | None
    reason: str
    tables: tuple[TableAccess, ...]
    prepare: Callable[[], Mapping[TableName, LateDataset]] | None = field(default=None)
    is_guess: bool = False
    most_rows: int | None = None

    @property
    def is_native(self) -> bool:
        """Whether DataFusion reads every table."""
        return all(access.late is None for access in self.tables)

    def previews(self) -> dict[TableName, LateDataset]:
        """What names mean before the query runs."""
        return {a.use.name: a.late for a in self.tables if a.late is not None}

    def datasets(self) -> dict[TableName, LateDataset]:
        """What names mean when the query runs."""
        return self.previews() | ({} if self.prepare is None else dict(self.prepare()))

    def as_native(self, reason: str) -> Offer:
        """The same query, read by DataFusion after all; that is no guess any more."""
        return dataclasses.replace(
            self,
            name="native",
            reason=reason,
            tables=tuple(access.as_native(reason) for access in self.tables),
            prepare=None,
            is_guess=False,
            most_rows=None,
        )


@dataclass(frozen=True, slots=True)
class Declined:
    """Why a path offers nothing.

    Attributes:
        name: The path.
        reason: Why.
        is_guess: Whether that rests on shares of rows that nobody has measured.
    """

    name: str
    reason: str
    is_guess: bool = False


class Path(Protocol):
    """A way to read the tables of a query."""

    def __call__(self, query: Query) -> Offer | Declined:
        """Looks at a query."""


def native_access(use: TableUse, reason: str) -> TableAccess:
    """A table that DataFusion reads."""
    return TableAccess(use=use, path="native", reason=reason)
