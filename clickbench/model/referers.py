"""Referer and RefererHash.

In: rows and rare events of a block. Out: a string array, a hash and two flags. A referer is
missing, or from one of the 77 hosts above 100,000 rows (25 with published rows and lengths), or
from a rarer host, or from a host seen nowhere else. Inside a visit it often stays the same.

Invariant: the hash of Q40 belongs to one referer, which only CounterID 62 has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from clickbench import published
from clickbench.model import events, lexicon
from clickbench.model.long_text import Texts, repeat_source, stretch, write_urls
from clickbench.model.noise import Choice, Flags, Integers, Noise, log_rank

if TYPE_CHECKING:
    import pyarrow as pa

    from clickbench.model.visits import Rows

_SAME = 0.30
_EMPTY = published.EMPTY_REFERER_ROWS / published.ROWS
_FILLED = published.ROWS - published.EMPTY_REFERER_ROWS
_UNIQUE = 0.265  # of referers that are opened
_UNIQUE_LENGTH, _COMMON_LENGTH = 1.70, 0.72  # times the host's mean
_COMMON_HOST_BYTES, _RARE_HOST_BYTES = 68.0, 74.0
_COMMON_HOST_SHARE, _LONE_HOST_SHARE = 0.43, 0.043
_COMMON_REFERERS = 0.015  # per row
_MOST_BYTES = 3_000
# Of all rows of CounterID 62, so that those without IsRefresh are as many as published.
_SHARE_62 = published.ROWS_62_REFERER_HASH / published.ROWS_62_NO_REFRESH

_KNOWN = np.array([rows for _, rows in published.REFERER_HOST_FACTS.values()]) / _FILLED
_COMMON = np.geomspace(1, 0.06, lexicon.COMMON_HOSTS)
_HOST_SHARE = np.concatenate(
    [
        _KNOWN,
        _COMMON / _COMMON.sum() * _COMMON_HOST_SHARE,
        [_LONE_HOST_SHARE, 1 - _KNOWN.sum() - _COMMON_HOST_SHARE - _LONE_HOST_SHARE],
    ]
)
_HOST = Choice(_HOST_SHARE)
_HOST_SHARE[-1] /= lexicon.RARE_HOSTS  # of one host
_LISTED = len(_KNOWN) + lexicon.COMMON_HOSTS
_LONE = _LISTED  # what `_HOST` returns for a host seen nowhere else
_BYTES = np.concatenate(
    [
        [mean for mean, _ in published.REFERER_HOST_FACTS.values()],
        np.full(lexicon.COMMON_HOSTS, _COMMON_HOST_BYTES),
        np.full(2, _RARE_HOST_BYTES),
    ]
)


@dataclass(frozen=True)
class Referers:
    """The referers of a block."""

    text: pa.Array
    hash: Integers
    present: Flags
    from_62: Flags  # the one that Q40 asks for


def make_referers(
    total: int, rows: Rows, noise: Noise, broken: events.Found, in_62: Flags
) -> Referers:
    """Referer and its hash, for a block of a data set of `total` rows."""
    stays = ~rows.is_first & (noise.uniform("same referer", rows.number) < _SAME)
    opened = rows.number[repeat_source(stays)]
    kind = _HOST.pick(noise.uniform("referer host", opened))
    rare = log_rank(noise.uniform("rare host", opened), lexicon.RARE_HOSTS, 100.0)
    literal = np.where(kind < _LISTED, lexicon.first("known hosts") + kind, 0)
    literal = np.where(kind > _LONE, lexicon.first("rare hosts") + rare, literal)
    literal = np.where(kind == _LONE, lexicon.first("http"), literal)
    unique = (noise.uniform("unique referer", opened) < _UNIQUE) | (kind == _LONE)
    count = np.clip(_HOST_SHARE[kind] * total * _COMMON_REFERERS, 5, 60_000).astype(np.int64)
    rank = log_rank(noise.uniform("referer rank", opened), count, 2.0)
    common_key = noise.bits("common referer", literal * (1 << 32) + rank)
    key = np.where(unique, noise.bits("unique referer key", opened), common_key)
    size = _BYTES[kind] * np.where(
        unique, _UNIQUE_LENGTH * stretch(noise, "referer stretch", key), _COMMON_LENGTH
    )
    texts = Texts(key, literal, np.minimum(size, _MOST_BYTES), unique)
    empty = noise.uniform("empty referer", opened) < _EMPTY
    from_62 = in_62 & (noise.uniform("referer 62", rows.number) < _SHARE_62)
    number = noise.below("broken referers", broken.event, lexicon.size("broken urls"))
    texts.put(
        broken.rows,
        literal=lexicon.first("broken urls") + number,
        key=noise.bits("broken referer key", broken.event),
        size=60.0,
    )
    texts.clear(np.flatnonzero(empty))
    here = np.flatnonzero(from_62)
    texts.put_literals(here, np.full(len(here), lexicon.first("referer 62")))
    hashes = noise.bits("referer hash", texts.key).astype(np.int64)
    present = texts.literal != lexicon.NOTHING
    hashes[from_62] = published.HASH_OF_REFERER_62
    hashes[~present] = published.HASH_OF_EMPTY_REFERER
    return Referers(write_urls(texts, noise), hashes, present, from_62)
