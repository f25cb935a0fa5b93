"""Row orders: those that queries ask for and those that files have.

In: a column, a direction, where nulls go. Out: `FirstRows`, what a query asks for; `BestKey`, the
best key of a container; `KnownOrder`, what is known about the order of a table's rows.

Keys are compared as DataFusion sorts: numbers by value, text and bytes byte by byte, floats in
IEEE 754's total order (a NaN sorts at the end given by its sign), nulls at one end.

Invariant: all are frozen and picklable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from decimal import Decimal

    # A sort key as Python compares it: dates, times and floats are whole numbers here.
    KeyValue: TypeAlias = int | bytes | Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRows:
    """The first rows of an order, and every row that ties with the last of them.

    Attributes:
        column: The column the order begins with.
        descending: Whether large values come first.
        nulls_first: Whether nulls come before all values.
        row_count: How many rows.
        most_rows_found: If more rows tie, the scan raises `GaveUpError`; None for no bound.
    """

    column: str
    descending: bool = False
    nulls_first: bool = False
    row_count: int
    most_rows_found: int | None = None

    def __str__(self) -> str:
        direction = "descending" if self.descending else "ascending"
        nulls = "first" if self.nulls_first else "last"
        return f"{self.column} {direction}, nulls {nulls}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BestKey:
    """The best key that a container can hold.

    Attributes:
        is_known: Whether there is a bound; without one it may hold any value.
        value: The bound, if it is known and the container holds a value at all.
        may_hold_null: Whether it may hold a null.
    """

    is_known: bool
    value: KeyValue | None = None
    may_hold_null: bool = True


UNKNOWN_KEY = BestKey(is_known=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedOrder:
    """An order that the user claims for each file, or the writer for each row group."""

    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownOrder:
    """What is known about how a column orders the rows of a table.

    Bounds prove an order between containers, never inside one: with `level` `"pages"`, no row of a
    page comes before a row of an earlier page. That is all an early stop needs. A claim that
    bounds do not contradict is recorded here, but nothing relies on it.

    Attributes:
        column: The column.
        descending: The direction that bounds prove; None if they prove none.
        nulls: Where bounds show nulls: `"none"`, `"first"`, `"last"`, `"between"`, `"unknown"`.
        level: `"pages"`, `"row groups"` or `""`: the containers whose bounds prove it.
        claim: `"declared"`, `"footer"` or `""`: who claims it too.
        is_contradicted: Whether bounds contradict a claim.
        reason: What was found, in words.
    """

    column: str
    descending: bool | None = None
    nulls: str = "unknown"
    level: str = ""
    claim: str = ""
    is_contradicted: bool = False
    reason: str = ""

    @property
    def is_proven(self) -> bool:
        """Whether bounds prove an order."""
        return self.descending is not None

    def __str__(self) -> str:
        return self.reason
