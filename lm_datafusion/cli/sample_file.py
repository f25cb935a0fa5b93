"""The demo's sample: a web log in one Parquet file.

In: a path and a number of rows. Out: the file; the same rows each time.

Events are ordered by time. A user's events are close together, like visits, but user ids are
scattered numbers, so that only the bloom filter can locate one. Status 503 comes in short outages,
and occasionally alone. Twenty filler columns (numbers and text) represent everything that a log
contains and a query rarely needs.

Invariant: `event_id` is the row number, so any answer can be sorted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

ROW_GROUP_ROWS: Final = 200_000
PAGE_ROWS: Final = 20_000
NUMBER_FILLERS: Final = tuple(f"metric_{i:02}" for i in range(10))
TEXT_FILLERS: Final = tuple(f"header_{i:02}" for i in range(10))

_SEED: Final = 20_240_501
_FIRST_EVENT_S: Final = 1_714_521_600  # 2024-05-01
_VISIT_EVENTS: Final = 32  # events of one user
_OVERLAP_VISITS: Final = 500  # users on the site at the same time
_STATUSES: Final = (200, 301, 304, 404, 500)
_STATUS_WEIGHTS: Final = (0.90, 0.03, 0.03, 0.03, 0.01)
_OUTAGE_EVERY: Final = 700_000  # events from one outage to the next
_OUTAGE_EVENTS: Final = 3_000
_OUTAGE_SHARE: Final = 0.3  # of an outage's events fail
_LONE_SHARE: Final = 1e-5  # of all other events fail
_SECTIONS: Final = ("news", "shop/item", "shop/basket", "checkout", "account", "help", "search")
_SECTION_WEIGHTS: Final = (0.35, 0.30, 0.08, 0.02, 0.10, 0.05, 0.10)
_HEADER_POOL: Final = 5_000  # distinct values of a text filler
# An odd multiplier maps numbers one-to-one to scattered 64-bit numbers.
_SCATTER: Final = np.uint64(0x9E3779B97F4A7C15)

SCHEMA: Final = pa.schema(
    [
        ("event_id", pa.int64()),
        ("event_time", pa.timestamp("ms")),
        ("user_id", pa.int64()),
        ("status", pa.int16()),
        ("url", pa.string()),
        *((name, pa.float64()) for name in NUMBER_FILLERS),
        *((name, pa.string()) for name in TEXT_FILLERS),
    ]
)


@dataclass(frozen=True, slots=True)
class _Pools:
    """Text that rows choose from."""

    sections: pa.Array
    headers: pa.Array


def write_sample(path: str, rows: int, on_progress: Callable[[int], None]) -> None:
    """Writes the sample file.

    Args:
        path: Where to write; an existing file is replaced.
        rows: The number of rows.
        on_progress: Called after each row group with the rows written so far.
    """
    random = np.random.default_rng(_SEED)
    pools = _Pools(sections=pa.array(_SECTIONS), headers=_headers(random))
    with pq.ParquetWriter(path, SCHEMA, **_writer_options()) as writer:
        for start in range(0, rows, ROW_GROUP_ROWS):
            stop = min(start + ROW_GROUP_ROWS, rows)
            writer.write_table(_events(start, stop, random, pools), row_group_size=ROW_GROUP_ROWS)
            on_progress(stop)


def user_of(visit: int) -> int:
    """The id of the user of a visit; visits are numbered by time."""
    return int(_user_ids(np.array([visit]))[0])


def middle_visit(rows: int) -> int:
    """A visit in the middle of a sample of `rows` rows."""
    return rows // _VISIT_EVENTS // 2


def _writer_options() -> dict[str, Any]:
    return {
        "compression": "snappy",
        "write_page_index": True,
        "max_rows_per_page": PAGE_ROWS,
        # Users per row group, not rows: each makes `_VISIT_EVENTS` events.
        "bloom_filter_options": {
            "user_id": {"ndv": ROW_GROUP_ROWS // _VISIT_EVENTS, "fpp": 0.01},
        },
    }


def _events(start: int, stop: int, random: np.random.Generator, pools: _Pools) -> pa.Table:
    count = stop - start
    event_id = np.arange(start, stop)
    # About 50 events a second, in order: each at its time slot plus less than a slot.
    event_ms = _FIRST_EVENT_S * 1000 + event_id * 20 + random.integers(0, 20, count)
    visit = event_id // _VISIT_EVENTS + random.integers(0, _OVERLAP_VISITS, count)
    columns: list[pa.Array] = [
        pa.array(event_id),
        pa.array(event_ms).cast(pa.timestamp("ms")),
        pa.array(_user_ids(visit)),
        pa.array(_statuses(event_id, random)),
        _urls(count, random, pools),
    ]
    columns += [pa.array(random.normal(100, 15, count)) for _ in NUMBER_FILLERS]
    columns += [
        pools.headers.take(pa.array(random.integers(0, _HEADER_POOL, count))) for _ in TEXT_FILLERS
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _user_ids(visits: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    scattered: npt.NDArray[np.uint64] = visits.astype(np.uint64) * _SCATTER
    return (scattered >> np.uint64(1)).astype(np.int64)


def _statuses(
    event_id: npt.NDArray[np.int64], random: np.random.Generator
) -> npt.NDArray[np.int16]:
    usual = random.choice(_STATUSES, len(event_id), p=_STATUS_WEIGHTS)
    # The first outage is early, so that small samples have one too.
    is_outage = (event_id + _OUTAGE_EVERY - _OUTAGE_EVENTS) % _OUTAGE_EVERY < _OUTAGE_EVENTS
    fails = random.random(len(event_id)) < np.where(is_outage, _OUTAGE_SHARE, _LONE_SHARE)
    return np.where(fails, 503, usual).astype(np.int16)


def _urls(count: int, random: np.random.Generator, pools: _Pools) -> pa.Array:
    sections = random.choice(len(_SECTIONS), count, p=_SECTION_WEIGHTS)
    pages = pa.array(random.integers(0, 1_000_000, count)).cast(pa.string())
    return pc.binary_join_element_wise(
        "https://shop.example", pools.sections.take(pa.array(sections)), pages, "/"
    )


def _headers(random: np.random.Generator) -> pa.Array:
    """Text of 40 characters, as long as a short browser name or a trace id."""
    return pa.array([random.bytes(20).hex() for _ in range(_HEADER_POOL)])
