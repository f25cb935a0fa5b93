"""A reader of ours that fails: DataFusion's own answers, unless the data is at fault."""

from __future__ import annotations

import asyncio
import gc
import os
import time

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.errors import CorruptFileError

FORMS = {
    "collect": lambda frame: pa.Table.from_batches(frame.collect()),
    "to_arrow_table": lambda frame: frame.to_arrow_table(),
    "to_pandas": lambda frame: pa.Table.from_pandas(frame.to_pandas()),
    "to_polars": lambda frame: frame.to_polars().to_arrow(),
    "collect_partitioned": lambda frame: pa.Table.from_batches(
        [batch for part in frame.collect_partitioned() for batch in part]
    ),
    "execute_stream": lambda frame: pa.Table.from_batches(
        [batch.to_pyarrow() for batch in frame.execute_stream()]
    ),
    "iteration": lambda frame: pa.Table.from_batches([batch.to_pyarrow() for batch in frame]),
    "async_iteration": lambda frame: pa.Table.from_batches(asyncio.run(_batches(frame))),
}
IN_LISTS = [
    "(s IN ('a', 'b', 'c') AND v > 1) OR (s IN ('d', 'e', 'f') AND v > 3)",
    "(d IN ('1970-01-02', '1970-01-03', '1970-01-04') AND v > 1) OR (d = '1970-01-06' AND v > 3)",
    "(m IN (0.25, 0.5, 0.75) AND v > 1) OR (m IN (1.25, 1.5, 1.75) AND v > 3)",
]


async def _batches(frame):
    return [batch.to_pyarrow() async for batch in frame]


@pytest.fixture
def folder(tmp_path):
    a = pa.table(
        {
            "k": range(8),
            "s": list("abcdefgh"),
            "d": pa.array(range(8), pa.date32()),
            "m": pa.array([n / 4 for n in range(8)]).cast(pa.decimal128(9, 2)),
        }
    )
    pq.write_table(a, tmp_path / "a.parquet", row_group_size=3)
    pq.write_table(pa.table({"k": range(8), "v": range(8)}), tmp_path / "b.parquet")
    return tmp_path


def sessions(folder, *names, **options):
    plain = datafusion.SessionContext()
    ours = lm.SessionContext(options=lm.ScanOptions(**options))
    for context in (plain, ours):
        for name in names:
            context.register_parquet(name, str(folder / f"{name}.parquet"))
    return plain, ours


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("condition", IN_LISTS, ids=["text", "dates", "decimals"])
def test_lists_that_datafusion_cannot_hand_over(folder, condition, form):
    plain, ours = sessions(folder, "a", "b", path="late")
    query = f"SELECT a.k, s FROM a JOIN b ON a.k = b.k WHERE {condition} ORDER BY a.k"
    wanted = plain.sql(query).to_arrow_table()
    for _ in range(3):
        assert FORMS[form](ours.sql(query)).to_pylist() == wanted.to_pylist()
    reports = ours.scan_reports()
    assert [report.path for report in reports] == ["native", "native"]
    assert all("late failed: " in report.reason for report in reports)


def test_lists_that_datafusion_cannot_hand_over_are_explained(folder):
    _, ours = sessions(folder, "a", "b", path="late")
    query = f"EXPLAIN SELECT a.k FROM a JOIN b ON a.k = b.k WHERE {IN_LISTS[0]}"
    kinds = ours.sql(query).to_arrow_table().column("plan_type").to_pylist()
    assert kinds == ["logical_plan", "physical_plan", "parquet_scans"]


@pytest.mark.parametrize("path", ["auto", "late"])
def test_a_plan_that_datafusion_cannot_make_is_explained_as_far_as_it_gets(folder, path):
    plain, ours = sessions(folder, "a", path=path)
    query = (
        "EXPLAIN SELECT k, i FROM a CROSS JOIN LATERAL"
        " (SELECT * FROM unnest(generate_series(1, k))) AS series(i)"
    )
    wanted = plain.sql(query).to_arrow_table().to_pylist()
    assert [row["plan_type"] for row in wanted] == ["logical_plan", "physical_plan_error"]
    found = ours.sql(query).to_arrow_table().to_pylist()
    assert found[:2] == wanted


@pytest.fixture
def damaged(tmp_path):
    path = tmp_path / "c.parquet"
    table = pa.table({"k": range(1000), "s": [f"{n:05}" for n in range(1000)]})
    pq.write_table(table, path, compression="none", use_dictionary=False)
    offset = pq.ParquetFile(path).metadata.row_group(0).column(1).data_page_offset
    data = bytearray(path.read_bytes())
    data[offset : offset + 20] = b"\xff" * 20
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("form", FORMS)
def test_a_corrupt_page_is_an_error_of_ours(tmp_path, damaged, form):
    _, ours = sessions(tmp_path, "c", path="late")
    for _ in range(3):
        with pytest.raises(CorruptFileError, match=r'c\.parquet, column "s"') as raised:
            FORMS[form](ours.sql("SELECT * FROM c WHERE k > 3"))
        assert "PyErr" not in str(raised.value)
        assert isinstance(raised.value.__cause__, Exception)


@pytest.mark.parametrize("form", FORMS)
def test_a_corrupt_page_of_a_dataset_is_an_error_of_ours(damaged, form):
    ours = lm.SessionContext()
    ours.register_dataset("c", lm.dataset(damaged))
    for _ in range(2):
        with pytest.raises(CorruptFileError, match=r'c\.parquet, column "s"'):
            FORMS[form](ours.sql("SELECT * FROM c WHERE k > 3"))
    with pytest.raises(Exception, match="ivide by zero") as raised:
        FORMS[form](ours.sql("SELECT 1 / column1 FROM (VALUES (0), (1))"))
    assert not isinstance(raised.value, lm.LateError)


def test_a_corrupt_page_found_while_writing(tmp_path, damaged):
    _, ours = sessions(tmp_path, "c", path="late")
    with pytest.raises(CorruptFileError, match='column "s"'):
        ours.sql("SELECT * FROM c WHERE k > 3").write_csv(str(tmp_path / "out"))


def test_a_scan_that_fails_after_the_first_batch(tmp_path, monkeypatch):
    pq.write_table(pa.table({"k": range(100)}), tmp_path / "t.parquet", row_group_size=10)
    _, ours = sessions(tmp_path, "t", path="late", threads=1)
    ours.sql("SET datafusion.execution.target_partitions = 1")
    from lm_datafusion.dataset.scanner import LateScanner

    scan = LateScanner.to_batches

    def failing(self):
        yield next(scan(self))
        raise NotImplementedError("not yet")

    monkeypatch.setattr(LateScanner, "to_batches", failing)
    stream = ours.sql("SELECT k FROM t WHERE k > 3").execute_stream()
    first = next(stream).to_pyarrow()
    assert first.num_rows
    with pytest.raises(Exception, match="not yet"):
        next(stream)
    assert len(ours.sql("SELECT k FROM t WHERE k > 3").to_pylist()) == 96


@pytest.mark.parametrize("path", ["auto", "late"])
@pytest.mark.parametrize(
    "table",
    [
        "t (k BIGINT NOT NULL, s BYTEA) STORED AS PARQUET WITH ORDER (k ASC)",
        "t STORED AS PARQUET OPTIONS ('format.binary_as_string' 'true')",
    ],
    ids=["order", "options"],
)
def test_tables_that_only_their_own_options_read(tmp_path, path, table):
    file = tmp_path / "t.parquet"
    pq.write_table(pa.table({"k": range(20), "s": [b"abc"] * 20}), file, row_group_size=5)
    plain, ours = (
        datafusion.SessionContext(),
        lm.SessionContext(options=lm.ScanOptions(path=path)),
    )
    for context in (plain, ours):
        context.sql(f"CREATE EXTERNAL TABLE {table} LOCATION '{file}'")
    for query in ("SELECT * FROM t WHERE k > 3 ORDER BY k", "SELECT s FROM t ORDER BY k LIMIT 2"):
        assert ours.sql(query).to_pylist() == plain.sql(query).to_pylist()
        explained = ours.sql(f"EXPLAIN {query}").to_arrow_table()
        assert explained.column("plan").to_pylist()[:2] == (
            plain.sql(f"EXPLAIN {query}").to_arrow_table().column("plan").to_pylist()
        )
        assert "DataFusion's own reader\n" in str(ours.explain_scan(query))
        analyzed = ours.sql(f"EXPLAIN ANALYZE {query}").to_arrow_table()
        assert analyzed.column("plan_type").to_pylist()[-1] == "parquet_scans"


def test_an_error_of_a_stream_leaves_no_file_open(tmp_path):
    rows = {"id": range(20_000), "s": [f"v{i}" for i in range(20_000)]}
    for name in ("f0", "f1"):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table(rows), path, row_group_size=5_000, use_dictionary=False)
    data = bytearray(path.read_bytes())
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(1)
    size = chunk.total_compressed_size
    data[chunk.data_page_offset : chunk.data_page_offset + size] = b"\xff" * size
    path.write_bytes(data)
    config = datafusion.SessionConfig().with_target_partitions(2)
    ours = lm.SessionContext(config, options=lm.ScanOptions(path="late", batch_rows=100))
    ours.register_parquet("t", str(tmp_path))

    def ask():
        with pytest.raises(lm.LateError):
            for _ in ours.sql("SELECT * FROM t WHERE id > 5").execute_stream():
                pass

    ask()
    deadline = time.monotonic() + 20  # another partition may be in the middle of a batch
    while opened_below(tmp_path) and time.monotonic() < deadline:
        gc.collect()
        # Its bindings let go of Python's objects when they are called the next time.
        datafusion.SessionContext().sql("SELECT 1").collect()
        time.sleep(0.05)
    assert not opened_below(tmp_path)


def opened_below(folder):
    links = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    opened = [os.readlink(link) for link in links if os.path.islink(link)]
    return [name for name in opened if name.startswith(str(folder))]
