from __future__ import annotations

import threading
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.errors import ScanStoppedError
from lm_datafusion.scan.exit import end_scans


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "v.parquet"
    pq.write_table(pa.table({"v": range(1000)}), path, row_group_size=100)
    return path


@pytest.fixture
def busy():
    """Threads that keep the processor busy until the test is over."""
    is_over = threading.Event()

    def work():
        while not is_over.is_set():
            sum(range(1000))

    thread = threading.Thread(target=work)
    thread.start()
    yield is_over
    is_over.set()
    thread.join()


@pytest.mark.parametrize("options", [{"use_threads": False}, {"limit": 900}], ids=str)
def test_a_scan_under_way_is_stopped(path, options):
    batches = lm.dataset(path).to_batches(filter="v % 2 = 0", batch_size=10, **options)
    next(batches)
    end_scans()
    with pytest.raises(ScanStoppedError, match="interpreter is ending"):
        list(batches)


def test_a_scan_that_begins_later_is_not_stopped(path):
    end_scans()
    assert lm.dataset(path).count_rows("v % 2 = 0") == 500


def test_it_waits_for_a_thread_that_is_busy(busy):
    assert not end_scans(longest_wait_s=0.2)
    busy.set()
    assert end_scans(longest_wait_s=30)


def test_it_does_not_wait_for_threads_that_sleep():
    woken = threading.Event()
    sleeper = threading.Thread(target=woken.wait)
    sleeper.start()
    begun_s = time.monotonic()
    try:
        assert end_scans(longest_wait_s=30)
        assert time.monotonic() - begun_s < 5
    finally:
        woken.set()
        sleeper.join()
