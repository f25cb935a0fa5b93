"""Where visitors come from: search phrases and engines, adverts, the source of traffic.

In: visits, rows and rare events of a block. Out: the columns SearchPhrase, SearchEngineID,
AdvEngineID. Phrases come in runs: some users have nothing but searches, others a stretch of them
now and then; inside a stretch three of four rows bring another phrase. A phrase is one of the
published ten, one of a common stock drawn by Zipf's law, or unique.

Invariant: SearchEngineID is 0 exactly where SearchPhrase is empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from clickbench import published
from clickbench.model import events, lexicon
from clickbench.model.noise import Choice, Flags, Integers, Noise, Numbers, log_rank
from clickbench.model.plan import Plan, ad_free, shares

if TYPE_CHECKING:
    from clickbench.model.visits import Rows, Visits

_LONGER_STRETCH = 0.62  # chance that a stretch of searches goes on
_SEARCH_RATE = 0.0400  # stretches that begin per row, outside search-only users
_NEW_PHRASE = 0.56
_UNIQUE = 0.36
_STOCK_PER_ROW = 0.04
_OWN_ENGINE = 0.9
_ENGINES = np.array([2, 3, 13, 17, 24, 37, 51, 52, 70, 90])
_ENGINE = Choice([0.655, 0.30, 0.015, 0.01, 0.006, 0.005, 0.004, 0.002, 0.002, 0.001])
_TOP = Choice([*published.TOP_PHRASES.values(), published.SEARCH_ROWS
               - sum(published.TOP_PHRASES.values())])  # fmt: skip
_ADVERT_IDS = np.array([*published.ADVERTS])
_ADVERT = Choice([*published.ADVERTS.values()])


@dataclass(frozen=True)
class Searches:
    """Columns about the way to the page."""

    phrase: pa.Array
    has_phrase: Flags
    engine: Integers
    advert: Integers


def make_searches(
    plan: Plan, visits: Visits, rows: Rows, forced: tuple[Flags, Flags], adverts: events.Found
) -> Searches:
    """Phrases, engines and adverts of a block; `forced` are rows with and rows without a phrase."""
    noise = Noise(plan.seed)
    has_phrase = _stretches(plan, visits, rows, noise)
    has_phrase |= visits.search_only[rows.visit]
    has_phrase &= ~visits.is_fixed[rows.visit]
    has_phrase = (has_phrase | forced[0]) & ~forced[1]
    searched = np.flatnonzero(has_phrase)
    source = _sources(rows, searched, noise)
    kinds, inverse = np.unique(source, return_inverse=True)
    texts = _phrases(plan, kinds, noise)
    index = np.full(len(rows.number), len(texts), dtype=np.int64)
    index[searched] = inverse
    engine = np.zeros(len(rows.number), dtype=np.int64)
    engine[searched] = _engines(source, visits.user[rows.visit[searched]], noise)
    advert = np.zeros(len(rows.number), dtype=np.int64)
    served = ~ad_free(plan.counters)[rows.counter[adverts.rows]]
    found = adverts.where(served)
    advert[found.rows] = _ADVERT_IDS[_ADVERT.pick(events.low_discrepancy(found.event))]
    phrase = pa.concat_arrays([texts, pa.array([""])]).take(pa.array(index))
    return Searches(phrase, has_phrase, engine, advert)


def _engines(source: Integers, user: Integers, noise: Noise) -> Integers:
    """Users have an engine that they mostly use."""
    own = noise.uniform("own engine", source) < _OWN_ENGINE
    unit = np.where(own, noise.uniform("engine of user", user), noise.uniform("engine", source))
    return _ENGINES[_ENGINE.pick(unit)]


def _rates(plan: Plan, noise: Noise) -> Numbers:
    """Stretches per row by counter: they differ, with the published mean."""
    factor = 0.6 + 0.8 * noise.uniform("search rate", plan.counters.ids)
    factor[plan.counters.ids <= 62] = 0.45
    return _SEARCH_RATE * factor / (factor * shares(plan.counters)).sum()


def _stretches(plan: Plan, visits: Visits, rows: Rows, noise: Noise) -> Flags:
    """Rows in stretches of searches, which end with the visit at the latest."""
    begins = np.flatnonzero(
        noise.uniform("search", rows.number) < _rates(plan, noise)[rows.counter]
    )
    unit = noise.uniform("search length", rows.number[begins])
    length = 1 + np.floor(np.log(1 - unit) / np.log(_LONGER_STRETCH)).astype(np.int64)
    ends = (visits.starts + visits.rows)[rows.visit[begins]]
    change = np.zeros(len(rows.number) + 1, dtype=np.int64)
    np.add.at(change, begins, 1)
    np.add.at(change, np.minimum(begins + length, ends), -1)
    return np.cumsum(change)[:-1] > 0


def _sources(rows: Rows, searched: Integers, noise: Noise) -> Integers:
    """Per row with a phrase, the row (of the data set) that brought it."""
    new = noise.uniform("new phrase", rows.number[searched]) < _NEW_PHRASE
    new |= rows.is_first[searched]
    new |= np.diff(searched, prepend=-2) > 1
    position = np.where(new, np.arange(len(searched)), 0)
    return rows.number[searched][np.maximum.accumulate(position)]


def _phrases(plan: Plan, sources: Integers, noise: Noise) -> pa.Array:
    """The phrases that rows brought, one of each."""
    arena = lexicon.arena()
    top = _TOP.pick(noise.uniform("top phrase", sources))
    is_top = top < len(published.TOP_PHRASES)
    is_unique = noise.uniform("unique phrase", sources) < _UNIQUE
    stock = max(int(plan.rows * _STOCK_PER_ROW), 200)
    rank = log_rank(noise.uniform("phrase rank", sources), stock, 200.0)
    key = np.where(is_unique, sources, rank)
    bits = np.where(is_unique, noise.bits("phrase", key), noise.bits("stock phrase", key))
    mean = np.where(is_unique, 58.0, np.where(rank < 1000, 29.0, 44.0))
    size = (mean * (0.5 + (bits >> np.uint64(40)) * 2.0**-24)).astype(np.int64)
    left = arena.russian(bits, size * 4 // 10)
    right = arena.russian(noise.bits("phrase end", bits), size * 6 // 10)
    # A published phrase stands alone: the other parts get no length.
    space = arena.literal(np.full(len(key), lexicon.first("space")))
    literal = arena.literal(lexicon.first("phrases") + np.where(is_top, top, 0))
    for part in (left, right, space):
        part.lengths[is_top] = 0
    literal.lengths[~is_top] = 0
    return arena.join([literal, left, space, right])
