"""What differs from counter to counter: length and variety of its texts, its tops, its site.

In: the counters of a plan. Out: arrays by counter. Published means are met by construction: what
is not published of one counter is drawn, then scaled so that the mean over all rows is right.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from clickbench import published
from clickbench.model import lexicon
from clickbench.model.noise import Flags, Integers, Noise, Numbers
from clickbench.model.plan import Counters, Plan, shares

_MEAN_URL_BYTES = 90.4
_UNIQUE_URLS = 0.208  # of rows that open a page
_UNIQUE_URLS_62 = 0.80  # 298,800 URLs in 671,500 rows
_COMMON_URLS = 0.03  # per row
_UNIQUE_LENGTH = 1.92  # times the counter's mean
_TITLELESS = published.EMPTY_TITLE_ROWS / published.ROWS
_TITLELESS_62 = 1 - published.ROWS_62_TITLED / published.ROWS_62_COUNTED
_ORIGINAL = 1 - published.EMPTY_ORIGINAL_URL_ROWS / published.ROWS
# Where the most frequent URLs live: rank among large counters -> numbers of published URLs.
_HOMES = {0: (0, 6), 1: (1, 7), 2: (2,), 3: (3, 8), 4: (4,), 5: (5,), 6: (9,)}


@dataclass(frozen=True)
class Tops:
    """Texts with a fixed share of one counter's rows: numbers of literals, cumulative shares."""

    literals: Integers
    edges: Numbers


@dataclass(frozen=True)
class CounterFacts:
    """Per counter, in the order of its index."""

    unique_url: Numbers  # share of opened pages that are unique
    unique_bytes: Numbers
    common_bytes: Numbers
    common_count: Integers  # pages that are opened again and again
    titleless: Numbers
    original: Numbers  # share of rows with an OriginalURL
    site: Integers  # number of a literal
    tops: dict[int, Tops]  # index of a counter -> its published URLs


def _tops(counters: Counters) -> dict[int, Tops]:
    found = {}
    urls = np.array(list(published.TOP_URLS.values()))
    for rank, numbers in _HOMES.items():
        index = int(np.flatnonzero(counters.large_rank == rank)[0])
        picked = np.array(numbers)
        edges = np.cumsum(urls[picked]) / counters.rows[index]
        found[index] = Tops(lexicon.first("top urls") + picked, edges)
    index = int(np.flatnonzero(counters.ids == 62)[0])
    rows = np.array(list(published.TOP_URLS_62.values()))
    rows[0] = published.ROWS_62_URL_HASH
    literals = lexicon.first("urls 62") + np.arange(len(rows))
    found[index] = Tops(literals, np.cumsum(rows) / published.ROWS_62_COUNTED)
    return found


def _scaled(values: Numbers, weights: Numbers, mean: float, free: Flags) -> Numbers:
    """Scales the free values so that the weighted mean of all is `mean`."""
    fixed = (values * weights)[~free].sum()
    factor = (mean * weights.sum() - fixed) / (values * weights)[free].sum()
    return np.where(free, values * factor, values)


def _url_bytes(counters: Counters, noise: Noise) -> tuple[Numbers, Flags]:
    drawn = 0.8 + 0.4 * noise.uniform("url bytes", counters.ids)
    known = np.isin(counters.ids, list(published.COUNTER_FACTS))
    means = [published.COUNTER_FACTS.get(int(i), (0, 0.0))[1] for i in counters.ids]
    values = np.where(known, means, drawn)
    return _scaled(values, shares(counters), _MEAN_URL_BYTES, ~known), known


def _without_tops(mean: Numbers, tops: dict[int, Tops]) -> Numbers:
    """The mean length of the rows that do not have one of the published URLs."""
    rest = mean.copy()
    lengths = lexicon.arena()
    for index, top in tops.items():
        part = np.diff(top.edges, prepend=0.0)
        bytes_ = float((lengths.literal(top.literals).lengths * part).sum())
        rest[index] = (mean[index] - bytes_) / (1 - top.edges[-1])
    return np.maximum(rest, 34.0)


@cache
def counter_facts(plan: Plan) -> CounterFacts:
    """The facts of all counters."""
    counters, seed = plan.counters, plan.seed
    noise = Noise(seed)
    weights = shares(counters)
    mean, known = _url_bytes(counters, noise)
    tops = _tops(counters)
    rest = _without_tops(mean, tops)
    variety = np.where(
        known, (mean / 70) ** 0.3, 0.3 + 1.4 * noise.uniform("variety", counters.ids)
    )
    unique = np.clip(variety * _UNIQUE_URLS / (variety * weights).sum(), 0.005, 0.6)
    unique[counters.ids == 62] = _UNIQUE_URLS_62
    unique_bytes = rest * np.where(unique > 0.4, 1.1, _UNIQUE_LENGTH)
    titleless = np.where(
        counters.ids == 62, _TITLELESS_62, 0.3 + 1.4 * noise.uniform("titleless", counters.ids)
    )
    has_original = noise.uniform("original", counters.ids) < 0.3
    return CounterFacts(
        unique_url=unique,
        unique_bytes=unique_bytes,
        common_bytes=(rest - unique * unique_bytes) / (1 - unique),
        common_count=np.clip(weights * plan.rows * _COMMON_URLS, 8, 60_000).astype(np.int64),
        titleless=_scaled(titleless, weights, _TITLELESS, counters.ids != 62),
        original=_original(has_original, weights),
        site=lexicon.first("sites") + noise.below("site", counters.ids, lexicon.size("sites")),
        tops=tops,
    )


def _original(has: Flags, weights: Numbers) -> Numbers:
    """Whole counters have OriginalURL or not; added until there are enough of them."""
    order = np.argsort(~has, kind="stable")
    covered = np.cumsum(weights[order])
    chosen = np.zeros(len(has), dtype=np.bool_)
    chosen[order[: int(np.searchsorted(covered, 0.27)) + 1]] = True
    return np.where(chosen, _ORIGINAL / weights[chosen].sum(), 0.0)
