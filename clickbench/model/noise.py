"""Randomness that is a function of what it is for: hash of (seed, purpose, thing).

In: a seed, the name of a purpose, an array of ids (rows, users, pages). Out: 64 random bits, or
a number in [0, 1), per id. The mixer is the finalizer of SplitMix64, a bijection: different ids
get different bits. Nothing depends on the order of calls, which is what makes blocks independent.

`Choice` draws from weighted values. `log_rank` draws ranks with probability about 1 / (rank + 1),
the law of Zipf that pages, phrases and regions follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import xxhash

if TYPE_CHECKING:
    from collections.abc import Sequence

Bits = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_TO_UNIT = 2.0**-53


@dataclass(frozen=True)
class Noise:
    """The random bits of one seed."""

    seed: int

    def bits(self, purpose: str, ids: npt.NDArray[Any]) -> Bits:
        """64 bits per id, the same for the same (seed, purpose, id)."""
        key = np.uint64(xxhash.xxh64_intdigest(f"{self.seed}/{purpose}".encode()))
        x = ids.astype(np.uint64) * _GOLDEN
        x += key
        x ^= x >> np.uint64(30)
        x *= _FIRST
        x ^= x >> np.uint64(27)
        x *= _SECOND
        x ^= x >> np.uint64(31)
        return x

    def uniform(self, purpose: str, ids: npt.NDArray[Any]) -> Numbers:
        """A number in [0, 1) per id."""
        return to_unit(self.bits(purpose, ids))

    def below(self, purpose: str, ids: npt.NDArray[Any], limit: int) -> Integers:
        """An integer in [0, limit) per id."""
        return (self.uniform(purpose, ids) * limit).astype(np.int64)


def to_unit(bits: Bits) -> Numbers:
    """Bits as numbers in [0, 1)."""
    return (bits >> np.uint64(11)).astype(np.float64) * _TO_UNIT


class Choice:
    """Values with weights; `pick` takes numbers in [0, 1) and returns indices of values."""

    def __init__(self, weights: Sequence[float] | Numbers) -> None:
        cumulative = np.cumsum(np.asarray(weights, dtype=np.float64))
        self._edges = cumulative[:-1] / cumulative[-1]

    def pick(self, unit: Numbers) -> Integers:
        """The index that each number falls on."""
        return np.searchsorted(self._edges, unit, side="right").astype(np.int64)


def log_rank(unit: Numbers, count: Any, shift: float = 1.0) -> Integers:
    """Ranks in [0, count) with probability about 1 / (rank + shift); `count` may be an array."""
    ranks = shift * np.power(np.asarray(count) / shift + 1.0, unit) - shift
    return np.minimum(ranks.astype(np.int64), np.asarray(count, dtype=np.int64) - 1)
