"""Title: mostly Russian words, the same while a visitor stays on a page.

In: rows and rare events of a block. Out: a string array. A title is missing, or one of the
counter's common ones, or unique; CounterID 62 has its published tops.

Invariant: `Google` is only in titles of the event of that name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from clickbench import published
from clickbench.model import events, lexicon
from clickbench.model.long_text import Texts, stretch, write_titles
from clickbench.model.noise import Flags, Integers, Noise, log_rank

if TYPE_CHECKING:
    import pyarrow as pa

    from clickbench.model.counter_facts import CounterFacts
    from clickbench.model.visits import Rows

_UNIQUE = 0.110
_UNIQUE_BYTES = 126.0
_COMMON_BYTES = 97.0
_EDGES_62 = np.cumsum(list(published.TOP_TITLES_62.values())) / published.ROWS_62_TITLED


def make_titles(
    rows: Rows, source: Integers, facts: CounterFacts, noise: Noise, google: events.Found,
    in_62: Flags,
) -> pa.Array:  # fmt: skip
    """Title of a block; `source` is the row that opened each row's page."""
    opened = rows.number[source]
    unique = noise.uniform("unique title", opened) < _UNIQUE
    count = np.maximum(facts.common_count[rows.counter] // 2, 40)
    rank = log_rank(noise.uniform("title rank", opened), count, 12.0)
    common_key = noise.bits("common title", rows.counter * (1 << 32) + rank)
    key = np.where(unique, noise.bits("unique title key", opened), common_key)
    size = np.where(
        unique,
        _UNIQUE_BYTES * np.minimum(stretch(noise, "title stretch", key), 5.0),
        _COMMON_BYTES * (0.6 + 0.8 * noise.uniform("title jitter", key)),
    )
    texts = Texts(key, np.full(len(key), lexicon.NOTHING), size, unique)
    here = np.flatnonzero(in_62)
    pick = np.searchsorted(_EDGES_62, noise.uniform("top title", opened[here]), "right")
    hit = pick < len(_EDGES_62)
    texts.put_literals(here[hit], lexicon.first("titles 62") + pick[hit])
    texts.clear(np.flatnonzero(noise.uniform("titleless", opened) < facts.titleless[rows.counter]))
    number = noise.below("google titles", google.event, lexicon.size("google titles"))
    texts.put(
        google.rows,
        literal=lexicon.first("google titles") + number,
        key=noise.bits("google title key", google.event),
        size=110.0,
    )
    return write_titles(texts, noise)
