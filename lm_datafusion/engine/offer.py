"""What an access path offers.

In: a query. Out: what running it on a path would cost, why, and the datasets it would run over.

Invariant: an offer reads footers, indexes and at most a few pages; it runs nothing. Whatever its
cost says, it gives the rows of the query.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lm_datafusion.engine.cost import PAYS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from lm_datafusion.dataset import LateDataset
    from lm_datafusion.engine.query import TableUse
    from lm_datafusion.options import AccessPath
    from lm_datafusion.sql.table_name import TableName


@dataclass(frozen=True, slots=True)
class TableAccess:
    """How one table would be read, and why; by DataFusion if there is no dataset."""

    use: TableUse
    reason: str
    late: LateDataset | None = None

    @property
    def path(self) -> AccessPath:
        """Which reader serves it."""
        return "native" if self.late is None else "late"


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
    prepare: Callable[[], Mapping[TableName, LateDataset]] | None = None
    is_guess: bool = False
    most_rows: int | None = None

    @property
    def is_native(self) -> bool:
        """Whether DataFusion reads every table."""
        return all(access.late is None for access in self.tables)

    @property
    def pays(self) -> bool:
        """Whether it is expected to be cheaper than DataFusion's own reader."""
        return not self.is_native and (self.seconds or 0.0) <= PAYS * (self.native_s or 0.0)

    def datasets(self, *, runs: bool) -> dict[TableName, LateDataset]:
        """What names mean when the query runs, or is only planned."""
        found = {a.use.name: a.late for a in self.tables if a.late is not None}
        return found | (dict(self.prepare()) if runs and self.prepare else {})


@dataclass(frozen=True, slots=True)
class Declined:
    """Why a path offers nothing; and whether that rests on shares that nobody has measured."""

    name: str
    reason: str
    is_guess: bool = False


def native_offer(
    uses: Iterable[TableUse], reason: str, seconds: float | None = None, *, is_guess: bool = False
) -> Offer:
    """DataFusion reads every table: the frame that runs is the user's own.

    If it is a guess, another path may be chosen the next time.
    """
    return Offer(
        name="native",
        seconds=seconds,
        native_s=seconds,
        reason=reason,
        tables=tuple(TableAccess(use, reason) for use in uses),
        is_guess=is_guess,
    )
