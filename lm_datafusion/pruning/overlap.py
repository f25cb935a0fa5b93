"""How well minima and maxima separate containers.

In: the bounds of row groups (or of pages), and the number of values in each. Out: the share of
containers that a lookup of one value has to read.

A random value is drawn: a container in proportion to its values, then a point between its minimum
and its maximum, uniformly. The result is the share of containers whose bounds include that point:

    sorted     [--][--][--][--]           1 in 4
    shuffled   [------------] four times  all 4

Text has no distances, so the eight bytes after the longest common prefix of all bounds are used as
a number.

Why not compare bounds with bounds: bounds of shuffled data are close to each other at both ends,
and half of them would seem useful.

Invariant: 0 < share <= 1; None if no container has bounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

# The number of containers compared with all others; more would take longer and add nothing.
_SAMPLE: Final = 256
_KEY_BYTES: Final = 8


def overlap_share(
    minima: pa.Array, maxima: pa.Array, value_counts: Sequence[int] | npt.NDArray[np.int64]
) -> float | None:
    """The share of containers whose bounds include a random value.

    Args:
        minima: One per container, null where unknown.
        maxima: Likewise.
        value_counts: Values of each container; those without any are ignored.

    Returns:
        The share of containers with values; a container without bounds includes every value.
    """
    counts = np.asarray(value_counts, dtype=np.float64)
    is_known = np.asarray(minima.is_valid()) & np.asarray(maxima.is_valid()) & (counts > 0)
    known = np.flatnonzero(is_known)
    if not len(known):
        return None
    low, high = _fractions(minima.take(pa.array(known)), maxima.take(pa.array(known)))
    sampled = np.unique(np.linspace(0, len(known) - 1, _SAMPLE).round().astype(np.int64))
    hits = _hits(low[sampled], high[sampled], low, high)
    unknown_count = int((counts > 0).sum()) - len(known)
    share = (hits + unknown_count) / (len(known) + unknown_count)
    return float(np.average(share, weights=counts[known][sampled]))


def is_ascending(minima: pa.Array, maxima: pa.Array) -> bool:
    """Whether each container begins at or after the end of the one before."""
    lows, highs = minima.to_pylist(), maxima.to_pylist()
    if len(lows) < 2 or None in lows or None in highs:  # noqa: PLR2004 one container has no order
        return False
    pairs = zip(highs, lows[1:], strict=False)
    return all(high <= low for high, low in pairs) and lows[0] != highs[-1]


def _hits(low: Floats, high: Floats, lows: Floats, highs: Floats) -> Floats:
    """For each of some ranges, how many of all ranges include a point of it, on average."""
    shared = np.minimum.outer(high, highs) - np.maximum.outer(low, lows)
    length = (high - low)[:, None]
    is_point = length <= 0
    inside = np.where(
        is_point, shared >= 0, np.clip(shared, 0, None) / np.where(is_point, 1, length)
    )
    return np.asarray(inside.sum(axis=1), dtype=np.float64)


def _fractions(minima: pa.Array, maxima: pa.Array) -> tuple[Floats, Floats]:
    """Bounds as numbers between 0 and 1."""
    if pa.types.is_binary(minima.type):
        both = _text_numbers(minima.to_pylist() + maxima.to_pylist())
    else:
        both = _numbers(minima, maxima)
    smallest, largest = min(both), max(both)
    span = (largest - smallest) or 1
    fractions = np.array([float((value - smallest) / span) for value in both])
    return fractions[: len(minima)], fractions[len(minima) :]


def _text_numbers(bounds: list[bytes]) -> list[int]:
    """The bytes after the common prefix, as numbers in the same order."""
    first, last = min(bounds), max(bounds)  # what these share, all share
    start = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), None)
    start = min(len(first), len(last)) if start is None else start
    keys = [bound[start:][:_KEY_BYTES].ljust(_KEY_BYTES, b"\0") for bound in bounds]
    return [int.from_bytes(key) for key in keys]


def _numbers(minima: pa.Array, maxima: pa.Array) -> list[Any]:
    """Bounds as numbers, exact for integers; infinities become the finite extremes."""
    both = pa.concat_arrays([minima, maxima])
    types = pa.types
    if types.is_temporal(both.type):
        both = both.view(pa.int32() if both.type.bit_width == 32 else pa.int64())  # noqa: PLR2004
    elif types.is_boolean(both.type):
        both = both.cast(pa.int8())
    if types.is_floating(both.type):
        numbers = np.nan_to_num(np.asarray(both.cast(pa.float64())), posinf=1e300, neginf=-1e300)
        return list(np.clip(numbers, -1e300, 1e300))
    return both.to_pylist()
