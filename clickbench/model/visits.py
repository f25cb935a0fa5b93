"""Who comes when: a block of rows cut into visits, each of one user to one counter on one date.

In: the pieces of a block. Out: `Visits` (per visit: user, counter, date, number of rows) and
`Rows` (per row: its visit, position in the visit, time). Steps:

1. Each piece gets a number of visits by its rows and the counter's rows per visit.
2. Users are drawn evenly from the piece's range of users and sorted, as the real rows are. All
   visits together draw from a universe of users that leaves 17.6 users per 100 rows.
3. Lengths are weights (heavy tailed, by region and kind of user) scaled to fill the piece.
4. Times ascend inside a visit and stay inside the day.

Invariant: rows come out ordered by (UserID, EventTime) inside every piece.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clickbench import published
from clickbench.model.noise import Flags, Integers, Noise, Numbers, log_rank
from clickbench.model.plan import FIXED_USERS, POSITIVE_USERS, Plan

# Users that visits draw from, per row of data; some are never drawn.
_UNIVERSE_PER_ROW = 0.50
_ROWS_PER_VISIT = 4.55
_ROWS_PER_VISIT_FIRST = 11.0  # counters up to 62: 80,000 users in the first million rows
_SEARCH_ONLY_USERS = 0.26
_VISITS_PER_BLOCK = 1 << 17  # room for ids of visits
_LONGEST_VISIT = 125.0
_DAY_S = 86_400
_GAP_S = 60.0


@dataclass(frozen=True)
class Visits:
    """The visits of a block, in order."""

    id: Integers
    user: Integers  # number of the user in the universe; fixed users come after it
    user_id: Integers
    counter: Integers
    date: Integers
    rows: Integers
    starts: Integers  # first row of the visit in the block
    mobile: Flags
    search_only: Flags
    region: Integers
    is_fixed: Flags


@dataclass(frozen=True)
class Rows:
    """The rows of a block."""

    number: Integers  # position in the whole data set
    visit: Integers  # index into Visits
    is_first: Flags  # of its visit
    counter: Integers
    time: Integers


def universe(plan: Plan) -> int:
    """How many users the visits are drawn from."""
    return max(int(plan.rows * _UNIVERSE_PER_ROW), 100)


def rows_per_visit(plan: Plan) -> Numbers:
    """The mean length of a visit, by counter."""
    return np.where(plan.counters.ids <= 62, _ROWS_PER_VISIT_FIRST, _ROWS_PER_VISIT)


def user_ids(users: Integers, count: int, noise: Noise) -> Integers:
    """Ids of users, ascending with their numbers; fixed users have their own."""
    rank = (users + noise.uniform("user place", users)) / count
    negative = rank < 1 - POSITIVE_USERS
    scaled = np.where(
        negative,
        rank / (1 - POSITIVE_USERS) - 1,
        (rank - (1 - POSITIVE_USERS)) / POSITIVE_USERS,
    )
    ids = np.clip(scaled * 2.0**63, -(2.0**63), 2.0**63 - 4096).astype(np.int64)
    # A float has 53 bits: the last 11 are filled from the hash.
    low = (noise.bits("user low bits", users) & np.uint64(2047)).astype(np.int64)
    ids = (ids & ~np.int64(2047)) | low
    fixed = users >= count
    if fixed.any():
        ids[fixed] = np.array(FIXED_USERS)[users[fixed] - count]
    return ids


# --- kinds of users -----------------------------------------------------------------------------

_REGION_IDS = np.array(
    [
        *published.REGIONS,
        *[r for r in range(1, 12000) if r not in published.REGIONS][: published.REGION_COUNT - 12],
    ]
)
_REGION_USERS = np.array([users for _, users in published.REGIONS.values()])
_REGION_EDGES = np.cumsum(_REGION_USERS) / published.USERS
# Rows per user against the mean; of all other regions, what is left.
_REGION_LENGTHS = np.array(
    [rows / users for rows, users in published.REGIONS.values()]
    + [
        (published.ROWS - sum(rows for rows, _ in published.REGIONS.values()))
        / (published.USERS - sum(users for _, users in published.REGIONS.values()))
    ]
) / (published.ROWS / published.USERS)


def _regions(users: Integers, noise: Noise) -> tuple[Integers, Numbers]:
    """Region of each user, and the factor of its visits' lengths."""
    unit = noise.uniform("region", users)
    known = np.searchsorted(_REGION_EDGES, unit, side="right")
    rest = (unit - _REGION_EDGES[-1]) / (1 - _REGION_EDGES[-1])
    others = log_rank(np.clip(rest, 0, 1), published.REGION_COUNT - 12, 40.0)
    index = np.where(known < len(_REGION_EDGES), known, len(_REGION_EDGES) + others)
    return _REGION_IDS[index], _REGION_LENGTHS[known]


def _lengths(ids: Integers, mobile: Flags, search_only: Flags, noise: Noise) -> Numbers:
    """Wanted lengths of visits: many short ones and a heavy tail."""
    unit = noise.uniform("visit length", ids)
    usual = np.minimum(1.0 + 1.45 * ((1 - unit) ** -0.62 - 1) / 0.62 + 1.3, _LONGEST_VISIT)
    usual = np.where(mobile, usual * 0.64, usual)
    return np.where(search_only, 1.0 + 0.25 * (unit > 0.85), usual)


def make_visits(plan: Plan, block: int) -> Visits:
    """The visits of a block."""
    noise = Noise(plan.seed)
    pieces = plan.block_pieces(block)
    count = universe(plan)
    part_ids = pieces.id * 4096 + block % 4096
    wanted = pieces.rows / rows_per_visit(plan)[pieces.counter]
    number = np.maximum((wanted + noise.uniform("visits", part_ids)).astype(np.int64), 1)
    number[pieces.fixed >= 0] = 1
    piece = np.repeat(np.arange(len(number)), number)
    ids = np.arange(len(piece), dtype=np.int64) + block * _VISITS_PER_BLOCK
    # Sorted inside each piece: the piece is the whole part of the key.
    unit = np.sort(piece + noise.uniform("visitor", ids)) - piece
    # Ranges of whole users, so that neighbouring pieces have none in common.
    low = np.minimum((pieces.low * count).astype(np.int64), count - 1)
    width = np.maximum((pieces.high * count).astype(np.int64) - low, 1)
    user = low[piece] + np.minimum(unit * width[piece], width[piece] - 1).astype(np.int64)
    fixed = pieces.fixed[piece]
    user = np.where(fixed >= 0, count + fixed, user)
    mobile = noise.uniform("mobile", user) < 0.0695
    search_only = (noise.uniform("search only", user) < _SEARCH_ONLY_USERS) & ~mobile
    region, region_length = _regions(user, noise)
    moved = noise.uniform("moved", ids) < 0.05  # seen in another region than at home
    region = np.where(moved, _regions(ids, noise)[0], region)
    wanted_rows = _lengths(ids, mobile, search_only, noise) * region_length
    # A user drawn twice for a piece comes once: times would not ascend otherwise.
    again = (user == np.roll(user, 1)) & (piece == np.roll(piece, 1))
    again[0] = False
    wanted_rows[again] = 0
    starts = _fill(wanted_rows, number, pieces.rows)
    rows = np.diff(starts)
    kept = rows > 0
    return Visits(
        id=ids[kept],
        user=user[kept],
        user_id=user_ids(user[kept], count, noise),
        counter=pieces.counter[piece][kept],
        date=pieces.date[piece][kept],
        rows=rows[kept],
        starts=starts[:-1][kept],
        mobile=(mobile & (fixed < 0))[kept],
        search_only=(search_only & (fixed < 0))[kept],
        region=region[kept],
        is_fixed=(fixed >= 0)[kept],
    )


def _fill(wanted: Numbers, number: Integers, rows: Integers) -> Integers:
    """Borders of visits: each piece's rows shared out in proportion to the lengths wanted."""
    ends = np.cumsum(wanted)
    last = np.cumsum(number) - 1
    piece_ends = ends[last]
    piece_starts = np.concatenate([[0.0], piece_ends[:-1]])
    share = (ends - np.repeat(piece_starts, number)) / np.repeat(piece_ends - piece_starts, number)
    row_starts = np.cumsum(rows) - rows
    borders = np.floor(share * np.repeat(rows, number) + 0.5).astype(np.int64)
    borders[last] = rows  # whatever the rounding
    return np.concatenate([[0], np.repeat(row_starts, number) + borders])


def make_rows(plan: Plan, block: int, visits: Visits) -> Rows:
    """The rows of a block's visits, with their times."""
    noise = Noise(plan.seed)
    start, stop = plan.block_range(block)
    number = np.arange(start, stop, dtype=np.int64)
    visit = np.repeat(np.arange(len(visits.rows)), visits.rows)
    is_first = np.zeros(len(number), dtype=np.bool_)
    is_first[visits.starts] = True
    # Gaps: half of them a few seconds, the rest up to minutes.
    unit = noise.uniform("gap", number)
    gaps = np.where(is_first, 0, (_GAP_S * unit * unit * (1 + 9 * unit**8)).astype(np.int64))
    passed = np.cumsum(gaps)
    passed -= np.repeat(passed[visits.starts], visits.rows)
    spans = passed[visits.starts + visits.rows - 1]
    longest = np.int64(_DAY_S - 3600)
    passed = np.where(
        np.repeat(spans > longest, visits.rows),
        passed * longest // np.repeat(np.maximum(spans, 1), visits.rows),
        passed,
    )
    room = _DAY_S - np.minimum(spans, longest)
    begin = (noise.uniform("time of day", visits.id) * room).astype(np.int64)
    midnight = visits.date * _DAY_S - published.DAY_STARTS_BEFORE_MIDNIGHT_S
    return Rows(
        number=number,
        visit=visit,
        is_first=is_first,
        counter=np.repeat(visits.counter, visits.rows),
        time=np.repeat(midnight + begin, visits.rows) + passed,
    )
