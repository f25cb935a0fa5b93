"""The cheapest offer.

In: a query. Out: every offer, the one to run first, and why other paths declined.

Invariant: DataFusion's own reader is always among the offers. It is the only one for a query whose
answer could depend on the reader.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lm_datafusion.engine.offer import Declined, Offer, native_offer
from lm_datafusion.engine.paths import any_rows, late, some_groups, top_k
from lm_datafusion.errors import LateError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lm_datafusion.engine.catalog import SessionCatalog
    from lm_datafusion.engine.query import Query
    from lm_datafusion.engine.shape import QueryShape

    Path = Callable[[Query], Offer | Declined]

_PATHS: dict[str, Path] = {m.NAME: m.offer for m in (late, top_k, any_rows, some_groups)}
_INFORMATION_SCHEMA = "information_schema"
# Which side becomes the left one depends on what DataFusion knows of the tables' sizes.
_OUTER_JOIN_BUG = "DataFusion 55 may filter the wrong side of an outer join whose sides it swaps"
# It drops a sort key that a filter makes a constant, and -0.0 = 0.0.
_ZEROS = "DataFusion takes a float that equals a value for a constant, and there are two zeros"


@dataclass(frozen=True, slots=True)
class Choice:
    """What runs, and what else could have; no shape: DataFusion could not plan the query."""

    shape: QueryShape | None
    offers: tuple[Offer, ...]
    declined: tuple[Declined, ...] = ()

    @property
    def best(self) -> Offer:
        """What runs."""
        return self.offers[0]


def choose(query: Query, catalog: SessionCatalog) -> Choice:
    """Asks every path."""
    reason = why_only_native(query, catalog)
    if reason:
        return only_native(query, reason)
    answers = [_asked(name, path, query) for name, path in _PATHS.items()]
    offers = [answer for answer in answers if isinstance(answer, Offer)]
    declined = tuple(answer for answer in answers if isinstance(answer, Declined))
    is_guess = query.is_new and any(answer.is_guess for answer in answers)
    if not offers:
        return only_native(query, declined[0].reason, declined, is_guess=is_guess)
    offers.sort(key=lambda offer: (offer.is_native, offer.seconds))
    best = offers[0]
    reason = best.reason if best.is_native else _why_native(best)
    own = native_offer(query.uses, reason, best.native_s, is_guess=is_guess)
    is_forced = not best.is_native and any(
        use.options.path == "late" or use.table.is_remote or not use.table.has_native_reader
        for use in query.uses
    )
    return Choice(
        query.shape, (*offers, own) if is_forced or best.pays else (own, *offers), declined
    )


def only_native(
    query: Query, reason: str, declined: tuple[Declined, ...] = (), *, is_guess: bool = False
) -> Choice:
    """DataFusion's own reader, because nothing else was asked, or nothing else offers."""
    return Choice(query.shape, (native_offer(query.uses, reason, is_guess=is_guess),), declined)


def why_only_native(query: Query, catalog: SessionCatalog) -> str:
    """Why no other reader may serve a query; empty if one may."""
    shape = query.shape
    if not query.uses:
        return "no Parquet table of local files"
    if any(use.can_fail() for use in query.uses):
        return "a filter that can fail on a value is left to DataFusion"
    if shape.narrows_outer_join():
        return _OUTER_JOIN_BUG
    if shape.has_order and any(use.equates_floats() for use in query.uses):
        return _ZEROS
    if any(_INFORMATION_SCHEMA in name[:-1] for name in shape.scans):
        return "the query reads the information schema"
    if catalog.calls_user_function(shape.scan_filters):
        return "a filter calls a function of the user's"
    if shape.asks_for_time:
        return "the query asks for the time"
    reasons = [use.why_native for use in query.uses]
    return "; ".join(dict.fromkeys(reasons)) if all(reasons) else ""


def _asked(name: str, path: Path, query: Query) -> Offer | Declined:
    if name != late.NAME and any(use.table.is_remote for use in query.uses):
        return Declined(name, "the pages of an object store are not read one by one")
    try:
        return path(query)
    except LateError as error:
        return Declined(name, str(error))


def _why_native(best: Offer) -> str:
    return (
        f"the next best path, {best.name}, would take {(best.seconds or 0) * 1e3:,.1f} ms,"
        f" this one {(best.native_s or 0) * 1e3:,.1f} ms"
    )
