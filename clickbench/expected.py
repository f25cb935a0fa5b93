"""What `validate` expects, and how far off it may be: one line each, with the reason.

Counts are of the full table and are scaled to the rows at hand. Two things may move a count:

- The model. Its shares are drawn to match, and calibrated where they follow from other shares.
  `tolerance` is what that leaves; it is 3 % where a figure was published exactly and the model
  places rows by it, more where a figure was published rounded or follows from others.
- Chance. Rows come in visits, so a count of `n` rows in clusters of `c` varies like `n / c`
  things of `c` rows: three standard deviations, `3 * sqrt(n * c)`, are allowed on top. This is
  what matters for rare predicates in small data sets.

Below a million rows most of the 6,506 counters have a handful of rows, which cuts visits short
and makes shares by user shift; `SMALL_TOLERANCE` is added there. Predicates that would keep
next to nothing get a floor of rows from the generator; below it, the floor is expected.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from clickbench import published

SMALL_ROWS = 1_000_000
SMALL_TOLERANCE = 0.08
FEW_ROW_GROUPS = 20


@dataclass(frozen=True)
class Check:
    """One comparison: measured against what is allowed."""

    group: str
    name: str
    measured: float
    expected: float
    low: float
    high: float
    note: str = ""

    @property
    def passed(self) -> bool:
        """Whether the measured value is allowed."""
        return self.low <= self.measured <= self.high


@dataclass(frozen=True)
class Skipped:
    """A comparison that means nothing at this size, and why."""

    group: str
    name: str
    reason: str


@dataclass(frozen=True)
class Predicate:
    """A condition of queries and the rows of the full table that it keeps."""

    queries: str
    sql: str
    rows: float
    tolerance: float = 0.03
    cluster: float = 1.0  # rows that come together
    floor: int = 0  # rows the generator makes at least
    is_scaled: bool = True


_IN_62 = '"CounterID" = 62 AND "EventDate" BETWEEN 15887 AND 15917 AND "IsRefresh" = 0'
_ROUNDED = 0.05  # published with three digits

PREDICATES = (
    Predicate("Q0, Q2-6, Q8, Q9, Q15-18, Q29, Q32-35", "true", published.ROWS, tolerance=0),
    Predicate("Q1, Q7", '"AdvEngineID" <> 0', sum(published.ADVERTS.values()), floor=45),
    Predicate("Q10, Q11", "\"MobilePhoneModel\" <> ''", published.MOBILE_ROWS, _ROUNDED, 25),
    Predicate("Q12-14, Q24-26, Q30, Q31", "\"SearchPhrase\" <> ''", published.SEARCH_ROWS,
              cluster=3),
    Predicate("Q19", f'"UserID" = {published.NEEDLE_USER}', published.NEEDLE_ROWS, 0,
              is_scaled=False),
    Predicate("Q20, Q23", "\"URL\" LIKE '%google%'", published.GOOGLE_URL_ROWS, floor=14),
    Predicate("Q21", "\"URL\" LIKE '%google%' AND \"SearchPhrase\" <> ''",
              published.GOOGLE_URL_SEARCH_ROWS, _ROUNDED, 2.5, floor=10),
    Predicate("Q22", "\"Title\" LIKE '%Google%' AND \"URL\" NOT LIKE '%.google.%' "
              "AND \"SearchPhrase\" <> ''", published.GOOGLE_TITLE_SEARCH_ROWS, _ROUNDED, 2,
              floor=10),
    Predicate("Q22, first part", "\"Title\" LIKE '%Google%'", published.GOOGLE_TITLE_ROWS, 0.10, 2,
              floor=16),
    Predicate("Q27", "\"URL\" <> ''", published.ROWS - published.EMPTY_URL_ROWS, 0.001),
    Predicate("Q28", "\"Referer\" <> ''", published.ROWS - published.EMPTY_REFERER_ROWS),
    Predicate("Q36-42, first part", '"CounterID" = 62', published.ROWS_62),
    Predicate("Q36, Q42", f"{_IN_62} AND \"DontCountHits\" = 0 AND \"URL\" <> ''",
              published.ROWS_62_COUNTED, _ROUNDED),
    Predicate("Q37", f"{_IN_62} AND \"DontCountHits\" = 0 AND \"Title\" <> ''",
              published.ROWS_62_TITLED, _ROUNDED),
    Predicate("Q38", f'{_IN_62} AND "IsLink" <> 0 AND "IsDownload" = 0', published.ROWS_62_LINKS,
              _ROUNDED),
    Predicate("Q39", _IN_62, published.ROWS_62_NO_REFRESH, _ROUNDED),
    Predicate("Q40", f'{_IN_62} AND "TraficSourceID" IN (-1, 6) AND "RefererHash" = '
              f"{published.HASH_OF_REFERER_62}", published.ROWS_62_REFERER_HASH, _ROUNDED),
    Predicate("Q41", f'{_IN_62} AND "DontCountHits" = 0 AND "URLHash" = '
              f"{published.HASH_OF_URL_62}", published.ROWS_62_URL_HASH, _ROUNDED, 2),
    Predicate("JavaEnable = 0", '"JavaEnable" = 0', 32_000_000, _ROUNDED, 25),
)  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """A query that shows groups after an offset, or groups of many rows only."""

    query: str
    key: str
    sql: str
    full: int  # groups in the full table
    offset: int = 0
    least: int = 0


HOST = "regexp_replace(\"Referer\", '^https?://(?:www\\.)?([^/]+)/.*$', '\\1')"
ANSWERS = (
    Answer("Q27", '"CounterID"', "\"URL\" <> ''", 100, least=100_000),
    Answer("Q28", HOST, "\"Referer\" <> ''", 77, least=100_000),
    Answer("Q38", '"URL"', f'{_IN_62} AND "IsLink" <> 0 AND "IsDownload" = 0', 13_300, 1_000),
    Answer("Q39", '"TraficSourceID", "SearchEngineID", "AdvEngineID", "Referer", "URL"', _IN_62,
           426_300, 1_000),
    Answer("Q40", '"URLHash"', f'{_IN_62} AND "TraficSourceID" IN (-1, 6) AND "RefererHash" = '
           f"{published.HASH_OF_REFERER_62}", 41_190, 100),
    Answer("Q41", '"WindowClientWidth", "WindowClientHeight"', f'{_IN_62} AND "DontCountHits" = 0 '
           f'AND "URLHash" = {published.HASH_OF_URL_62}', 10_950, 10_000),
    Answer("Q42", '"EventTime" / 60', f'{_IN_62} AND "DontCountHits" = 0', 1_440, 1_000),
)  # fmt: skip

# Column: rows that are empty.
EMPTY = {
    "URL": (published.EMPTY_URL_ROWS, 0.05, 3.0),
    "Referer": (published.EMPTY_REFERER_ROWS, 0.03, 2.0),
    "Title": (published.EMPTY_TITLE_ROWS, 0.03, 2.0),
    "OriginalURL": (published.EMPTY_ORIGINAL_URL_ROWS, 0.03, 2.0),
    "SearchPhrase": (published.ROWS - published.SEARCH_ROWS, 0.03, 2.0),
}
# Column: (mean bytes where not empty, mean bytes of distinct values). A few percent of freedom:
# texts are cut where words begin, and lengths are means of long-tailed draws.
LENGTHS = {
    "URL": (90.46, 183.95),
    "Referer": (81.61, 136.35),
    "Title": (111.50, 133.35),
    "OriginalURL": (312.0, 392.71),
    "SearchPhrase": (56.17, 65.23),
}
LENGTH_TOLERANCE, DISTINCT_LENGTH_TOLERANCE = 0.05, 0.15
# Column: distinct values, tolerance. A subset has no published figure: the real growth is known
# for prefixes only, where ten million rows hold 1.14 to 1.7 times the share of texts that they
# would by their number. So: by number for users, whom the generator samples, and for texts from
# 0.85 to 1.5 times.
DISTINCT = {
    "UserID": (published.USERS, 0.93, 1.07),
    "ClientIP": (published.CLIENT_IPS, 0.85, 1.2),
    "URL": (published.URLS, 0.85, 1.5),
    "Referer": (published.REFERERS, 0.85, 1.5),
    "Title": (published.TITLES, 0.85, 1.5),
    "OriginalURL": (published.ORIGINAL_URLS, 0.85, 1.5),
    "SearchPhrase": (published.PHRASES, 0.85, 1.5),
    "WatchID": (published.ROWS, 0.95, 1.05),  # the count is that exact
}
# Bytes of compressed column per row, in the clickbench layout. Invented texts compress as they
# will: from 0.6 to 1.6 times is right in kind. Columns not listed: all 89 together.
COMPRESSED_MIB = {
    "URL": 2530, "Title": 2319, "Referer": 2144, "OriginalURL": 1412, "WatchID": 823, "HID": 479,
    "ClientEventTime": 394, "URLHash": 391, "LocalEventTime": 385, "EventTime": 384,
    "SearchPhrase": 356, "RefererHash": 347, "UserID": 258, "FUniqID": 235, "ClientIP": 179,
    "RemoteIP": 177,
}  # fmt: skip
COMPRESSED_REST_MIB = 1278
COMPRESSED_LOW, COMPRESSED_HIGH = 0.6, 1.6


def scaled(count: float, rows: int) -> float:
    """A count of the full table, for a data set of this many rows."""
    return count * rows / published.ROWS


def allowed(expected: float, rows: int, tolerance: float, cluster: float) -> tuple[float, float]:
    """The lowest and highest count that is allowed."""
    if tolerance == 0:
        return expected, expected
    if rows < SMALL_ROWS:
        tolerance += SMALL_TOLERANCE
    slack = tolerance * expected + 3 * math.sqrt(expected * cluster)
    return max(expected - slack, 0.0), expected + slack


def check_count(
    group: str,
    name: str,
    *,
    measured: float,
    full: float,
    rows: int,
    tolerance: float = 0.05,
    cluster: float = 1.0,
) -> Check:
    """Compares a count with that of the full table, scaled."""
    expected = scaled(full, rows)
    low, high = allowed(expected, rows, tolerance, cluster)
    return Check(group, name, measured, expected, low, high)


def check_predicate(predicate: Predicate, measured: int, rows: int) -> Check:
    """Compares the rows that a predicate keeps with those published."""
    expected = scaled(predicate.rows, rows) if predicate.is_scaled else predicate.rows
    low, high = allowed(expected, rows, predicate.tolerance, predicate.cluster)
    low = max(low, min(expected, 2.0))  # a predicate that keeps nothing tests nothing
    note = ""
    if expected < predicate.floor:
        low, high, note = 2, max(high, predicate.floor * 1.2), "floor of rows at this size"
    return Check("predicate", predicate.queries, measured, expected, low, high, note)


def check_ratio(
    group: str, name: str, *, measured: float, expected: float, low: float, high: float
) -> Check:
    """Compares with a figure that does not grow with the rows; bounds are factors."""
    return Check(group, name, measured, expected, expected * low, expected * high)
