"""The report as a page: well-formed, complete in itself, with the numbers of the results file."""

from __future__ import annotations

import statistics
from html.parser import HTMLParser

import pytest

from clickbench.comparison import compare_engines
from clickbench.report_html import render_html
from tests.clickbench.made_results import ENGINES, make_results

VOID = {"meta", "br"}


class Page(HTMLParser):
    """Collects tags, texts and titles, and checks that tags close in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.texts, self.attributes = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if data.strip() and "style" not in self.open:
            self.texts.append(data.strip())


@pytest.fixture(scope="module")
def data():
    return make_results()


@pytest.fixture(scope="module")
def page(data):
    return Page(render_html(data, compare_engines(data, "datafusion", "lm")))


def test_nothing_comes_from_elsewhere(page, data):
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    assert not [a for a in page.attributes if a[1] in ("src", "href", "style", "onclick")]
    text = render_html(data, compare_engines(data, "datafusion", "lm"))
    assert "url(" not in text
    assert "@import" not in text


def test_times_of_the_file_are_on_the_page(page, data):
    for name, part in data["queries"].items():
        assert page.texts.count(name) == 4 + len(ENGINES), "three charts and a table, then engines"
        for word in ENGINES:
            runs = part["engines"][word]["runs"]
            wall = f"{statistics.median(run['wall_s'] for run in runs) * 1e3:.2f}ms"
            assert f"{name} {word}: {wall}" in page.texts, "the title of a dot"
            assert wall in page.texts


def test_summary(page, data):
    total = sum(
        statistics.median(run["wall_s"] for run in part["engines"]["lm"]["runs"])
        for part in data["queries"].values()
    )
    at = page.texts.index("total, lm")
    assert page.texts[at - 1] == f"{total:.2f} s"
    assert page.texts[page.texts.index("queries faster") - 1] == "14"
    assert page.texts[page.texts.index("queries slower") - 1] == "14"
    assert page.texts[page.texts.index("no change") - 1] == "15"
    assert "Answers are equal on every query and engine." in page.texts


def test_a_bar_is_as_long_as_its_ratio(page, data):
    """q01 is twice as fast: its bar ends a power of two left of the middle."""
    found = compare_engines(data, "datafusion", "lm")
    widest = max(abs(line.difference.ratio - 1) for line in found.lines)
    assert widest < 1, "else the scale is another"
    bars = [
        (float(dict_["x"].rstrip("%")), float(dict_["width"].rstrip("%")))
        for dict_ in _rects(page, "faster")
    ]
    assert len(bars) == 14
    for x, width in bars:
        assert x + width == pytest.approx(50, abs=0.1)
        assert width == pytest.approx(25, abs=3) or width == pytest.approx(50, abs=3)


def _rects(page, kind):
    rects, current = [], None
    for tag, name, value in page.attributes:
        if tag == "rect" and name == "class":
            current = {"class": value}
            rects.append(current)
        elif tag == "rect" and current is not None:
            current[name] = value
    return [rect for rect in rects if rect["class"] == kind]


def test_what_was_pruned_is_on_the_page(page):
    assert page.texts.count("late, 17/40 groups") == 43
    assert page.texts.count("1,461/1,700 pages") == 43
    assert "q05: 11 of 40 row groups: statistics" in page.texts
    assert "q05: 7 of 40 row groups: dictionary" in page.texts


def test_names_are_escaped_and_troubles_are_told(data):
    broken = make_results(3)
    broken["queries"]["q01"]["engines"]["lm"].update(state="capped", runs=[], error="<b>")
    broken["machine"]["processor"] = "<script>alert(1)</script>"
    page = Page(render_html(broken, compare_engines(broken, "datafusion", "lm")))
    assert "script" not in page.tags
    assert "q01 lm: capped" in page.texts
    assert "not compared" in page.texts
    assert "Answers are equal on every query and engine." not in page.texts
