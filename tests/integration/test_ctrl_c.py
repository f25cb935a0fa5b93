"""Ctrl-C in the middle of a scan: `KeyboardInterrupt`, nothing left, and the process ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

LONGEST_S = 60
PREAMBLE = """
    import os, sys, threading, time
    import lm_datafusion as lm

    path, threads = sys.argv[1], int(sys.argv[2])
    data = lm.dataset(path, options=lm.ScanOptions(threads=threads, condition_cache_bytes=0))

    def left():
        open_files = []
        for name in os.listdir("/proc/self/fd"):
            try:
                open_files.append(os.readlink(f"/proc/self/fd/{name}") == path)
            except OSError:
                pass
        scanning = [t.name for t in threading.enumerate() if t.name.startswith("lm-")]
        return sum(open_files), scanning

    def scan():
        SCAN

    scan()
    try:
        print("ready", flush=True)
        while True:
            scan()
    except KeyboardInterrupt:
        # A thread that was just being started sees that it is over, and ends.
        deadline = time.monotonic() + 20
        while left() != (0, []) and time.monotonic() < deadline:
            time.sleep(0.01)
        print("interrupted", left(), flush=True)
        raise
"""
SCANS = {
    "batches": "sum(batch.num_rows for batch in data.to_batches(filter=\"text LIKE '%7%'\"))",
    "evaluated": "data.count_rows(\"upper(text) LIKE '%7%'\")",
    "first rows": "data.to_table(order_by=[('key', 'descending')], limit=20, filter='id > 7')",
    "limit": "data.to_table(filter='id % 3 = 1', limit=5000)",
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    numbers = np.arange(30_000)
    table = pa.table(
        {"id": numbers, "key": numbers * 7919 % 10_007, "text": [f"row {n}" for n in numbers]}
    )
    path = tmp_path_factory.mktemp("ctrl_c") / "t.parquet"
    pq.write_table(table, path, row_group_size=1_000, max_rows_per_page=200)
    return str(path)


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("threads", [1, 3])
def test_a_scan_is_interrupted(path, scan, threads):
    script = textwrap.dedent(PREAMBLE).replace("SCAN", SCANS[scan])
    command = [sys.executable, "-c", script, path, str(threads)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=LONGEST_S)
        finally:
            process.kill()
    assert out == "interrupted (0, [])\n", err[-3000:]
    assert "KeyboardInterrupt" in err
    assert process.returncode == -signal.SIGINT
