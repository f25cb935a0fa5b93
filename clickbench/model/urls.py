"""URL, URLHash and OriginalURL.

In: rows and rare events of a block. Out: two string arrays and a hash. A row stays on the page
of the row before, or opens one of the counter's common pages (ranks by Zipf's law, the published
tops with their share) or a page seen nowhere else. Common URLs are short and unique ones long;
each counter has its mean length.

Invariant: `google` is only in pages of the event of that name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from clickbench import published
from clickbench.model import events, lexicon
from clickbench.model.long_text import Texts, stretch, write_urls
from clickbench.model.noise import Integers, Noise, log_rank

if TYPE_CHECKING:
    import pyarrow as pa

    from clickbench.model.counter_facts import CounterFacts
    from clickbench.model.visits import Rows

_FIRST_RANKS = 8  # pages with so many rows that their length has to be the mean
_MOST_BYTES = 6_000
_OTHER_HASH = 0.004  # rows whose hash is not the usual one of their URL


@dataclass(frozen=True)
class RareUrls:
    """Events that change the URL of rows."""

    google: events.Found
    empty: events.Found
    broken: events.Found


def make_urls(
    rows: Rows, source: Integers, facts: CounterFacts, noise: Noise, rare: RareUrls
) -> tuple[pa.Array, Integers]:
    """URL and URLHash of a block; `source` is the row that opened each row's page."""
    opened = rows.number[source]
    counter = rows.counter
    unique = noise.uniform("unique url", opened) < facts.unique_url[counter]
    rank = log_rank(noise.uniform("url rank", opened), facts.common_count[counter], 6.0)
    common_key = noise.bits("common url", counter * (1 << 32) + rank)
    key = np.where(unique, noise.bits("unique url key", opened), common_key)
    jitter = np.where(rank < _FIRST_RANKS, 1.0, 0.5 + noise.uniform("url jitter", common_key))
    size = np.where(
        unique,
        facts.unique_bytes[counter] * stretch(noise, "url stretch", key),
        facts.common_bytes[counter] * jitter,
    )
    texts = Texts(key, facts.site[counter].copy(), np.minimum(size, _MOST_BYTES), unique)
    _put_tops(texts, rows, opened, facts, noise)
    _put_rare(texts, noise, rare)
    return write_urls(texts, noise), _hashes(texts, rows, noise)


def _put_tops(
    texts: Texts, rows: Rows, opened: Integers, facts: CounterFacts, noise: Noise
) -> None:
    for index, tops in facts.tops.items():
        here = np.flatnonzero(rows.counter == index)
        if len(here):
            pick = np.searchsorted(tops.edges, noise.uniform("top url", opened[here]), "right")
            hit = pick < len(tops.literals)
            texts.put_literals(here[hit], tops.literals[pick[hit]])


def _put_rare(texts: Texts, noise: Noise, rare: RareUrls) -> None:
    for name, found, size in (
        ("google urls", rare.google, 95.0),
        ("broken urls", rare.broken, 70.0),
    ):
        number = noise.below(name, found.event, lexicon.size(name))
        key = noise.bits(f"{name} key", found.event)
        texts.put(found.rows, literal=lexicon.first(name) + number, key=key, size=size)
    texts.clear(rare.empty.rows)


def _hashes(texts: Texts, rows: Rows, noise: Noise) -> Integers:
    other = noise.uniform("other hash", rows.number) < _OTHER_HASH
    hashes = noise.bits("url hash", texts.key ^ other.astype(np.uint64)).astype(np.int64)
    top = texts.literal == lexicon.first("urls 62")
    hashes[top & (texts.size == 0)] = published.HASH_OF_URL_62
    hashes[texts.literal == lexicon.NOTHING] = published.HASH_OF_EMPTY_URL
    return hashes


def make_original_urls(rows: Rows, source: Integers, facts: CounterFacts, noise: Noise) -> pa.Array:
    """OriginalURL: only some counters have any; half of them are unique, and long."""
    opened = rows.number[source]
    has = noise.uniform("original url", opened) < facts.original[rows.counter]
    unique = noise.uniform("unique original", opened) < 0.52
    rank = log_rank(
        noise.uniform("original rank", opened), 2 * facts.common_count[rows.counter], 4.0
    )
    common_key = noise.bits("common original", rows.counter * (1 << 32) + rank)
    key = np.where(unique, noise.bits("unique original key", opened), common_key)
    size = np.where(unique, 400.0 * stretch(noise, "original stretch", key), 215.0)
    texts = Texts(key, facts.site[rows.counter].copy(), np.minimum(size, _MOST_BYTES), unique)
    texts.clear(np.flatnonzero(~has))
    return write_urls(texts, noise)
