"""The cheapest offer.

In: a query. Out: every offer, the one to run first, and why other paths declined.

Invariant: DataFusion's own reader is always among the offers. It is the only one for a query whose
answer could depend on the reader.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lm_datafusion.engine.cost import PAYS
from lm_datafusion.engine.offer import Declined, Offer
from lm_datafusion.engine.paths import any_rows, late, native, some_groups, top_k

if TYPE_CHECKING:
    from lm_datafusion.engine.catalog import SessionCatalog
    from lm_datafusion.engine.offer import Path
    from lm_datafusion.engine.query import Query
    from lm_datafusion.engine.shape import QueryShape

_PATHS: tuple[Path, ...] = (late.offer, top_k.offer, any_rows.offer, some_groups.offer)
_INFORMATION_SCHEMA = "information_schema"
# Which side becomes the left one depends on what DataFusion knows of the tables' sizes.
_OUTER_JOIN_BUG = "DataFusion 55 may filter the wrong side of an outer join whose sides it swaps"
# It drops a sort key that a filter makes a constant, and -0.0 = 0.0.
_ZEROS = "DataFusion takes a float that equals a value for a constant, and there are two zeros"


@dataclass(frozen=True, slots=True)
class Choice:
    """What runs, and what else could have."""

    query: Query | None
    offers: tuple[Offer, ...]
    declined: tuple[Declined, ...] = ()

    @property
    def shape(self) -> QueryShape | None:
        """What the query asks of its tables; None if DataFusion could not say."""
        return None if self.query is None else self.query.shape

    @property
    def best(self) -> Offer:
        """What runs."""
        return self.offers[0]


def choose(query: Query, catalog: SessionCatalog) -> Choice:
    """Asks every path."""
    reason = why_only_native(query, catalog)
    if reason:
        return only_native(query, reason)
    answers = [path(query) for path in _PATHS]
    offers = [answer for answer in answers if isinstance(answer, Offer)]
    declined = tuple(answer for answer in answers if isinstance(answer, Declined))
    is_guess = query.is_new and any(answer.is_guess for answer in answers)
    if not offers:
        reason = declined[0].reason
        return Choice(query, (native.offer(query.uses, reason, is_guess=is_guess),), declined)
    offers.sort(key=lambda offer: offer.seconds or 0.0)
    reason, native_s = _why_native(offers[0]), offers[0].native_s
    own = native.offer(query.uses, reason, native_s, is_guess=is_guess)
    is_forced = any(
        use.options.path == "late" or not use.table.has_native_reader for use in query.uses
    )
    ordered = [*offers, own] if is_forced or _pays(offers[0]) else [own, *offers]
    return Choice(query, tuple(ordered), declined)


def only_native(query: Query | None, reason: str) -> Choice:
    """DataFusion's own reader, without asking others; no query: DataFusion could not plan it."""
    return Choice(query, (native.offer(() if query is None else query.uses, reason),))


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
    return ""


def _pays(offer: Offer) -> bool:
    return (offer.seconds or 0.0) <= PAYS * (offer.native_s or 0.0)


def _why_native(best: Offer) -> str:
    return (
        f"the next best path, {best.name}, would take {(best.seconds or 0) * 1e3:,.1f} ms,"
        f" this one {(best.native_s or 0) * 1e3:,.1f} ms"
    )
