from __future__ import annotations

import io
import time

import pyarrow as pa

from lm_datafusion.cli import progress
from lm_datafusion.cli.progress import Progress, size_text


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_nothing_is_shown_where_there_is_no_terminal(monkeypatch):
    monkeypatch.setattr(progress, "START_S", 0.0)
    stream = io.StringIO()
    with Progress(stream=stream) as shown:
        time.sleep(0.05)
        assert list(shown.counted([pa.record_batch({"a": [1, 2]})]))
    assert stream.getvalue() == ""
    assert (shown.rows, shown.batches) == (2, 1)


def test_a_short_query_shows_nothing():
    stream = Terminal()
    with Progress(stream=stream):
        pass
    assert stream.getvalue() == ""


def test_the_line_comes_and_goes(monkeypatch):
    monkeypatch.setattr(progress, "START_S", 0.0)
    stream = Terminal()
    with Progress(stream=stream) as shown:
        deadline = time.monotonic() + 10
        while "rows received" not in stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
        with shown.hidden():
            assert stream.getvalue().endswith("\r\x1b[K")
    assert "0 rows received" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_a_bar_needs_something_to_measure(monkeypatch):
    counts = iter([1000, 1000, 251_000, 2_001_000])
    monkeypatch.setattr(progress, "_bytes_read", lambda: next(counts))
    shown = Progress(most_bytes=1_000_000)
    assert f"[{'.' * 24}] 0 B read of at most 1.0 MB" in shown.line()
    assert f"[{'#' * 6}{'.' * 18}] 250.0 kB read" in shown.line()
    assert f"[{'#' * 24}] 2.0 MB read" in shown.line()


def test_without_an_estimate_there_is_no_bar(monkeypatch):
    monkeypatch.setattr(progress, "_bytes_read", lambda: 0)
    assert "0 B read, 0 rows received" in Progress().line()
    monkeypatch.setattr(progress, "_bytes_read", lambda: None)
    assert "read" not in Progress().line()


def test_sizes():
    sizes = [size_text(size) for size in (0, 999, 1000, 1_500_000, 2_000_000_000)]
    assert sizes == ["0 B", "999 B", "1.0 kB", "1.5 MB", "2.0 GB"]
