"""A file that is rewritten in place, its size and modification time as before."""

from __future__ import annotations

import os
import time

import pyarrow as pa
import pytest

import lm_datafusion as lm
from lm_datafusion.errors import FileChangedError
from lm_datafusion.formats.cache import FACTS
from lm_datafusion.scan import load_facts
from tests.faulty_storage import FaultyStorage, faulty_dataset
from tests.parquet_files import write_parquet

ROWS = 5_000
CONDITIONS = ["v >= 4000", "v < -4000", "s = '+00042'", "s LIKE '-%'"]


def table(sign):
    numbers = range(ROWS)
    text = {1: "+", -1: "-"}[sign]
    return pa.table(
        {
            "v": pa.array([sign * i for i in numbers], pa.int64()),
            "s": [f"{text}{i:05}" for i in numbers],
        }
    )


def data_of(sign):
    return write_parquet(table(sign), row_group_size=500, use_dictionary=False, compression="none")


def rewrite(path, data):
    before = path.stat()
    assert len(data) == before.st_size
    # The clock of file times ticks every few milliseconds.
    time.sleep(0.05)
    with open(path, "r+b") as file:
        file.write(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "t.parquet"
    path.write_bytes(data_of(1))
    return path


def expected_counts(sign):
    values, texts = table(sign)["v"].to_pylist(), table(sign)["s"].to_pylist()
    return [
        sum(v >= 4000 for v in values),
        sum(v < -4000 for v in values),
        sum(s == "+00042" for s in texts),
        sum(s.startswith("-") for s in texts),
    ]


def test_datasets_read_it_again(path):
    for _ in range(2):
        assert [lm.dataset(path).count_rows(c) for c in CONDITIONS] == expected_counts(1)
    kept = lm.dataset(path)
    rewrite(path, data_of(-1))
    for dataset in (kept, lm.dataset(path)):
        assert [dataset.count_rows(c) for c in CONDITIONS] == expected_counts(-1)
        assert dataset.to_table().equals(table(-1))


def test_sessions_on_the_late_path_read_it_again(path):
    session = lm.SessionContext(options=lm.ScanOptions(path="late"))
    session.register_parquet("t", str(path))

    def counts():
        return [session.sql(f"SELECT v FROM t WHERE {c}").count() for c in CONDITIONS]

    for _ in range(3):
        assert counts() == expected_counts(1)
    rewrite(path, data_of(-1))
    for _ in range(3):
        assert counts() == expected_counts(-1)


# --- while it is read ----------------------------------------------------------------------------


def overwrite(path, data):
    def change(_file):
        assert len(data) == path.stat().st_size
        with open(path, "r+b") as file:
            file.write(data)

    return change


def counts_while(path, change, condition, **options):
    """By read: the rows found if the file is overwritten before that read, or an error."""
    original = path.read_bytes()
    found, number = [], 0
    while True:
        path.write_bytes(original)
        FACTS.clear()
        storage = FaultyStorage({number: overwrite(path, change)})
        data = faulty_dataset(path, table(1).schema, storage, threads=1, **options)
        try:
            found.append(data.count_rows(condition))
        except FileChangedError:
            found.append(FileChangedError)
        if storage.reads <= number:
            return found[:-1]
        number += 1


@pytest.mark.parametrize("condition", ["s LIKE '%+%'", "upper(s) LIKE '+%' AND v > -1"])
def test_row_groups_of_another_version_that_hold_nothing_come_to_light(path, condition):
    """Without a condition cache, which looks at the file once more."""
    found = counts_while(path, data_of(-1), condition, condition_cache_bytes=0)
    assert len(found) > 10
    assert set(found) <= {ROWS, FileChangedError}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_pages_of_nothing_are_a_change_and_no_corrupt_file(path, condition):
    data = path.read_bytes()
    zeros = b"PAR1" + bytes(len(data) - 4 - len(data) // 3) + data[-(len(data) // 3) :]
    expected = lm.dataset(path).count_rows(condition)
    assert set(counts_while(path, zeros, condition)) <= {expected, FileChangedError}


def test_a_footer_is_of_the_version_it_is_kept_for(path):
    storage = FaultyStorage({1: overwrite(path, data_of(-1))})
    version = storage.load_version(str(path))
    with pytest.raises(FileChangedError, match=r"t\.parquet"):
        load_facts(storage, str(path), lm.ScanOptions())
    assert FACTS.get(version) is None
