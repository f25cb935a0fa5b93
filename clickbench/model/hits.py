"""A block of `hits`: all 105 columns of a fixed range of rows.

In: a plan and the number of a block. Out: an Arrow table with the schema of `clickbench.schema`.
`generate_table` makes all blocks of a small data set at once.

Invariant: the same (rows, seed, block) gives the same table, bit for bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import xxhash

from clickbench import published
from clickbench.model import events
from clickbench.model.counter_facts import counter_facts
from clickbench.model.long_text import repeat_source
from clickbench.model.noise import Choice, Flags, Integers, Noise
from clickbench.model.plan import Plan, make_plan
from clickbench.model.referers import Referers, make_referers
from clickbench.model.rest import make_rest
from clickbench.model.searches import Searches, make_searches
from clickbench.model.titles import make_titles
from clickbench.model.urls import RareUrls, make_original_urls, make_urls
from clickbench.model.users import make_user_columns
from clickbench.model.visits import Rows, make_rows, make_visits
from clickbench.schema import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator

_SAME_PAGE = 0.22
# Sources of traffic: inside the site, links, ...; with a search it is 3, with an advert 2.
_SOURCES = np.array([-1, 1, 5, 6, 4, 7, 8])
_SOURCE = Choice([78, 10, 5, 3, 2, 1, 1])


def generate_table(rows: int, seed: int = 0) -> pa.Table:
    """A whole data set in memory; for up to a million rows or so."""
    plan = make_plan(rows, seed)
    return pa.concat_tables([generate_block(plan, block) for block in range(plan.blocks)])


def generate_blocks(plan: Plan, first: int, last: int) -> Iterator[pa.Table]:
    """Blocks `first` to `last`, without `last`."""
    for block in range(first, last):
        yield generate_block(plan, block)


def generate_block(plan: Plan, block: int) -> pa.Table:
    """One block of rows."""
    noise = Noise(plan.seed)
    visits = make_visits(plan, block)
    rows = make_rows(plan, block, visits)
    facts = counter_facts(plan)
    google_url = events.find(events.GOOGLE_URL, plan, block)
    google_title = events.find(events.GOOGLE_TITLE, plan, block)
    in_62 = plan.counters.ids[rows.counter] == 62
    adverts = events.find(events.advert(plan), plan, block)
    forced = _forced_searches(plan, len(rows.number), google_url, google_title)
    searches = make_searches(plan, visits, rows, forced, adverts)
    stays = ~rows.is_first & (noise.uniform("same page", rows.number) < _SAME_PAGE)
    source = repeat_source(stays)
    empty = events.find(events.EMPTY_URL, plan, block)
    rare = RareUrls(
        google_url,
        empty.where(~in_62[empty.rows]),
        events.find(events.BROKEN_URL, plan, block),
    )
    url, url_hash = make_urls(rows, source, facts, noise, rare)
    broken = events.find(events.BROKEN_REFERER, plan, block)
    referers = make_referers(plan.rows, rows, noise, broken, in_62)
    columns = {
        name: _per_row(values, rows) for name, values in make_user_columns(plan, visits).items()
    }
    columns |= make_rest(plan, visits, rows)
    columns |= {
        "URL": url,
        "URLHash": url_hash,
        "Title": make_titles(rows, source, facts, noise, google_title, in_62),
        "Referer": referers.text,
        "RefererHash": referers.hash,
        "OriginalURL": make_original_urls(rows, source, facts, noise),
        "SearchPhrase": searches.phrase,
        "SearchEngineID": searches.engine,
        "AdvEngineID": searches.advert,
        "TraficSourceID": _traffic(rows, noise, searches, referers),
    }
    arrays = [_typed(columns[field.name], field.type) for field in SCHEMA]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _per_row(values: Integers | pa.Array, rows: Rows) -> Integers | pa.Array:
    if isinstance(values, np.ndarray):
        return values[rows.visit]
    return values.take(pa.array(rows.visit))


def _typed(values: Integers | pa.Array, kind: pa.DataType) -> pa.Array:
    if isinstance(values, np.ndarray):
        return pa.array(values.astype(kind.to_pandas_dtype()))
    return values


def _traffic(rows: Rows, noise: Noise, searches: Searches, referers: Referers) -> Integers:
    traffic = _SOURCES[_SOURCE.pick(noise.uniform("traffic", rows.number))]
    traffic = np.where(referers.present, traffic, 0)
    traffic = np.where(searches.has_phrase, 3, traffic)
    traffic = np.where(searches.advert != 0, 2, traffic)
    inside = np.where(noise.uniform("traffic", rows.number) < 0.9, -1, 6)
    return np.where(referers.from_62, inside, traffic)


def _forced_searches(
    plan: Plan, count: int, google_url: events.Found, google_title: events.Found
) -> tuple[Flags, Flags]:
    """Rows of Google's pages that must have a search phrase, and those that must not."""
    on, off = np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)
    for kind, found, share in (
        (events.GOOGLE_TITLE, google_title,
         published.GOOGLE_TITLE_SEARCH_ROWS / published.GOOGLE_TITLE_ROWS),
        (events.GOOGLE_URL, google_url,
         published.GOOGLE_URL_SEARCH_ROWS / published.GOOGLE_URL_ROWS),
    ):  # fmt: skip
        number = events.event_count(kind, plan.rows)
        searched = events.every(found.event, share, number, least=2)
        on[found.rows[searched]] = True
        on[found.rows[~searched]] = False
        off[found.rows[~searched]] = True
        off[found.rows[searched]] = False
    return on, off


def block_checksum(table: pa.Table) -> str:
    """A hash of a block's values, whatever its buffers look like."""
    digest = xxhash.xxh3_128()
    for column in table.columns:
        for chunk in column.chunks:
            for buffer in _value_buffers(chunk):
                digest.update(buffer)
    return digest.hexdigest()


def _value_buffers(chunk: pa.Array) -> Iterator[bytes | memoryview]:
    if not pa.types.is_string(chunk.type):
        yield np.ascontiguousarray(chunk.to_numpy()).data
        return
    offsets = np.frombuffer(chunk.buffers()[1], dtype=np.int32)[
        chunk.offset : chunk.offset + len(chunk) + 1
    ]
    yield np.ascontiguousarray(offsets - offsets[0]).data
    data = chunk.buffers()[2]
    if data is not None:
        yield memoryview(data)[int(offsets[0]) : int(offsets[-1])]
