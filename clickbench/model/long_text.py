"""A column of long texts: a key, a beginning and a length per row, written once per key.

In: `Texts`. Out: an Arrow string array. A text is a literal, then (if it has to be unique)
twelve letters of its key, otherwise three, then slices of soup up to its length.

Invariant: rows with the same key have the same literal, length and kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from clickbench.model import lexicon
from clickbench.model.text import CODE_BYTES, Spans

if TYPE_CHECKING:
    from clickbench.model.noise import Bits, Flags, Integers, Noise, Numbers

_TAIL_BYTES = 12
_CYRILLIC_URLS = 0.19


@dataclass
class Texts:
    """A column in the making, one entry per row."""

    key: Bits
    literal: Integers
    size: Numbers  # bytes of the whole text; 0 for the literal alone
    unique: Flags

    def put(self, rows: Integers, *, literal: Integers, key: Bits, size: float) -> None:
        """Overrides some rows: a literal as the beginning, then what makes it unique."""
        self.key[rows] = key
        self.literal[rows] = literal
        self.size[rows] = size
        self.unique[rows] = True

    def put_literals(self, rows: Integers, literal: Integers) -> None:
        """Overrides some rows by literals that stand alone."""
        # Keys below 2**20 are those of literals; a hash is one of them with chance 2**-44.
        self.key[rows] = literal.astype(np.uint64)
        self.literal[rows] = literal
        self.size[rows] = 0
        self.unique[rows] = False

    def clear(self, rows: Integers) -> None:
        """Makes some rows empty."""
        self.put_literals(rows, np.full(len(rows), lexicon.NOTHING))


def repeat_source(stays: Flags) -> Integers:
    """Per row, the last row up to it that does not stay where the one before was."""
    return np.maximum.accumulate(np.where(stays, 0, np.arange(len(stays))))


def stretch(noise: Noise, name: str, ids: Bits | Integers) -> Numbers:
    """Factors of mean 1 with a long tail, for the lengths of unique texts."""
    return 0.35 - 0.65 * np.log(1 - noise.uniform(name, ids))


def write_urls(texts: Texts, noise: Noise) -> pa.Array:
    """URL-like texts; one in seven has Cyrillic words."""
    keys, rows, inverse = np.unique(texts.key, return_index=True, return_inverse=True)
    arena = lexicon.arena()
    literal = arena.literal(texts.literal[rows])
    unique = texts.unique[rows]
    more = texts.size[rows] > 0
    first_code, *codes = arena.tail(keys)
    tail = np.where(unique, _TAIL_BYTES, np.where(more, CODE_BYTES, 0))
    rest = np.maximum(texts.size[rows].astype(np.int64) - literal.lengths - tail, 0)
    cyrillic = noise.uniform("cyrillic", keys) < _CYRILLIC_URLS
    words = np.where(cyrillic & (rest > 24), rest // 2, 0)
    parts = [
        literal,
        _only(first_code, more | unique),
        *(_only(part, unique) for part in codes),
        arena.url(noise.bits("url slice", keys), rest - words),
        arena.russian(noise.bits("url words", keys), words),
    ]
    return arena.join(parts).take(pa.array(inverse))


def write_titles(texts: Texts, noise: Noise) -> pa.Array:
    """Titles: words, after the literal if there is one."""
    keys, rows, inverse = np.unique(texts.key, return_index=True, return_inverse=True)
    arena = lexicon.arena()
    literal = arena.literal(texts.literal[rows])
    alone = texts.size[rows] <= 0
    rest = np.where(alone, 0, np.maximum(texts.size[rows].astype(np.int64) - literal.lengths, 8))
    space = _only(arena.literal(np.full(len(keys), lexicon.first("space"))), ~alone)
    parts = [
        literal,
        arena.russian(noise.bits("title begin", keys), rest * 45 // 100),
        space,
        arena.russian(noise.bits("title end", keys), rest * 55 // 100),
    ]
    return arena.join(parts).take(pa.array(inverse))


def _only(spans: Spans, keep: Flags) -> Spans:
    return Spans(spans.starts, np.where(keep, spans.lengths, 0))
