"""What an access path offers.

In: a query. Out: an `Offer`: what running the query on a path would cost, why, and the datasets it
would run over.

Invariant: an offer reads footers, indexes and at most a few pages; it runs nothing. Whatever its
cost says, it gives the rows of the query.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lm_datafusion.dataset import LateDataset
    from lm_datafusion.engine.parquet_table import TableName
    from lm_datafusion.engine.query import Query, TableUse
    from lm_datafusion.options import AccessPath


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
