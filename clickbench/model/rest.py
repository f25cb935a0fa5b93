"""Columns that no query filters by, but a `SELECT *` reads: timings, tags, clocks, ids.

In: rows and visits of a block. Out: one array per column and row. Most are nearly always zero or
empty, as in the real data, where 89 small columns take 13 bytes a row together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from clickbench.model.noise import Choice, Flags, Integers, Noise, Numbers, log_rank

if TYPE_CHECKING:
    from clickbench.model.plan import Plan
    from clickbench.model.visits import Rows, Visits

# Name: values, share of visits that have one.
_TAGS: dict[str, tuple[list[str], float]] = {
    "Params": (["{}", "{'order': 1}", "{'cart': 'open', 'step': 2}"], 0.018),
    "OpenstatServiceName": (["direct.yandex.ru", "market.yandex.ru"], 0.006),
    "OpenstatCampaignID": (["4315270", "2280077", "market"], 0.006),
    "OpenstatAdID": (["72463115", "83331021", "91204467"], 0.008),
    "OpenstatSourceID": (["yandex.ru:premium", "yandex.ru:guarantee"], 0.006),
    "UTMSource": (["yandex", "direct", "mailru", "email"], 0.035),
    "UTMMedium": (["cpc", "banner", "email"], 0.03),
    "UTMCampaign": (["leto-2013-rasprodazha", "msk_search", "brand", "retarget"], 0.025),
    "UTMContent": (["top", "side", "text1"], 0.004),
    "UTMTerm": (["купить", "цена", "отзывы"], 0.004),
    "FromTag": (["rss", "main", "newsletter"], 0.01),
    "SocialSourcePage": (["/wall", "/feed/news"], 0.005),
}
_CHARSETS = ["windows-1251;charset", "windows", "utf-8;charset", "utf-8"]
_CHARSET = Choice([36, 34, 20, 10])
# Name: share of rows that are not zero, values below.
_TIMINGS = {
    "SendTiming": (0.05, 800),
    "DNSTiming": (0.04, 400),
    "ConnectTiming": (0.05, 700),
    "ResponseStartTiming": (0.12, 3_000),
    "ResponseEndTiming": (0.12, 3_000),
    "FetchTiming": (0.10, 2_000),
}
# Name: value, share of rows that have it.
_FLAGS = {
    "IsArtifical": (1, 0.03),
    "IsNotBounce": (1, 0.04),
    "IsEvent": (1, 0.002),
    "IsParameter": (1, 0.001),
    "WithHash": (1, 0.01),
    "HTTPError": (404, 0.002),
    "HasGCLID": (1, 0.002),
    "ParamPrice": (1_500, 0.0005),
    "ParamCurrencyID": (1, 0.0005),
    "CLID": (2_163_427, 0.01),
    "SocialSourceNetworkID": (2, 0.004),
}
_ZERO = ("IsOldCounter", "SilverlightVersion4")
_EMPTY = ("ParamOrderID", "SocialNetwork", "SocialAction")
_DONT_COUNT = 1 - 671.5 / 722.7  # given no refresh, in CounterID 62
_LINK = 47.74 / 722.7 / (1 - 0.002)
_REFRESH = 1 - 722.7 / 738.15
_DOWNLOAD = 0.002
_NO_SCRIPT_TIME = 31_587_366  # what a browser without scripts leaves as its time


def make_rest(plan: Plan, visits: Visits, rows: Rows) -> dict[str, Integers | pa.Array]:
    """Columns by name, one value per row."""
    noise = Noise(plan.seed)
    columns: dict[str, Integers | pa.Array] = {}
    columns |= _flags(rows, noise)
    columns |= _tags(visits, rows, noise)
    columns |= _clocks(visits, rows, noise)
    columns |= _of_counter(plan, rows, noise)
    for name, (share, limit) in _TIMINGS.items():
        columns[name] = _sparse(rows, noise, name, share, limit)
    count = len(rows.number)
    for name in _ZERO:
        columns[name] = np.zeros(count, dtype=np.int64)
    for name in _EMPTY:
        columns[name] = pa.repeat("", count)
    columns["ParamCurrency"] = pa.repeat("NH\x1c", count)
    return columns


def _flags(rows: Rows, noise: Noise) -> dict[str, Integers]:
    columns = {"GoodEvent": np.ones(len(rows.number), dtype=np.int64)}
    for name, (value, share) in _FLAGS.items():
        columns[name] = value * (noise.uniform(name, rows.number) < share)
    for name, share in (
        ("IsRefresh", _REFRESH),
        ("DontCountHits", _DONT_COUNT),
        ("IsLink", _LINK),
        ("IsDownload", _DOWNLOAD),
    ):
        columns[name] = _even(rows, noise, name, share).astype(np.int64)
    return columns


def _even(rows: Rows, noise: Noise, name: str, share: float) -> Flags:
    """A share of rows, nearly exact in any stretch of them: one per cell of 1 / share rows."""
    cells = rows.number * share
    cell = np.floor(cells)
    # The row of a cell whose fraction is the first at or past the cell's own mark.
    mark = noise.uniform(name, cell.astype(np.int64)) * (1 - share)
    fraction = cells - cell
    return (fraction >= mark) & (fraction < mark + share)


def _sparse(rows: Rows, noise: Noise, name: str, share: float, limit: int) -> Integers:
    unit: Numbers = noise.uniform(name, rows.number)
    return np.where(unit < share, (limit * (unit / share) ** 3).astype(np.int64) + 1, 0)


def _tags(visits: Visits, rows: Rows, noise: Noise) -> dict[str, pa.Array]:
    columns = {}
    for name, (texts, share) in _TAGS.items():
        unit = noise.uniform(name, visits.id)
        index = np.where(unit < share, unit / share * len(texts), len(texts)).astype(np.int64)
        columns[name] = pa.array([*texts, ""]).take(pa.array(index[rows.visit]))
    return columns


def _clocks(visits: Visits, rows: Rows, noise: Noise) -> dict[str, Integers]:
    """Times on the visitor's clock, which is off by hours, sometimes by days."""
    unit = noise.uniform("clock", visits.user)
    shift = np.where(unit < 0.99, (unit - 0.5) * 80_000, (unit - 0.995) * 30_000_000)
    local = (noise.uniform("local clock", visits.user) - 0.5) * 172_000
    no_script = noise.uniform("no script", visits.user) < 0.03
    client = rows.time + shift.astype(np.int64)[rows.visit]
    client += noise.below("client seconds", rows.number, 4)
    return {
        "ClientEventTime": np.where(no_script[rows.visit], _NO_SCRIPT_TIME, client),
        "LocalEventTime": rows.time
        + local.astype(np.int64)[rows.visit]
        + noise.below("local seconds", rows.number, 3),
        "EventTime": rows.time,
        "EventDate": visits.date[rows.visit],
        "WindowName": np.where(unit < 0.2, 60_000 + unit * 40_000, -1).astype(np.int64)[rows.visit],
        "OpenerName": np.where(unit > 0.97, unit * 50_000, -1).astype(np.int64)[rows.visit],
        "HistoryLength": np.where(unit < 0.4, unit * 40, -1).astype(np.int64)[rows.visit],
    }


def _of_counter(plan: Plan, rows: Rows, noise: Noise) -> dict[str, Integers | pa.Array]:
    """Columns of the site, and ids of the row."""
    ids = plan.counters.ids
    charset = _CHARSET.pick(noise.uniform("charset", ids))[rows.counter]
    category = noise.below("category", ids, 15_700)
    region = np.array([216, 22, 177, 375, 0])[log_rank(noise.uniform("site region", ids), 5)]
    other = noise.uniform("referer category", rows.number)
    watch = noise.bits("WatchID", rows.number)
    return {
        "CounterID": ids[rows.counter],
        "CounterClass": noise.below("class", ids, 2)[rows.counter],
        "PageCharset": pa.array(_CHARSETS).take(pa.array(charset)),
        "URLCategoryID": category[rows.counter],
        "URLRegionID": region[rows.counter],
        "RefererCategoryID": np.where(other < 0.3, category[rows.counter], 0),
        "RefererRegionID": np.where(other < 0.3, region[rows.counter], 0),
        "WatchID": ((watch >> np.uint64(2)) | np.uint64(1 << 62)).astype(np.int64),
        "HID": (noise.bits("HID", rows.number) >> np.uint64(34)).astype(np.int64),
    }
