"""`python -m clickbench run`, from outside: killed and started again, capped, cold, refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from clickbench.results import load_results
from tests.clickbench.small_hits import write_hits

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Alone in having one right answer each, so that two runs can be compared by digest.
QUERIES = "0-5"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hits")
    write_hits(folder)
    return folder


def words(data, out, *more, engines="datafusion,duckdb", queries=QUERIES, repeat="2"):
    return [
        *(sys.executable, "-m", "clickbench", "run", "--data", str(data), "--out", str(out)),
        *("--engines", engines, "--queries", queries, "--repeat", repeat, "--threads", "1", *more),
    ]


def run(command):
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=250, check=False
    )
    return done.returncode, done.stdout + done.stderr


def digests(path):
    return {
        (name, word): {run["digest"] for run in engine["runs"]}
        for name, part in load_results(path)["queries"].items()
        for word, engine in part["engines"].items()
    }


def run_count(path):
    try:
        queries = load_results(path)["queries"]
    except ValueError:
        return 0
    return sum(len(e["runs"]) for part in queries.values() for e in part["engines"].values())


def test_killed_halfway_and_started_again(data, tmp_path):
    whole, killed = str(tmp_path / "whole.json"), str(tmp_path / "killed.json")
    assert run(words(data, whole))[0] == 0

    process = subprocess.Popen(words(data, killed), cwd=ROOT, stdout=subprocess.DEVNULL)
    while run_count(killed) < 7:
        assert process.poll() is None, "ended before it could be killed"
        time.sleep(0.002)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.wait()
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert not alive, "a killed runner takes its workers along"
    before = load_results(killed)
    assert 7 <= run_count(killed) < 24

    status, text = run(words(data, killed))
    assert status == 0, text
    assert "q00  was there already" in text
    assert run_count(killed) == run_count(whole) == 24
    assert digests(killed) == digests(whole)
    after = load_results(killed)
    for name, part in before["queries"].items():
        for word, engine in part["engines"].items():
            kept = after["queries"][name]["engines"][word]["runs"]
            assert kept[: len(engine["runs"])] == engine["runs"], "what was measured stays"

    status, text = run(words(data, killed, repeat="3"))
    assert status == 2
    assert "--fresh" in text
    status, _ = run(words(data, killed, "--fresh", queries="0", repeat="1"))
    assert status == 0
    assert run_count(killed) == 2


def test_one_engine_is_capped(data, tmp_path):
    out = str(tmp_path / "results.json")
    status, text = run(words(data, out, "--cap", "duckdb=0.0000001", queries="0", repeat="1"))
    assert status == 0, text
    assert "1 capped and not compared" in text
    engines = load_results(out)["queries"]["q00"]["engines"]
    assert {word: part["state"] for word, part in engines.items()} == {
        "datafusion": "ok",
        "duckdb": "capped",
    }


def test_cold_runs(data, tmp_path):
    out = str(tmp_path / "results.json")
    status, text = run(words(data, out, "--cold", engines="duckdb,polars", queries="2", repeat="2"))
    assert status == 0, text
    assert "1 threads each, 2 cold runs" in text
    assert run_count(out) == 4


def test_a_wrong_answer_in_the_file_is_a_failure(data, tmp_path):
    out = str(tmp_path / "results.json")
    command = words(data, out, queries="0", repeat="1")
    assert run(command)[0] == 0
    with open(out, encoding="utf-8") as file:
        found = json.load(file)
    part = found["queries"]["q00"]
    part["engines"]["duckdb"]["runs"][0]["digest"] = "planted"
    part["answers"]["planted"] = [[3999]]
    with open(out, "w", encoding="utf-8") as file:
        json.dump(found, file)
    status, text = run(command)
    assert status == 1
    assert "q00 duckdb: WRONG ANSWER: row 0 cannot be there: [3999]; possible is [4000]" in text


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (["--engines", "oracle"], "no engine 'oracle'"),
        (["--cap", "spark=3"], "takes no part"),
        (["--queries", "99"], "queries go from 0 to 42"),
        (["--data", "/nothing/here"], "no *.parquet and no *.orc there"),
    ],
)
def test_bad_words(data, tmp_path, more, complaint):
    status, text = run([*words(data, tmp_path / "results.json"), *more])
    assert status == 2
    assert complaint in text
