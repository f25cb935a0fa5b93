from __future__ import annotations

import io

from clickbench import progress


def test_lines_where_there_is_no_terminal(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(progress.sys, "stderr", out)
    made = iter([100, 0, 600])
    bar = progress.Progress(1_000, lambda: next(made))
    for _ in range(3):
        bar._show(bar=False)
    lines = out.getvalue().splitlines()
    assert [line.split(",")[0] for line in lines] == [
        "100 of 1", "100 of 1", "600 of 1"
    ]  # never back  # fmt: skip
    assert "left" in lines[-1]


def test_a_bar_on_a_terminal(monkeypatch):
    out = io.StringIO()
    out.isatty = lambda: True
    monkeypatch.setattr(progress.sys, "stderr", out)
    with progress.Progress(10, lambda: 5):
        pass
    assert "[###############...............] 5 of 10 rows" in out.getvalue()


def test_notes_that_vanish_do_no_harm():
    def gone():
        raise FileNotFoundError

    progress.Progress(10, gone)._show(bar=True)
