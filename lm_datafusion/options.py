"""What a user may set about a scan, each option with the reason for its default.

In: keyword arguments. Out: a frozen, picklable `ScanOptions`.

Invariant: no option changes an answer; each changes only what is read, when, and with how much
memory.
"""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from typing import Literal, get_args

from lm_datafusion.errors import OptionError

AccessPath = Literal["auto", "native", "late"]
StringType = Literal["string", "string_view"]

MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """How a table is scanned.

    Attributes:
        path: Which reader serves a table in SQL; a dataset always scans late.
        threads: Scan workers of one scan. None means one per core the process may use.
        batch_rows: Rows an output batch holds at most. 131,072 rows make the fixed cost of a
            batch (about 0.1 ms on its way through an engine) vanish and still fit the cache.
        window_bytes: Uncompressed bytes of a row group's widest column that are decoded at a
            time. Memory of a scan grows with this and the threads, not with the file.
        queue_batches: Finished batches a row group may hold ahead of the consumer.
        string_type: Arrow type of string columns handed out. `string` is what DuckDB, Polars and
            pandas take without a copy; `string_view` is what DataFusion's own reader gives. To
            DataFusion neither is better: 0.86 to 1.12 times the time of the other, query by query
            (`tests/benchmark/bench_strings.py`).
        prune_statistics: Use row-group minima, maxima and null counts.
        prune_bloom_filter: Use bloom filters.
        prune_dictionary: Use dictionaries of chunks that are wholly dictionary-coded.
        prune_page_index: Use the column index to skip pages.
        dictionary_limit_bytes: Largest dictionary page read for pruning only. Writers stop at
            1 MiB by default; reading more to prune costs more than it saves.
        verify_checksums: Check each page that is read against the checksum in its header, where
            the writer made one, before it is decoded; a page that differs is a `CorruptFileError`.
            Pages that are not read are not checked; what scans without it have learned about rows
            is not used. Off, as in DataFusion, DuckDB, PyArrow and parquet-java, so that no file
            is refused that they read. It costs 20 to 26 % more processor time for uncompressed
            pages, whose values are hardly more than copied; within noise for compressed pages that
            kernels read; up to 14 % where PyArrow reads them, as for lists
            (`tests/benchmark/bench_checksums.py`).
        reorder_filters: Order the filter steps by expected, then by measured, time per dropped
            row. Off: the order in which they were written.
        metadata_cache_bytes: What the process-wide cache of footers and page indexes may hold.
        condition_cache_bytes: What the process-wide cache of rows that met conditions may hold;
            0 turns it off. A condition takes at most a bit per row and as a rule far less (8
            bytes per run of rows, next to nothing for a row group without a match), so 32 MiB
            hold the answers of 25 conditions that select at random half of 10 million rows, or
            of some 400 that select one row in 2,000: the conditions of several dashboards, for
            less memory than one scan thread's columns take.
        fetch_ahead_bytes: What scans of an object store may hold of it in memory, bytes on their
            way included, and finished batches that nobody has taken. The row group that is next to
            be handed over is read in any case. 64 MiB keep a connection of 100 MB/s busy for 0.6 s.
        request_timeout_s: When a request to an object store counts as lost.
        request_retries: How often a request is repeated after an answer that may be better next
            time: 429, 5xx, a lost connection, a body that ends early.
        retry_timeout_s: How long a request may be repeated. These three hold for stores that are
            made from a URL; a store that is given keeps its own.
    """

    path: AccessPath = "auto"
    threads: int | None = None
    batch_rows: int = 131_072
    window_bytes: int = 32 * MEBIBYTE
    queue_batches: int = 2
    string_type: StringType = "string"
    prune_statistics: bool = True
    prune_bloom_filter: bool = True
    prune_dictionary: bool = True
    prune_page_index: bool = True
    dictionary_limit_bytes: int = MEBIBYTE
    verify_checksums: bool = False
    reorder_filters: bool = True
    metadata_cache_bytes: int = 64 * MEBIBYTE
    condition_cache_bytes: int = 32 * MEBIBYTE
    fetch_ahead_bytes: int = 64 * MEBIBYTE
    request_timeout_s: float = 30.0
    request_retries: int = 8
    retry_timeout_s: float = 60.0

    def __post_init__(self) -> None:
        if self.path not in get_args(AccessPath):
            raise OptionError(f"path must be one of {get_args(AccessPath)}, not {self.path!r}")
        if self.string_type not in get_args(StringType):
            raise OptionError(
                f"string_type must be one of {get_args(StringType)}, not {self.string_type!r}"
            )
        for name in ("batch_rows", "window_bytes", "queue_batches"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in (
            "metadata_cache_bytes",
            "condition_cache_bytes",
            "fetch_ahead_bytes",
            "request_retries",
        ):
            if getattr(self, name) < 0:
                raise OptionError(f"{name} must be at least 0, not {getattr(self, name)}")
        for name in ("request_timeout_s", "retry_timeout_s"):
            if getattr(self, name) <= 0:
                raise OptionError(f"{name} must be more than 0, not {getattr(self, name)}")
        if self.threads is not None and self.threads < 1:
            raise OptionError(f"threads must be at least 1, not {self.threads}")

    @property
    def worker_count(self) -> int:
        """Scan workers to start: what was asked for, else the cores this process may use."""
        if self.threads is not None:
            return self.threads
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2

    def with_changes(self, **changes: object) -> ScanOptions:
        """A copy with some options changed; an unknown name is an `OptionError`."""
        names = {field.name for field in dataclasses.fields(self)}
        for name in changes:
            if name not in names:
                raise OptionError(f"no option named {name!r}; there are {', '.join(sorted(names))}")
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]
