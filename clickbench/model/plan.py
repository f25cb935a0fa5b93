"""Which rows there are: counters, their dates, their order, and what stands at fixed places.

In: the number of rows and a seed. Out: a `Plan`, from which the pieces of any block are read off.
A segment is one date of one counter; a piece is a stretch of a segment that is filled from one
range of users. Steps:

1. Sizes of the 6,506 counters of the full table: 25 are published, 100 are above 100,000 rows,
   the rest follow a law of rank that leaves 4,220 of them in a 1 % sample, as published.
2. Dates: counters up to 62 live on 2013-07-15; larger ones have a date per 130,000 rows or so.
3. Order by (CounterID, EventDate), but for a few segments that are displaced, as in the real
   file; among them the last part of CounterID 62, which thus is in three row groups of 226.
4. Scale: cumulative rows are scaled to the number wanted and rounded down, so that any number of
   rows is a sample with every counter within one row of its share.

Invariant: rows 0 to N are covered by pieces without gap or overlap, and the plan depends on
nothing but (rows, seed).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from clickbench import published
from clickbench.model.noise import Flags, Integers, Noise, Numbers

BLOCK_ROWS = 65_536
# Changes when the same (rows, seed) gives other rows than before: a job begun with one version
# is not finished with another.
MODEL_VERSION = 2
LEAST_ROWS, MOST_ROWS = 1_000, 1_000_000_000

# Days of July 2013 that have rows, and how many of a hundred: 14 and 15 have 21.
_DATES = np.array(
    [
        15888,
        15889,
        15890,
        15891,
        15892,
        15893,
        15894,
        15897,
        15898,
        15899,
        15900,
        15901,
        15902,
        15903,
        15904,
        15905,
        15910,
        15915,
        15916,
        15917,
    ]
)
_DATE_WEIGHTS = np.array([8, 5, 5, 4, 4, 3, 3, 4, 4, 4, 9, 12, 6, 5, 5, 4, 4, 3, 4, 4], dtype=float)
_ROWS_PER_DATE = 130_000
# The first million rows has seven counters; their ids and rows before 62.
_FIRST_COUNTERS = {17: 9, 20: 45_000, 23: 20_000, 31: 9_000, 44: 4_000}
_LARGE_UNKNOWN = (5_200_000, 3_600_000, 3_000_000)  # they hold the most frequent URLs
_LARGE_COUNT = 75  # counters above 100,000 rows whose URLs are shorter than those of Q27
_LEAST_LARGE = 100_300
_PARTS_62 = (414_000, 198_000, 126_150)
_DISPLACED = 6
_LARGEST_ID = 262_143


@dataclass(frozen=True)
class Counters:
    """The counters of the full table, by ascending id."""

    ids: Integers
    rows: Integers
    large_rank: Integers  # 0, 1, 2, ... for large counters that are not published; else -1


@dataclass(frozen=True)
class Pieces:
    """Stretches of rows, each from one segment and one range of users."""

    rows: Integers
    counter: Integers  # index into Counters
    date: Integers
    low: Numbers  # users from this quantile of all users
    high: Numbers  # to this one
    fixed: Integers  # number of a user with fixed rows, or -1
    id: Integers


@dataclass(frozen=True, eq=False)  # compared and hashed as itself: plans are made once
class Plan:
    """All pieces of a data set, in order; `starts` has one more entry than there are pieces."""

    rows: int
    seed: int
    counters: Counters
    starts: Integers
    pieces: Pieces

    @property
    def blocks(self) -> int:
        """How many blocks the rows make."""
        return -(-self.rows // BLOCK_ROWS)

    def block_range(self, block: int) -> tuple[int, int]:
        """First row of a block and the row after its last."""
        return block * BLOCK_ROWS, min((block + 1) * BLOCK_ROWS, self.rows)

    def block_pieces(self, block: int) -> Pieces:
        """The pieces of one block, cut at its borders."""
        start, stop = self.block_range(block)
        first = int(np.searchsorted(self.starts, start, side="right")) - 1
        last = int(np.searchsorted(self.starts, stop, side="left"))
        whole = slice(first, last)
        begins = self.starts[whole]
        ends = self.starts[first + 1 : last + 1]
        low_row, high_row = np.maximum(begins, start), np.minimum(ends, stop)
        all_ = self.pieces
        width = (all_.high[whole] - all_.low[whole]) / (ends - begins)
        low = all_.low[whole] + width * (low_row - begins)
        return Pieces(
            rows=high_row - low_row,
            counter=all_.counter[whole],
            date=all_.date[whole],
            low=low,
            high=all_.low[whole] + width * (high_row - begins),
            fixed=all_.fixed[whole],
            id=all_.id[whole],
        )


def quantile_of_user(user_id: int) -> float:
    """The share of users whose id is smaller, as signed numbers."""
    if user_id < 0:
        return (user_id + 2**63) / 2**63 * (1 - POSITIVE_USERS)
    return 1 - POSITIVE_USERS + user_id / 2**63 * POSITIVE_USERS


# Ids are uniform over positive and over negative numbers; this share of positive ones gives
# their published mean.
POSITIVE_USERS = (1 + published.MEAN_USER_ID / 2**62) / 2
# Users with a fixed number of rows: the needle of Q19, then the top ten of Q15.
FIXED_USERS = (published.NEEDLE_USER, *published.TOP_USERS)


def _small_sizes(count: int) -> Numbers:
    ranks = np.arange(1, count + 1) + 100
    anchors = np.log([101, 3_750, published.COUNTERS])
    return np.exp(np.interp(np.log(ranks), anchors, np.log([99_000, 90, 1])))


def _large_sizes(total: int) -> Numbers:
    """Sizes of the large counters that are not published, adding up to `total`."""
    geometric = np.geomspace(1, 0.02, _LARGE_COUNT - len(_LARGE_UNKNOWN))
    excess = total - sum(_LARGE_UNKNOWN) - _LEAST_LARGE * len(geometric)
    sizes = _LEAST_LARGE + (geometric - 0.02) * excess / (geometric - 0.02).sum()
    return np.concatenate([_LARGE_UNKNOWN, sizes])


def _counters(noise: Noise) -> Counters:
    known = {key: rows for key, (rows, _) in published.COUNTER_FACTS.items()} | _FIRST_COUNTERS
    small = np.maximum(_small_sizes(published.COUNTERS - len(known) - _LARGE_COUNT), 1)
    small = small.astype(np.int64)
    large = _large_sizes(published.ROWS - sum(known.values()) - int(small.sum())).astype(np.int64)
    large[0] += published.ROWS - sum(known.values()) - int(small.sum()) - int(large.sum())
    # Ids of the others: a few small ones below 500, the rest anywhere above.
    low = [i for i in range(63, 500, 13) if i not in known]
    draws = noise.below("counter ids", np.arange(30_000, dtype=np.uint64), _LARGEST_ID - 600) + 600
    high = [i for i in dict.fromkeys(draws.tolist()) if i not in known]
    others = (high[:_LARGE_COUNT] + low + high[_LARGE_COUNT:])[: _LARGE_COUNT + len(small)]
    # The largest of the small counters must not be the ones with low ids.
    sizes = np.concatenate([large, small[::-1][: len(low)], small[: len(small) - len(low)]])
    ids = np.array([*known, *others], dtype=np.int64)
    rows = np.concatenate([np.array(list(known.values())), sizes])
    ranks = np.full(len(ids), -1, dtype=np.int64)
    ranks[len(known) : len(known) + _LARGE_COUNT] = np.arange(_LARGE_COUNT)
    order = np.argsort(ids)
    return Counters(ids[order], rows[order], ranks[order])


def _dates_of(counter: int, rows: int, noise: Noise) -> tuple[Integers, Integers]:
    """The dates of a counter and its rows on each."""
    if counter <= 62:
        return np.array([published.DAY_62]), np.array([rows])
    count = int(np.clip(round(rows / _ROWS_PER_DATE), 1, len(_DATES)))
    ids = np.arange(len(_DATES), dtype=np.uint64) + np.uint64(counter * 64)
    # Sampling without replacement by weight: the largest of u ** (1 / weight).
    keys = np.log(noise.uniform("dates", ids) + 1e-300) / _DATE_WEIGHTS
    chosen = np.sort(np.argsort(-keys)[:count])
    shares = _DATE_WEIGHTS[chosen] * (0.5 + noise.uniform("date rows", ids)[chosen])
    edges = np.floor(np.cumsum(shares) / shares.sum() * rows + 0.5).astype(np.int64)
    return _DATES[chosen], np.diff(edges, prepend=0)


def _displace(order: list[int], noise: Noise, movable: list[int]) -> list[int]:
    """Moves a few segments a little later."""
    picks = noise.below("displaced", np.arange(_DISPLACED, dtype=np.uint64), len(movable))
    for number, pick in enumerate(dict.fromkeys(picks.tolist())):
        segment = movable[pick]
        index = order.index(segment)
        order.insert(min(index + 5 + number, len(order) - 1), order.pop(index))
    return order


def _segments(counters: Counters, noise: Noise) -> tuple[Integers, Integers, Integers]:
    """Counter index, date and rows of the full table's segments, in order."""
    counter: list[int] = []
    date: list[int] = []
    rows: list[int] = []
    for index, (id_, size) in enumerate(zip(counters.ids, counters.rows, strict=True)):
        dates, sizes = _dates_of(int(id_), int(size), noise)
        if id_ == 62:
            dates, sizes = np.repeat(dates, len(_PARTS_62)), np.array(_PARTS_62)
        counter += [index] * len(dates)
        date += dates.tolist()
        rows += sizes.tolist()
    order = list(range(len(counter)))
    last_part_62 = max(i for i in order if counters.ids[counter[i]] == 62)
    order.pop(last_part_62)
    order.insert(int(np.searchsorted(np.cumsum(rows), 5_000_000)), last_part_62)
    movable = [i for i in order if counters.ids[counter[i]] > 600 and 20_000 < rows[i] < 130_000]
    order = _displace(order, noise, movable)
    return np.array(counter)[order], np.array(date)[order], np.array(rows)[order]


def _fixed_rows(rows: int) -> list[int]:
    """Rows of each fixed user in a data set of this many rows."""
    tops = [round(count * rows / published.ROWS) for count in published.TOP_USERS.values()]
    return [published.NEEDLE_ROWS, *tops]


@cache
def make_plan(rows: int, seed: int = 0) -> Plan:
    """The plan of a data set.

    Raises:
        ValueError: The number of rows is out of bounds.
    """
    if not LEAST_ROWS <= rows <= MOST_ROWS:
        raise ValueError(f"rows must be {LEAST_ROWS:,} to {MOST_ROWS:,}, not {rows:,}")
    noise = Noise(seed)
    counters = _counters(noise)
    counter, date, full_rows = _segments(counters, noise)
    ends = np.cumsum(full_rows) * rows // published.ROWS
    pieces = _cut(rows, counter, date, np.diff(ends, prepend=0))
    starts = np.concatenate([[0], np.cumsum(pieces.rows)])
    return Plan(rows, seed, counters, starts, pieces)


def _cut(total: int, counter: Integers, date: Integers, sizes: Integers) -> Pieces:
    """Cuts the segments that hold a fixed user in three, and drops those without rows."""
    hosts = _host_segments(sizes)
    cuts: list[tuple[int, float, float, int, int]] = []  # rows, low, high, fixed, segment
    for segment, size in enumerate(sizes.tolist()):
        user = hosts.get(segment)
        if user is None:
            cuts.append((size, 0.0, 1.0, -1, segment))
            continue
        fixed = min(_fixed_rows(total)[user], size)
        quantile = quantile_of_user(FIXED_USERS[user])
        before = int(quantile * (size - fixed))
        cuts.append((before, 0.0, quantile, -1, segment))
        cuts.append((fixed, quantile, quantile, user, segment))
        cuts.append((size - fixed - before, quantile, 1.0, -1, segment))
    cuts = [cut for cut in cuts if cut[0] > 0]
    rows, low, high, fixed_, segments = (np.array(part) for part in zip(*cuts, strict=True))
    return Pieces(
        rows=rows,
        counter=counter[segments],
        date=date[segments],
        low=low,
        high=high,
        fixed=fixed_,
        id=np.arange(len(rows), dtype=np.int64),
    )


def _host_segments(sizes: Integers) -> dict[int, int]:
    """The segment each fixed user lives in: the largest ones, the needle in the largest."""
    largest = np.argsort(-sizes, kind="stable")[: len(FIXED_USERS)]
    return {int(segment): user for user, segment in enumerate(largest)}


def ad_free(counters: Counters) -> Flags:
    """Counters without adverts: 14 of the 226 row groups of the real file hold only zeros."""
    return np.isin(counters.ids, (122612, 245438)) | (counters.large_rank == 7)


def shares(counters: Counters) -> npt.NDArray[np.float64]:
    """The share of all rows that each counter has."""
    return counters.rows / counters.rows.sum()
