"""What a query wants from one table reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lm_datafusion.plan.ordering import FirstRows
    from lm_datafusion.predicate.conjunct import Conjunct


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """Some columns of the rows that meet every conjunct.

    Attributes:
        conjuncts: Conditions that every row meets.
        columns: Columns of the result, in order and without repeats; empty if only the row count
            is wanted.
        is_reverse: Rows come from the last to the first.
        limit: At most this many rows are wanted: the first in the order of the scan.
        is_any_order: Rows may come in any order; with a limit, any rows will do.
        first: Only rows that can be among the first of an order are wanted, in table order.
    """

    conjuncts: tuple[Conjunct, ...] = ()
    columns: tuple[str, ...] = ()
    is_reverse: bool = False
    limit: int | None = None
    is_any_order: bool = False
    first: FirstRows | None = None
