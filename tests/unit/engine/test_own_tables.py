from __future__ import annotations

import os
import time

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.engine import own_tables

QUERY = "SELECT a FROM t WHERE b = 7 ORDER BY a"
PUSHED = lm.ScanOptions(path="native_pushdown")


@pytest.fixture
def folder(tmp_path):
    for number in range(12):
        table = pa.table({"a": [number, number + 100], "b": [7, number]})
        pq.write_table(table, tmp_path / f"{number:02}.parquet")
    return tmp_path


@pytest.fixture
def places(monkeypatch):
    """Where files were looked for, in the order of tables made."""
    seen = []
    original = own_tables._places

    def watched(paths):
        seen.append(original(paths))
        return seen[-1]

    monkeypatch.setattr(own_tables, "_places", watched)
    return seen


def answer(place, options=PUSHED):
    context = lm.SessionContext(options=options)
    context.register_parquet("t", place)
    found = context.sql(QUERY).to_pydict()
    assert [report.path for report in context.scan_reports()] == [options.path]
    return found


def test_files_that_are_all_of_a_folder_are_found_by_it(folder, places):
    (folder / "_manifest.json").write_text("{}")
    assert answer(folder)["a"] == [*range(12), 107]
    assert places == [[os.path.join(folder, "")]]


def test_files_that_have_others_beside_them_are_named_one_by_one(folder, places):
    chosen = folder / "0*.parquet"
    assert answer(chosen)["a"] == [*range(10), 107]
    (named,) = places
    assert sorted(named) == [str(folder / f"0{n}.parquet") for n in range(10)]


def test_a_folder_within_the_folder_may_have_more(folder, places):
    (folder / "more").mkdir()
    pq.write_table(pa.table({"a": [500], "b": [7]}), folder / "more" / "x.parquet")
    expected = answer(folder, lm.ScanOptions(path="native"))
    assert answer(folder) == expected
    (named,) = places
    assert os.path.join(folder, "") not in named


def test_names_of_another_ending_are_not_taken_along(folder, places):
    # Nobody asked for what is not named .parquet, and DataFusion would not find it by the folder.
    os.rename(folder / "11.parquet", folder / "11.data")
    assert answer(folder)["a"] == [*range(11), 107]
    assert places == [[os.path.join(folder, "")]]


def test_a_folder_that_has_changed_is_looked_at_again(folder, places):
    context = lm.SessionContext(options=PUSHED)
    context.register_parquet("t", folder)
    first = context.sql(QUERY).to_pydict()
    assert context.sql(QUERY + " LIMIT 100").to_pydict() == first
    assert places == [[os.path.join(folder, "")]]
    # DataFusion keeps the list that it made for `t`: the file does not count.
    pq.write_table(pa.table({"a": [500], "b": [7]}), folder / "12.parquet")
    assert context.sql(QUERY + " LIMIT 101").to_pydict() == first
    assert [report.path for report in context.scan_reports()] == ["native_pushdown"]
    assert len(places) == 2
    assert sorted(places[1]) == [str(folder / f"{n:02}.parquet") for n in range(12)]


def test_the_list_of_a_folder_is_that_of_the_table(folder):
    def answers(context):
        context.sql("SET datafusion.runtime.list_files_cache_ttl = '3s'")
        context.register_parquet("t", folder)
        context.sql(QUERY).collect()
        time.sleep(3.1)
        context.sql("SELECT a FROM t").collect()
        pq.write_table(pa.table({"a": [500], "b": [7]}), folder / "12.parquet")
        found = context.sql(QUERY).to_pydict()
        os.remove(folder / "12.parquet")
        return found

    assert answers(lm.SessionContext(options=PUSHED)) == answers(datafusion.SessionContext())
