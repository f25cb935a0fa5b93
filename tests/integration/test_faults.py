"""Reads that fail, files that change under a scan: an error that names the file, or right rows.

Every read of some small queries fails once, in each of several ways.
"""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.errors import FileChangedError, FileMissingError, StorageError
from lm_datafusion.formats.cache import FACTS
from lm_datafusion.scan.memory.condition_cache import CONDITIONS
from lm_datafusion.scan.memory.footer_answers import ANSWERS
from lm_datafusion.scan.memory.stage_outcomes import OUTCOMES
from tests.dataset_files import open_descriptors, scan_threads
from tests.faulty_storage import FaultyStorage, faulty_dataset, io_error, timed_out

ROWS = 120
NARROW = {"columns": ["id", "x"]}
QUERIES = {
    "filter": NARROW | {"filter": "grp = 3 AND x > 30"},
    "like": NARROW | {"filter": "text LIKE '%7%'"},
    "evaluated": NARROW | {"filter": "upper(text) <> 'ROW 3' AND grp < 4"},
    "nothing matches": NARROW | {"filter": "word = 'omega'"},
    "all rows": {},
    "lists": {"columns": ["id", "items"], "filter": "grp = 2"},
    "limit": NARROW | {"filter": "grp = 3", "limit": 15},
    "reverse": NARROW | {"filter": "grp = 3", "reverse": True},
    "first rows": NARROW | {"filter": "grp <> 3", "order_by": [("key", "descending")], "limit": 9},
}


def rows(sign=1):
    numbers = np.arange(ROWS)
    return pa.table(
        {
            "id": numbers,
            "key": sign * (numbers * 7919 % 1009),
            "grp": (numbers % 5).astype(np.int32),
            "x": pa.array(sign * numbers, mask=numbers % 11 == 0),
            "word": np.array(["alpha", "beta", "gamma", "delta"])[numbers // 3 % 4],
            "text": [f"row {number}" for number in numbers],
            "items": [[number, number + 1] for number in numbers],
        }
    )


SCHEMA = rows().schema


def write(path, table):
    pq.write_table(
        table,
        path,
        row_group_size=60,
        max_rows_per_page=30,
        write_page_index=True,
        use_dictionary=["word"],
        bloom_filter_options={"word": {"ndv": 8}},
    )


@pytest.fixture
def path(tmp_path):
    write(tmp_path / "t.parquet", rows())
    return tmp_path / "t.parquet"


def forget():
    """Scans read again what earlier ones have left in memory."""
    for memory in (FACTS, CONDITIONS, ANSWERS, OUTCOMES):
        memory.clear()


def ask(path, storage, query, **options):
    options = {"threads": 1} | options
    return faulty_dataset(path, SCHEMA, storage, **options).to_table(**QUERIES[query])


def count_reads(path, query, **settings):
    forget()
    storage = FaultyStorage(**settings)
    ask(path, storage, query)
    return storage.reads


def assert_named(path, error):
    assert str(path) in str(error)


def assert_nothing_left(path):
    assert scan_threads() == []
    assert open_descriptors(path) == 0


# --- every read fails once -----------------------------------------------------------------------


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize(("fault", "threads"), [(io_error, 1), (timed_out, 2)])
def test_any_read_may_fail(path, query, fault, threads):
    expected = lm.dataset(path).to_table(**QUERIES[query])
    failed = 0
    reads = count_reads(path, query)
    assert reads >= 2
    for number in range(reads):
        forget()
        storage = FaultyStorage({number: fault})
        try:
            found = ask(path, storage, query, threads=threads)
        except StorageError as error:
            failed += 1
            assert_named(path, error)
        else:
            assert found.equals(expected)
        assert_nothing_left(path)
        # What the failed scan has left in memory misleads nobody.
        assert ask(path, FaultyStorage(), query, threads=threads).equals(expected)
    assert failed


@pytest.mark.parametrize("query", QUERIES)
def test_any_read_may_be_too_short(path, query):
    expected = lm.dataset(path).to_table(**QUERIES[query])
    for number in range(count_reads(path, query)):
        forget()
        try:
            found = ask(path, FaultyStorage(short=[number]), query)
        except lm.LateError as error:
            assert_named(path, error)
        else:
            assert found.equals(expected)
        assert_nothing_left(path)


# --- the file changes before a read --------------------------------------------------------------


def cut_short(path, length):
    def change(_file):
        os.truncate(path, length)

    return change


def rewritten(path):
    def change(_file):
        write(path, rows(-1))

    return change


def removed(path):
    return lambda _file: os.unlink(path)


def replaced(path):
    def change(_file):
        write(f"{path}.new", rows(-1))
        os.replace(f"{path}.new", path)

    return change


def close(file):
    if file is not None:
        file.close()


CHANGES = {
    "cut to nothing": lambda path: cut_short(path, 0),
    "cut short": lambda path: cut_short(path, 1000),
    "rewritten": rewritten,
    "replaced": replaced,
    "removed": removed,
}


@pytest.mark.parametrize(
    ("change", "has_descriptors"), [*((change, True) for change in CHANGES), ("rewritten", False)]
)
@pytest.mark.parametrize("query", QUERIES)
def test_a_file_may_change_before_any_read(path, query, change, has_descriptors):
    """Rows of what the file was, or an error: `FileChangedError`, or that there is no file."""
    original = path.read_bytes()
    before = lm.dataset(path).to_table(**QUERIES[query])
    settings = {"has_descriptors": has_descriptors}
    failed = 0
    for number in range(count_reads(path, query, **settings)):
        path.write_bytes(original)
        forget()
        storage = FaultyStorage({number: CHANGES[change](path)}, **settings)
        try:
            # Without a condition cache, which would look at the file once more.
            found = ask(path, storage, query, condition_cache_bytes=0)
        except (FileChangedError, FileMissingError) as error:
            failed += 1
            assert_named(path, error)
        else:
            assert found.equals(before), number
        assert_nothing_left(path)
    assert failed


@pytest.mark.parametrize("query", QUERIES)
def test_a_descriptor_that_somebody_closed_is_an_error(path, query):
    expected = lm.dataset(path).to_table(**QUERIES[query])
    failed = 0
    for number in range(count_reads(path, query, has_descriptors=True)):
        forget()
        storage = FaultyStorage({number: close}, has_descriptors=True)
        try:
            found = ask(path, storage, query)
        except StorageError as error:
            failed += 1
            assert_named(f"{path}: Bad file descriptor", error)
        else:
            assert found.equals(expected)
        assert_nothing_left(path)
    assert failed


# --- a consumer that has enough ------------------------------------------------------------------


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("threads", [1, 3])
def test_a_consumer_may_stop_at_any_batch(path, query, threads):
    data = lm.dataset(path, options=lm.ScanOptions(threads=threads, batch_rows=7))
    count = sum(1 for _ in data.to_batches(**QUERIES[query]))
    for stop in range(count + 1):
        batches = data.to_batches(**QUERIES[query])
        for _ in range(stop):
            next(batches, None)
        batches.close()
        assert_nothing_left(path)
