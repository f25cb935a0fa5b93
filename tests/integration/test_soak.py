"""Short runs of `make soak`, and of its judges on answers that are wrong."""

from __future__ import annotations

import concurrent.futures
import threading

import pyarrow as pa
import pytest

import lm_datafusion as lm
from tests.dataset_files import open_descriptors, scan_threads
from tests.soak import repeat
from tests.soak.contents import file_bytes, make_rows
from tests.soak.ledger import ABSENT, Ledger, Span
from tests.soak.questions import KINDS, Condition, Counted
from tests.soak.run import Soak, growth_mib

SECONDS = 4
TIMES = 40
EVERYTHING = Condition("id >= 0", pa.compute.field("id") >= 0)


def test_statements_while_files_change(tmp_path):
    outcome = Soak(tmp_path, seed=7).run(SECONDS)
    assert outcome.failures == []
    assert outcome.counts["right"] > 0
    assert sum(n for name, n in outcome.counts.items() if name.startswith("files ")) > 0


@pytest.mark.parametrize("kind", ["to the end", "first rows", "closed early", "damaged page"])
def test_scans_leave_nothing_behind(tmp_path, kind):
    change = repeat.measure(repeat.scans(tmp_path)[kind], TIMES)
    assert not change.is_leak, change


def test_sixteen_threads_on_one_dataset(tmp_path):
    path = tmp_path / "t.parquet"
    path.write_bytes(file_bytes(1, "t", 1, 1))
    data, rows = lm.dataset(path, options=lm.ScanOptions(threads=2)), make_rows(1, "t", 1, 1)
    conditions = {"grp = 3": pa.compute.field("grp") == 3, "x > 0": pa.compute.field("x") > 0}
    expected = {sql: rows.filter(one).num_rows for sql, one in conditions.items()}
    barrier = threading.Barrier(16)

    def ask(number):
        barrier.wait()
        for turn in range(8):
            sql = list(conditions)[(number + turn) % 2]
            assert data.count_rows(sql) == expected[sql]
            assert data.head(3, filter=sql).num_rows == 3
            next(data.to_batches(filter=sql)).num_rows  # noqa: B018 dropped after a batch

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(ask, range(16)))
    assert (scan_threads(), open_descriptors(path)) == ([], 0)


# --- the judges ----------------------------------------------------------------------------------


def contents(file, version):
    return make_rows(1, "t", file, version)


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_of_other_versions_is_wrong(tmp_path, kind):
    for version in (0, 1):
        (tmp_path / f"{version}.parquet").write_bytes(file_bytes(1, "t", 4, version))
    answers = []
    for version in (0, 1):
        session = lm.SessionContext()
        session.register_parquet("t", str(tmp_path / f"{version}.parquet"))
        answers.append(session.sql(kind(EVERYTHING).sql("t")).to_arrow_table())
    for version, answer in enumerate(answers):
        judge = kind(EVERYTHING).judge
        assert judge(answer, {4: [version]}, contents) is None
        assert judge(answer, {4: [version, 1 - version, ABSENT]}, contents) is None
        assert judge(answer, {4: [1 - version]}, contents) is not None
        assert judge(answer, {4: [ABSENT]}, contents) is not None
        if kind is not Counted:
            mixed = pa.concat_tables([answer.slice(0, 5), answers[1 - version].slice(5)])
            assert judge(mixed, {4: [0, 1]}, contents) is not None


def test_a_ledger_knows_what_can_be_met():
    ledger = Ledger()
    with ledger.span() as before:
        pass
    with ledger.change(1, 7), ledger.span() as during:
        pass
    with ledger.span() as after:
        pass
    assert ledger.candidates(before[0]) == {1: [ABSENT]}
    assert ledger.candidates(during[0]) == {1: [ABSENT, 7]}
    assert ledger.candidates(after[0]) == {1: [7]}
    assert ledger.has_change(during[0])
    assert not ledger.has_change(after[0])
    assert ledger.candidates(Span(before[0].begin_s, after[0].end_s)) == {1: [ABSENT, 7]}
    assert ledger.current() == {1: 7}
    assert ledger.forget(0) == {(1, 7)}


def test_growth_counts_from_the_end_of_the_warm_up():
    assert growth_mib([]) == 0
    assert growth_mib([100, 200, 210, 205]) == 5
    assert growth_mib([100, 110, 120, 130, 140, 300, *[310] * 30]) == 10
