"""The report as text: its numbers are those of the results file."""

from __future__ import annotations

import json
import math
import statistics

import pytest

from clickbench.__main__ import main
from clickbench.comparison import compare_engines
from clickbench.report_text import render_text, size
from clickbench.results import ResultsError
from tests.clickbench.made_results import make_results


@pytest.fixture
def data():
    return make_results()


@pytest.fixture
def lines(data):
    return render_text(data, compare_engines(data, "datafusion", "lm")).splitlines()


def cells(lines, start):
    (line,) = [line for line in lines if line.startswith(f"│ {start} ")]
    return [cell.strip() for cell in line.strip("│").split("│")]


def median_ms(data, query, engine, what="wall_s"):
    runs = data["queries"][query]["engines"][engine]["runs"]
    return f"{statistics.median(run[what] for run in runs) * 1e3:.2f}ms"


@pytest.mark.parametrize(("query", "kind"), [(0, "no change"), (1, "faster"), (2, "slower")])
def test_a_line_of_the_table(data, lines, query, kind):
    name = f"q{query:02}"
    # The pruning table has a line of the same start.
    times = cells(lines[: len(lines) // 2], f"Query {query} ")
    assert times[1:3] == [median_ms(data, name, e) for e in ("datafusion", "lm")]
    assert times[5:7] == [median_ms(data, name, e, "cpu_s") for e in ("datafusion", "lm")]
    engines = data["queries"][name]["engines"]
    peaks = [max(run["peak_bytes"] for run in engines[e]["runs"]) for e in ("datafusion", "lm")]
    assert times[7:9] == [size(peak) for peak in peaks]
    assert times[3].endswith(kind)
    low, _, high = times[4].split()
    assert (float(low) <= 1.0 <= float(high)) == (kind == "no change")


def test_first_runs_of_new_processes(data):
    for index, (word, wall_s) in enumerate((("datafusion", 2.0), ("lm", 1.0))):
        data["queries"]["q01"]["engines"][word]["first"] = {
            "wall_s": wall_s,
            "cpu_s": 2.0,
            "peak_bytes": 400_000_000 >> index,
            "start_bytes": 100_000_000,
        }
    text = render_text(data, compare_engines(data, "datafusion", "lm"))
    part = text[text.index("First run of a new process") :]
    found = cells(part[: part.index("└")].splitlines(), "Query 1")
    expected = ["Query 1", "2000.00ms", "1000.00ms", "0.50", *["100.0 MB"] * 2, "400.0 MB"]
    assert found == [*expected, "200.0 MB", "0.50"]


def test_how_a_change_is_written(lines):
    change = cells(lines[:50], "Query 1 ")[3]
    assert change.startswith("+")
    assert 1.8 < float(change[1:].split("x")[0]) < 2.2
    assert 1.5 < float(cells(lines[:50], "Query 2 ")[3].split("x")[0]) < 1.7


def test_summary(data, lines):
    total = sum(
        statistics.median(run["wall_s"] for run in part["engines"]["lm"]["runs"])
        for part in data["queries"].values()
    )
    assert cells(lines, "Total Time (lm)")[1] == f"{total * 1e3:.2f}ms"
    assert cells(lines, "Average Time (lm)")[1] == f"{total / 43 * 1e3:.2f}ms"
    counts = [int(cells(lines, f"Queries {kind}")[1]) for kind in ("Faster", "Slower")]
    assert counts == [14, 14]
    assert cells(lines, "Queries with No Change")[1] == "15"
    geomean = float(cells(lines, "Geometric Mean of Ratios")[1])
    assert geomean == pytest.approx(math.exp((14 * math.log(0.5) + 14 * math.log(1.6)) / 43), 0.02)


def test_every_engine_has_a_line(data, lines):
    for word in data["settings"]["engines"]:
        if word not in ("datafusion", "lm"):
            assert cells(lines, word)[1] == "43"


def test_what_was_pruned_at_which_level(lines):
    start = next(i for i, line in enumerate(lines) if "Pruned by lm" in line)
    row = cells(lines[start:], "Query 7 ")
    assert row[1:] == ["late", "40", "0", "11", "5", "7", "-", "17", "1,461 of 1,700",
                       "1,999,981", "3.2 MB"]  # fmt: skip


def test_what_a_condition_cache_held(data):
    comparison = compare_engines(data, "datafusion", "lm")
    assert "Condition cache" not in render_text(data, comparison)
    data["queries"]["q07"]["engines"]["lm"]["pruned"]["condition_cache_bytes"] = 23_568
    text = render_text(data, comparison)
    assert "Condition cache of lm after a query: q07 23.6 KB" in text.splitlines()


def test_what_cannot_be_compared_is_in_no_sum(data):
    data["queries"]["q03"]["engines"]["lm"].update(state="capped", runs=[], error="too long")
    data["queries"]["q04"]["faults"]["d"] = "not right"
    data["queries"]["q05"]["engines"]["datafusion"].update(state="failed", error="no")
    found = compare_engines(data, "datafusion", "lm")
    assert [line.why_not for line in found.lines[3:6]] == [
        "lm: capped",
        "datafusion: wrong answer; lm: wrong answer",
        "datafusion: failed",
    ]
    assert (found.summary.queries, found.summary.not_compared) == (40, 3)
    text = render_text(data, found)
    assert "q04 spark: wrong answer" in text
    assert "equal on all" not in text
    left = {k: v for k, v in data["queries"].items() if k not in ("q03", "q04", "q05")}
    fewer = compare_engines({**data, "queries": left}, "datafusion", "lm").summary
    assert fewer.baseline_wall_s == found.summary.baseline_wall_s


def test_a_run_that_was_interrupted_claims_nothing(data):
    data["queries"]["q42"]["faults"] = {}
    found = compare_engines(data, "datafusion", "lm")
    assert found.summary.not_compared == 1
    assert "q42 duckdb: answer not compared yet" in render_text(data, found)


def test_two_runs_are_too_few(data):
    for part in data["queries"].values():
        for engine in part["engines"].values():
            del engine["runs"][2:]
    found = compare_engines(data, "datafusion", "lm")
    assert found.summary.too_few_runs == 43
    assert "Queries with Too Few Runs" in render_text(data, found)


def test_an_engine_that_did_not_run(data):
    with pytest.raises(ResultsError, match="no engine 'lm:late'"):
        compare_engines(data, "datafusion", "lm:late")


def test_the_command(data, tmp_path, capsys):
    results, page = tmp_path / "results.json", tmp_path / "page.html"
    results.write_text(json.dumps(data))
    words = ["report", str(results), "--html", str(page), "--contender", "duckdb"]
    assert main(words) == 0
    assert "Total Time (duckdb)" in capsys.readouterr().out
    assert "duckdb against datafusion" in page.read_text()
    assert main(["report", str(tmp_path / "none.json")]) == 2
    assert "is not there" in capsys.readouterr().err


def test_some_queries(data, tmp_path, capsys):
    results = tmp_path / "results.json"
    results.write_text(json.dumps(data))
    assert main(["report", str(results), "--queries", "1,4-5"]) == 0
    shown = capsys.readouterr().out.splitlines()
    total = sum(
        statistics.median(run["wall_s"] for run in data["queries"][name]["engines"]["lm"]["runs"])
        for name in ("q01", "q04", "q05")
    )
    assert cells(shown, "Total Time (lm)")[1] == f"{total * 1e3:.2f}ms"
    assert main(["report", str(results), "--queries", "43"]) == 2
    del data["queries"]["q04"]
    results.write_text(json.dumps(data))
    assert main(["report", str(results), "--queries", "1,4"]) == 2
    assert "have no q04" in capsys.readouterr().err


def test_sizes():
    assert [size(n) for n in (5, 1500, 2_500_000, 3e9)] == ["5 B", "1.5 KB", "2.5 MB", "3.0 GB"]
