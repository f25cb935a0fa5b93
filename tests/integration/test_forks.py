"""Scans before and after a fork, in a child, in a pool of processes."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import pickle
import subprocess
import sys
import textwrap

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.metrics import ScanMetrics
from lm_datafusion.plan import ScanRequest
from lm_datafusion.scan import ScanRun, plan_scan

ROWS = 6_000
CONDITIONS = ["id >= 500 AND id < 2000", "text LIKE '%77%'", "upper(text) = 'ROW 5'"]
LONGEST_S = 60

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")

PREAMBLE = """
    import faulthandler, os, sys, threading, time, warnings
    import lm_datafusion as lm
    from lm_datafusion.formats.cache import FACTS

    warnings.simplefilter("ignore", DeprecationWarning)
    path = sys.argv[1]
    data = lm.dataset(path, options=lm.ScanOptions(threads=2, batch_rows=50))

    def in_child(work):
        pid = os.fork()
        if not pid:
            faulthandler.dump_traceback_later(20, exit=True)
            work()
            sys.stdout.flush()
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""
SCRIPTS = {
    "a scan before and one in the child": """
        before = [data.count_rows(c) for c in conditions]
        in_child(lambda: print(before == [data.count_rows(c) for c in conditions]))
        """,
    "in the middle of a scan": """
        batches = data.to_batches(filter=conditions[0])
        next(batches)

        def work():
            try:
                for _ in batches:
                    pass
            except lm.LateError as error:
                print(type(error).__name__ == "ScanStoppedError" and data.count_rows() == 6000)

        in_child(work)
        assert sum(batch.num_rows for batch in batches) == 1450
        """,
    "a scan of one thread goes on in both": """
        alone = data.with_options(threads=1)
        batches = alone.to_batches(filter=conditions[0])
        next(batches)
        in_child(lambda: print(sum(batch.num_rows for batch in batches) == 1450))
        assert sum(batch.num_rows for batch in batches) == 1450
        """,
    "while another thread holds the lock of a cache": """
        data.count_rows(conditions[0])
        is_held = threading.Event()

        def hold():
            with FACTS.lock:
                is_held.set()
                time.sleep(0.3)

        threading.Thread(target=hold).start()
        is_held.wait()
        in_child(lambda: print(data.count_rows(conditions[0]) == 1500))
        """,
    "while other threads scan": """
        is_over = threading.Event()

        def scan():
            while not is_over.is_set():
                for condition in conditions:
                    data.count_rows(condition)

        # Python does not free the lock of a module that another thread was importing.
        [data.count_rows(condition) for condition in conditions]
        threads = [threading.Thread(target=scan, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(10):
            in_child(lambda: data.count_rows(conditions[0]) == 1500 or sys.exit(3))
        is_over.set()
        print(True)
        """,
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("forks") / "t.parquet"
    table = pa.table({"id": range(ROWS), "text": [f"row {number}" for number in range(ROWS)]})
    pq.write_table(table, path, row_group_size=500, max_rows_per_page=100, write_page_index=True)
    return str(path)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_fork(path, name):
    script = textwrap.dedent(PREAMBLE) + f"conditions = {CONDITIONS!r}\n"
    command = [sys.executable, "-c", script + textwrap.dedent(SCRIPTS[name]), path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    assert (done.stdout.strip(), done.returncode) == ("True", 0), done.stderr[-3000:]


def count(data):
    return [data.count_rows(condition) for condition in CONDITIONS]


def run_plan(plan):
    return sum(batch.num_rows for batch in ScanRun(plan, ScanMetrics()).batches())


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_datasets_and_plans_go_to_other_processes(path, method):
    data = lm.dataset(path)
    expected = count(data)
    request = ScanRequest(conjuncts=data.filter("id < 700").conjuncts, columns=("id",))
    plan = plan_scan(data.table, request, data.options, ScanMetrics())
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        counts = [pool.submit(count, data) for _ in range(2)]
        rows = pool.submit(run_plan, pickle.loads(pickle.dumps(plan)))
        assert [found.result(LONGEST_S) for found in counts] == [expected] * 2
        assert rows.result(LONGEST_S) == 700
