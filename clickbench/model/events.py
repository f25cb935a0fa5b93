"""Rare things in exact numbers: adverts, pages of Google, empty URLs, line breaks in URLs.

In: a block of a plan. Out: per kind, the rows of the block it happens in. The rows of the whole
data set are cut into as many even cells as there are events; each cell has one event, at a
hashed position, a few rows long. So the number of rows does not vary with the seed, and each block
finds its own events.

Where a share of the published rate would leave next to nothing in a small data set, a floor
applies: a query with no row at all tests nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clickbench import published
from clickbench.model.noise import Flags, Integers, Noise, Numbers
from clickbench.model.plan import Plan, ad_free, shares

_GOLDEN = 0.6180339887498949


@dataclass(frozen=True)
class Kind:
    """A kind of event: how many rows of the full table, and the lengths of events in turn."""

    name: str
    rows: float
    lengths: tuple[int, ...] = (1,)
    floor: int = 0


@dataclass(frozen=True)
class Found:
    """Rows of a block in which a kind of event happens, and the event each belongs to."""

    rows: Integers  # position in the block
    event: Integers

    def where(self, keep: Flags) -> Found:
        """Some of the rows."""
        return Found(self.rows[keep], self.event[keep])


GOOGLE_URL = Kind("google url", published.GOOGLE_URL_ROWS, (1, 2, 3, 4), floor=10)
GOOGLE_TITLE = Kind("google title", published.GOOGLE_TITLE_ROWS, (1, 2, 3), floor=12)
EMPTY_URL = Kind(
    "empty url",
    published.EMPTY_URL_ROWS / (1 - published.ROWS_62 / published.ROWS),
    (2, 3, 4),
    floor=6,
)
BROKEN_URL = Kind("line break in url", 3_740, floor=2)
BROKEN_REFERER = Kind("line break in referer", 2_168, floor=2)
_ADVERT_ROWS = sum(published.ADVERTS.values())


def advert(plan: Plan) -> Kind:
    """Adverts: as many as published, outside the counters that have none."""
    served = 1 - float(shares(plan.counters)[ad_free(plan.counters)].sum())
    return Kind("advert", _ADVERT_ROWS / served, (1, 1, 2), floor=40)


def event_count(kind: Kind, rows: int) -> int:
    """Events of a kind in a data set of this many rows."""
    wanted = max(kind.rows * rows / published.ROWS, kind.floor)
    return max(round(wanted / (sum(kind.lengths) / len(kind.lengths))), 1)


def find(kind: Kind, plan: Plan, block: int) -> Found:
    """The rows of a block in which a kind of event happens."""
    start, stop = plan.block_range(block)
    count = event_count(kind, plan.rows)
    first = max(start * count // plan.rows - 1, 0)
    last = min(stop * count // plan.rows + 2, count)
    event = np.arange(first, last, dtype=np.int64)
    begin, end = event * plan.rows // count, (event + 1) * plan.rows // count
    unit = Noise(plan.seed).uniform(kind.name, event)
    lengths = np.array(kind.lengths)[event % len(kind.lengths)]
    # The whole event fits in its cell, if the cell has room for it.
    at = begin + (unit * np.maximum(end - begin - lengths, 1)).astype(np.int64)
    row = np.repeat(at, lengths) + _counting(lengths)
    owner = np.repeat(event, lengths)
    inside = (row >= start) & (row < stop)
    return Found(row[inside] - start, owner[inside])


def _counting(lengths: Integers) -> Integers:
    """0, 1, ... up to each length."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)


def every(event: Integers, share: float, count: int, least: int) -> Flags:
    """Picks a share of events evenly, at least `least` of all `count` of them."""
    share = min(max(share, least / count), 1.0)
    return np.floor((event + 1) * share) > np.floor(event * share)


def low_discrepancy(event: Integers) -> Numbers:
    """Numbers in [0, 1) that fill it evenly, so that drawn shares are nearly exact."""
    return (event.astype(np.float64) * _GOLDEN + 0.5) % 1.0
