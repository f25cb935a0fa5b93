"""What a query wants of one table reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lm_datafusion.predicate.conjunct import Conjunct


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """Rows that meet every conjunct, and of them some columns.

    Attributes:
        conjuncts: Conditions that every row meets.
        columns: Columns of the result, in order; may repeat none, may be empty (only the number
            of rows is wanted).
    """

    conjuncts: tuple[Conjunct, ...] = ()
    columns: tuple[str, ...] = ()
