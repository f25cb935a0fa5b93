"""Small files of `hits` for tests: the columns the queries name, with many ties."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

_WORDS = ["kino", "музыка", "google", "дача", "xbox"]
_ZERO_OR_ONE = ["IsRefresh", "IsLink", "IsDownload", "DontCountHits", "MobilePhone"]


def write_hits(folder, rows=4000, files=2):
    """Writes `hits_N.parquet` files; their paths."""
    table = _table(rows)
    step = -(-rows // files)
    paths = []
    for number in range(files):
        paths.append(str(folder / f"hits_{number}.parquet"))
        part = table.slice(number * step, step)
        pq.write_table(part, paths[-1], row_group_size=500, write_page_index=True)
    return tuple(paths)


def write_orc_hits(folder, rows=4000, files=2):
    """The same as `hits_N.orc`, which has no unsigned numbers."""
    table = _table(rows)
    index = table.schema.get_field_index("EventDate")
    table = table.set_column(index, "EventDate", table["EventDate"].cast(pa.int32()))
    step = -(-rows // files)
    paths = [str(folder / f"hits_{number}.orc") for number in range(files)]
    for number, path in enumerate(paths):
        orc.write_table(table.slice(number * step, step), path, row_index_stride=100)
    return tuple(paths)


def _table(rows):
    random = np.random.default_rng(7)
    times = np.sort(random.integers(1372636800, 1375228800, rows))
    times[: rows // 4] = times[0]  # ties where ORDER BY "EventTime" is cut
    urls = np.array(
        [f"http{'s' * (i % 2)}://{'www.' * (i % 3 == 0)}{w}{i % 4}.ru/п/google{i}" for i, w in
         enumerate(_WORDS * 8)], dtype=object
    )  # fmt: skip
    phrases = np.array([f"{word} {i}" for i, word in enumerate(_WORDS * 10)], dtype=object)

    def maybe(values, share):
        return np.where(random.random(rows) < share, random.choice(values, rows), "")

    columns = {
        "WatchID": random.integers(0, 2**62, rows),
        "Title": maybe(np.array(["Google найти", *phrases], dtype=object), 0.9),
        "EventTime": times,
        "EventDate": (times // 86400).astype(np.uint16),
        "CounterID": np.where(random.random(rows) < 0.6, 62, 5).astype(np.int32),
        "ClientIP": random.integers(-500, 500, rows).astype(np.int32),
        "RegionID": random.integers(0, 40, rows).astype(np.int32),
        "UserID": np.append(435090932899640449, random.integers(-(2**62), 2**62, 99))[
            random.integers(0, 100, rows)
        ],
        "URL": random.choice(urls, rows),
        "Referer": maybe(urls, 0.8),
        "ResolutionWidth": random.choice([0, 1366, 1920], rows).astype(np.int16),
        "MobilePhoneModel": maybe(phrases, 0.1),
        "TraficSourceID": random.integers(-1, 8, rows).astype(np.int16),
        "SearchEngineID": random.integers(0, 3, rows).astype(np.int16),
        "SearchPhrase": maybe(phrases, 0.3),
        "AdvEngineID": np.where(random.random(rows) < 0.9, 0, 3).astype(np.int16),
        "WindowClientWidth": random.integers(0, 300, rows).astype(np.int16),
        "WindowClientHeight": random.integers(0, 300, rows).astype(np.int16),
        "RefererHash": np.full(rows, 3594120000172545465),
        "URLHash": np.where(random.random(rows) < 0.5, 2868770270353813622, times),
        **{name: (random.random(rows) < 0.1).astype(np.int16) for name in _ZERO_OR_ONE},
    }
    return pa.table(columns)
