"""The runs that are kept beside the runner can be read, and their reports are what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

import clickbench
from clickbench.comparison import compare_engines
from clickbench.report_text import render_text
from clickbench.results import load_results

FOLDER = Path(clickbench.__file__).parent / "results"
KEPT = sorted(FOLDER.glob("*.json"))


def test_there_are_some():
    assert KEPT


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_the_report_is_that_of_the_runs(path):
    data = load_results(str(path))
    contender = next(word for word in data["settings"]["engines"] if word.startswith("lm"))
    rendered = render_text(data, compare_engines(data, "datafusion", contender))
    assert path.with_suffix(".txt").read_text(encoding="utf-8") == f"{rendered}\n"
    assert "Answers: equal on all" in rendered
