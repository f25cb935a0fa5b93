"""DataFusion's own reader, for every table.

In: the tables of a query. Out: an offer, always.

Invariant: the frame that runs is the user's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lm_datafusion.engine.offer import Offer, native_access

if TYPE_CHECKING:
    from lm_datafusion.engine.query import TableUse

NAME = "native"


def offer(
    uses: tuple[TableUse, ...],
    reason: str,
    seconds: float | None = None,
    *,
    is_guess: bool = False,
) -> Offer:
    """DataFusion reads every table.

    Args:
        uses: The Parquet tables of a query.
        reason: Why no other path is chosen.
        seconds: What it is expected to take, if other paths had to know.
        is_guess: Whether another path may be chosen the next time.
    """
    return Offer(
        name=NAME,
        seconds=seconds,
        native_s=seconds,
        reason=reason,
        tables=tuple(native_access(use, reason) for use in uses),
        is_guess=is_guess,
    )
