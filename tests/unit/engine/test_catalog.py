"""Names mean what DataFusion takes them for; versions move when they may change."""

from __future__ import annotations

import sys
import threading
import time

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.engine.catalog import SessionCatalog


@pytest.fixture
def path(tmp_path):
    pq.write_table(pa.table({"a": range(10)}), tmp_path / "a.parquet")
    return str(tmp_path / "a.parquet")


@pytest.mark.parametrize("name", ["Log", '"Log"', "other.t", "datafusion.other.T"])
def test_options_of_a_table_are_found_however_it_is_named(path, name):
    session = lm.SessionContext(options=lm.ScanOptions(path="native"))
    session.sql("CREATE SCHEMA other")
    session.register_parquet(name, path, options=lm.ScanOptions(path="late"))
    session.sql(f"SELECT * FROM {name} WHERE a > 5").collect()
    assert [report.path for report in session.scan_reports()] == ["late"]


def test_a_version_ends_with_a_change(path):
    catalog = SessionCatalog(datafusion.SessionContext())
    before = catalog.version
    assert catalog.is_now(before)
    with catalog.changing():
        assert catalog.version is None
        assert not catalog.is_now(before)
    assert not catalog.is_now(before)
    assert catalog.is_now(catalog.version)


def test_a_table_is_listed_again_when_its_folder_changes(tmp_path, path):
    context = datafusion.SessionContext()
    context.register_parquet("t", str(tmp_path))
    catalog = SessionCatalog(context)
    first = catalog.parquet_table(("t",))
    assert [file.path for file in first.files] == [path]
    assert catalog.parquet_table(("t",)) is first
    pq.write_table(pa.table({"a": [1]}), tmp_path / "b.parquet")
    assert not first.is_current
    assert catalog.parquet_table(("t",)) is not first


def test_what_is_no_parquet_table_is_none(path):
    context = datafusion.SessionContext()
    context.register_batch("memory", pa.record_batch({"a": [1]}))
    context.register_parquet("t", path)
    context.sql("CREATE VIEW v AS SELECT a FROM t")
    catalog = SessionCatalog(context)
    assert catalog.parquet_table(("memory",)) is None
    assert catalog.parquet_table(("missing",)) is None


class _Frame:
    df = None


@pytest.fixture
def quick_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("quick_switches")
def test_frames_may_come_while_the_catalog_changes():
    catalog = SessionCatalog(datafusion.SessionContext())
    until, errors = time.monotonic() + 0.5, []

    def add():
        kept = []
        while time.monotonic() < until:
            kept.append(_Frame())
            catalog.plan_before_changes(kept[-1])

    def change():
        try:
            while time.monotonic() < until:
                with catalog.changing():
                    pass
        except RuntimeError as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for run in (add, add, change)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
