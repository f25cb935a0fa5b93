"""What is in a version of a file: a pure function of the seed, the table, the file, the version.

In: those numbers. Out: a table, and the bytes of a Parquet file of it.

Every row says which file and version it is of, so that an answer shows what was read. Versions
differ in rows, in their number, and in how they are stored: small pages or large, dictionaries or
none, codecs, with a page index or bloom filters or without.

Invariant: no two rows of a table have the same `key`.
"""

from __future__ import annotations

import functools
import random
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from typing import Any

FEWEST_ROWS, MOST_ROWS = 100, 1_500
GROUPS = 7
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa")


@functools.lru_cache(maxsize=128)
def make_rows(seed: int, table: str, file: int, version: int) -> pa.Table:
    """The rows of a version; kept, for several questions are judged by them."""
    rng = np.random.default_rng([seed, *table.encode(), file, version])
    count = int(rng.integers(FEWEST_ROWS, MOST_ROWS))
    ids = np.arange(count, dtype=np.int64)
    words = np.array(WORDS)[rng.integers(0, len(WORDS), count)]
    texts = [
        f"{word} {number:04x}"
        for word, number in zip(words, rng.integers(0, 1 << 16, count), strict=False)
    ]
    keys = rng.permutation(count).astype(np.int64) * 1_000_000 + file * 1_000 + version % 1_000
    return pa.table(
        {
            "file": np.full(count, file, dtype=np.int32),
            "version": np.full(count, version, dtype=np.int64),
            "id": ids,
            "key": keys,
            "grp": rng.integers(0, GROUPS, count).astype(np.int32),
            "x": pa.array(rng.integers(-1_000, 1_000, count), mask=rng.random(count) < 0.1),
            "word": pa.array(words, mask=rng.random(count) < 0.05),
            "text": texts,
        }
    )


def file_bytes(seed: int, table: str, file: int, version: int) -> bytes:
    """A version as a Parquet file."""
    sink = pa.BufferOutputStream()
    layout = _layout(random.Random(f"{seed} {table} {file} {version}"))
    pq.write_table(make_rows(seed, table, file, version), sink, **layout)
    return sink.getvalue().to_pybytes()


def _layout(rng: random.Random) -> dict[str, Any]:
    layout: dict[str, Any] = {
        "row_group_size": rng.choice([150, 500, 1_000, 5_000]),
        "max_rows_per_page": rng.choice([50, 400, 5_000]),
        "use_dictionary": rng.choice([True, False, ["word", "grp"]]),
        "compression": rng.choice(["snappy", "zstd", "lz4", "none"]),
        "write_page_index": rng.random() < 0.7,
        "data_page_version": rng.choice(["1.0", "2.0"]),
    }
    if rng.random() < 0.4:
        layout["bloom_filter_options"] = {"word": {"ndv": 20}, "grp": {"ndv": 10}}
    return layout
