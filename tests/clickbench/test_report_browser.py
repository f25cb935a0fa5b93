"""The page in a real browser, as wide as a phone and as a desk."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess

import pytest

from clickbench.comparison import compare_engines
from clickbench.report_html import render_html
from tests.clickbench.made_results import make_results

BROWSER = next(
    filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None
)
# What a person would see: text that leaves the page, and text printed over other text.
LOOK = """
function look(frame) {
  const page = frame.contentDocument, found = {wide: page.documentElement.scrollWidth, over: []};
  const boxes = (nodes) => [...nodes].filter(n => n.textContent.trim())
    .map(n => [n.textContent.trim(), n.getBoundingClientRect()]).filter(b => b[1].width > 0);
  const groups = [...page.querySelectorAll('.row')]
    .map(row => boxes(row.querySelectorAll(':scope > span, svg > text')));
  groups.push(boxes(page.querySelectorAll('.card b, .card span')));
  groups.push(boxes(page.querySelectorAll('h1, h2, p')));
  for (const group of groups)
    for (let i = 0; i < group.length; i++) {
      const [text, box] = group[i];
      if (box.left < -0.5 || box.right > frame.clientWidth + 0.5) found.over.push(text + ' | edge');
      for (let j = i + 1; j < group.length; j++) {
        const other = group[j][1];
        if (box.left < other.right - 0.5 && other.left < box.right - 0.5 &&
            box.top < other.bottom - 0.5 && other.top < box.bottom - 0.5)
          found.over.push(text + ' | ' + group[j][0]);
      }
    }
  found.rows = groups.length;
  return found;
}
"""


def look_at(page, widths, folder):
    """What a browser shows of a page at some widths."""
    frames = "".join(
        f'<iframe style="border:0;width:{width}px;height:900px" srcdoc="{html.escape(page)}">'
        "</iframe>"
        for width in widths
    )
    harness = (
        f"<!doctype html><body>{frames}<script>{LOOK}\nwindow.onload = () => {{"
        " document.body.innerHTML = '<pre id=found>' + JSON.stringify("
        "[...document.querySelectorAll('iframe')].map(look)).replace(/</g, '&lt;') + '</pre>'; };"
        "</script></body>"
    )
    (folder / "harness.html").write_text(harness, encoding="utf-8")
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=10000",
         f"--user-data-dir={folder / 'profile'}", "--dump-dom",
         (folder / "harness.html").as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
        env={**os.environ, "HOME": str(folder)},
    )  # fmt: skip
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stdout[:2000]
    return json.loads(html.unescape(found[1]))


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_no_text_overlaps_or_leaves_the_page(tmp_path):
    data = make_results()
    page = render_html(data, compare_engines(data, "datafusion", "lm"))
    widths = (360, 390, 768, 1280)
    for width, found in zip(widths, look_at(page, widths, tmp_path), strict=True):
        assert found["rows"] > 3 * 43
        assert found["over"] == [], width
        assert found["wide"] <= width
    _troubled_pages_too(tmp_path)
    narrow = page.replace("@media (max-width: 640px)", "@media (max-width: 1px)")
    assert look_at(narrow, (360,), tmp_path)[0]["over"], "the look finds text over text"


def _troubled_pages_too(folder):
    """Long names, engines that failed, and times of seconds."""
    data = make_results(8)
    text = json.dumps(data).replace('"lm"', '"lm:late"')
    data = json.loads(text)
    for number, part in enumerate(data["queries"].values()):
        for word, engine in part["engines"].items():
            for run in engine["runs"]:
                run["wall_s"] *= 10 ** (number - 1)
            if number == 3 or (number == 4 and word == "datafusion-pushdown"):
                engine.update(state="capped", runs=[], error="too long")
        if number == 5:
            part["faults"] = {"d": "wrong"}
    comparison = compare_engines(data, "datafusion-pushdown", "lm:late")
    for found in look_at(render_html(data, comparison), (360, 1280), folder):
        assert found["over"] == []
