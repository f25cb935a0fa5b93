"""What a query wants of one table reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lm_datafusion.plan.ordering import FirstRows
    from lm_datafusion.predicate.conjunct import Conjunct


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """Rows that meet every conjunct, and of them some columns.

    Attributes:
        conjuncts: Conditions that every row meets.
        columns: Columns of the result, in order; may repeat none, may be empty (only the number
            of rows is wanted).
        is_reverse: Rows come from the last to the first.
        limit: No more rows than these are wanted; the first of the order that rows come in.
        is_any_order: Rows may come in any order; with a limit, any will do.
        first: Only rows that can be among the first of an order are wanted; they come in the
            order of the table.
    """

    conjuncts: tuple[Conjunct, ...] = ()
    columns: tuple[str, ...] = ()
    is_reverse: bool = False
    limit: int | None = None
    is_any_order: bool = False
    first: FirstRows | None = None
