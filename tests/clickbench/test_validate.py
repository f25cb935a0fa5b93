from __future__ import annotations

import argparse
import json
import re

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from clickbench import validate as command
from clickbench.expected import PREDICATES, Skipped, allowed, check_predicate
from clickbench.layout import write_file
from clickbench.measure import Measure
from clickbench.schema import SCHEMA


@pytest.fixture(scope="module")
def folder(tmp_path_factory, hits):
    path = tmp_path_factory.mktemp("valid")
    write_file(iter([hits]), str(path / "hits_000.parquet"), "clickbench")
    return path


@pytest.fixture(scope="module")
def results(folder):
    return command.validate(Measure(str(folder)), str(folder))


def written(tmp_path, table):
    write_file(iter([table]), str(tmp_path / "hits_000.parquet"), "clickbench")
    return Measure(str(tmp_path))


def replaced(table, name, values):
    index = SCHEMA.get_field_index(name)
    return table.set_column(index, SCHEMA.field(index), values.cast(SCHEMA.field(index).type))


def test_every_predicate_of_the_queries_passes(results):
    predicates = [r for r in results if r.group == "predicate"]
    assert len(predicates) == len(PREDICATES)
    assert [r for r in predicates if not r.passed] == []


def test_what_makes_no_sense_at_this_size_is_listed_with_the_reason(results):
    skipped = {r.name: r.reason for r in results if isinstance(r, Skipped)}
    assert "row groups" in skipped["UserID of Q19"]
    assert "empty" in skipped["Q41"]


def test_what_is_wrong_is_noticed(tmp_path, capsys, hits):
    assert command.main(arguments(tmp_path)) == 2  # no files
    broken = hits.filter(pc.field("UserID") != 435090932899640449)
    broken = replaced(broken, "AdvEngineID", pc.multiply(broken["AdvEngineID"], 0))
    broken = replaced(broken, "URL", pc.utf8_slice_codeunits(broken["URL"], 0, 20))
    broken = replaced(broken, "Referer", pa.chunked_array([[""] * broken.num_rows]))
    written(tmp_path, broken)
    report = tmp_path / "checks.json"
    assert command.main(arguments(tmp_path, json=str(report))) == 1
    found = {
        (entry["group"], entry["name"])
        for entry in json.loads(report.read_text())
        if "low" in entry and not entry["low"] <= entry["measured"] <= entry["high"]
    }
    assert {
        ("predicate", "Q1, Q7"),
        ("predicate", "Q19"),
        ("predicate", "Q28"),
        ("top AdvEngineID (Q7)", "2"),
        ("bytes by row", "URL"),
        ("top URL (Q33)", "any other"),
        ("URL bytes of CounterID (Q27)", "233773"),
    } <= found
    assert re.search(r"^FAIL predicate +Q28 ", capsys.readouterr().out, re.MULTILINE)


def test_shuffled_rows_are_noticed(tmp_path, folder, hits):
    in_order = Measure(str(folder)).order()
    order = pc.sort_indices(hits, [("WatchID", "ascending")])
    shuffled = written(tmp_path, hits.take(order)).order()
    assert in_order.falls <= 60
    assert shuffled.falls > 10_000
    assert shuffled.search_runs > 1.3 * in_order.search_runs


def arguments(folder, **options):
    return argparse.Namespace(**({"folder": str(folder), "all": False, "json": None} | options))


def test_row_groups_left_are_those_whose_bounds_allow(tmp_path, folder):
    measure = Measure(str(folder))
    assert measure.row_groups_left("CounterID", 62, 62) == (1, 1)
    assert measure.row_groups_left("CounterID", 300_000, 400_000) == (0, 1)


def test_chance_is_allowed_for_and_shrinks_with_the_count():
    low, high = allowed(100.0, 2_000_000, 0.05, 1.0)
    assert (low, high) == (65.0, 135.0)
    low, high = allowed(1_000_000.0, 2_000_000, 0.05, 1.0)
    assert high / 1_000_000 == pytest.approx(1.053)
    assert allowed(4, 10_000, 0, 1.0) == (4, 4)


def test_a_predicate_that_keeps_nothing_fails():
    for predicate in PREDICATES:
        assert not check_predicate(predicate, 0, 1_000_000).passed, predicate.queries
