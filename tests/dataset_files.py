"""Parquet files and comparisons for the tests of the dataset."""

from __future__ import annotations

import datetime as dt
import decimal
import gc
import os
import threading
import time

import pyarrow as pa
import pyarrow.parquet as pq

MANY_KINDS_ROWS = 240
# Small pages and row groups, so that a few hundred rows have both more than once.
SMALL_PAGES = {
    "row_group_size": 64,
    "data_page_size": 128,
    "write_batch_size": 8,
    "write_page_index": True,
}


def many_kinds(rows=MANY_KINDS_ROWS):
    """A column of each kind an engine may ask for, most with nulls; floats with NaN and -0.0."""
    numbers = range(rows)
    floats = [None, float("nan"), -0.0, 0.0, 1.0, 1.5, float("inf"), float("-inf"), -2.5, 3.25]
    start = dt.datetime(2024, 1, 1)  # noqa: DTZ001 a wall clock
    moments = [None if i % 11 == 0 else start + dt.timedelta(hours=i) for i in numbers]
    words = ["", "ä", "apple", "banana", None, "cherry", "it's", "Zebra"]
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "a": pa.array([None if i % 4 == 3 else i % 10 for i in numbers], pa.int64()),
            "small": pa.array([i % 100 - 50 for i in numbers], pa.int8()),
            "u": pa.array([None if i % 9 == 0 else i * 2**56 // 8 for i in numbers], pa.uint64()),
            "f": pa.array([floats[i % len(floats)] for i in numbers], pa.float64()),
            "g": pa.array([floats[i * 3 % len(floats)] for i in numbers], pa.float32()),
            "s": pa.array([words[i % len(words)] for i in numbers], pa.string()),
            "k": pa.array([f"key {i * 7919 % 1009}" for i in numbers], pa.string()),
            "b": pa.array([None if i % 5 == 0 else i % 3 == 0 for i in numbers], pa.bool_()),
            "d": pa.array(
                [None if i % 13 == 0 else start.date() + dt.timedelta(i) for i in numbers]
            ),
            "ts": pa.array(moments, pa.timestamp("s")),
            "tms": pa.array(moments, pa.timestamp("ms")),
            "tus": pa.array(moments, pa.timestamp("us")),
            "tns": pa.array(moments, pa.timestamp("ns")),
            "tz": pa.array(moments, pa.timestamp("us", tz="UTC")),
            "dec": pa.array(
                [None if i % 6 == 0 else decimal.Decimal(i - 100).scaleb(-2) for i in numbers],
                pa.decimal128(12, 2),
            ),
            "bin": pa.array([None if i % 8 == 0 else bytes([i % 256, 0, 255]) for i in numbers]),
            "dic": pa.array([words[i // 3 % len(words)] for i in numbers]).dictionary_encode(),
            "lst": pa.array([None if i % 7 == 0 else list(range(i % 4)) for i in numbers]),
            "st": pa.array(
                [None if i % 10 == 9 else {"x": i, "y": words[i % len(words)]} for i in numbers]
            ),
        }
    )


def write_many_kinds(path, rows=MANY_KINDS_ROWS, **options):
    table = many_kinds(rows)
    pq.write_table(table, path, **(SMALL_PAGES | options))
    return table


def same_values(left, right):
    """Equal schemas and values; NaN equals NaN, and -0.0 is not 0.0."""
    assert left.schema.equals(right.schema), f"{left.schema}\n---\n{right.schema}"
    assert left.num_rows == right.num_rows
    for name, one, other in zip(left.column_names, left.columns, right.columns, strict=True):
        # Equal bits would be enough, but padding and empty slots may differ.
        assert one.equals(other) or repr(one.to_pylist()) == repr(other.to_pylist()), name
    return True


def sorted_rows(rows):
    """Rows in an order that does not depend on their types."""
    return sorted(map(repr, rows))


def scan_threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("lm-scan-")]


def open_descriptors(path):
    """How many descriptors of this process lead to a file."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{name}") == os.fspath(path)
        except OSError:  # closed since it was listed
            continue
    return count


def wait_until_idle(path, seconds=5.0, nudge=None):
    """Waits for an engine to let go of an abandoned stream; what is left after that time.

    `nudge` is called again and again: an engine may put off the work to its next call.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        gc.collect()
        if nudge is not None:
            nudge()
        if not scan_threads() and not open_descriptors(path):
            break
        time.sleep(0.01)
    return scan_threads(), open_descriptors(path)
