"""The report as one page.

In: a comparison and the contents of a results file. Out: HTML that needs nothing else: no script,
no font, no picture from elsewhere.

Invariant: every number on the page is one of the text report or of the results file.
"""

from __future__ import annotations

import html
import os
from typing import TYPE_CHECKING, Any

from clickbench import report_charts as charts
from clickbench.comparison import compare_engines, cost_of, trouble_of
from clickbench.pruning import pruned_of
from clickbench.report_text import band, describe, milliseconds, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clickbench.comparison import Comparison, Line
    from clickbench.pruning import Pruned

_STYLE = os.path.join(os.path.dirname(__file__), "report.css")
_LEVELS = ("file", "statistics", "bloom filter", "dictionary", "top k", "left to read")


def render_html(data: dict[str, Any], comparison: Comparison) -> str:
    """The whole page."""
    with open(_STYLE, encoding="utf-8") as file:
        style = file.read()
    title = f"ClickBench: {comparison.contender} against {comparison.baseline}"
    facts = "<br>".join(html.escape(line) for line in describe(data).splitlines())
    sections = [
        _cards(data, comparison),
        _changes(comparison),
        _engines(data, comparison.baseline),
        _dots(data),
        _pruning(data, comparison.contender),
        _table(comparison),
        _all_costs(data),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title>\n<style>\n{style}</style></head>\n<body>"
        f'<h1>{html.escape(title)}</h1><p class="soft">{facts}</p>\n'
        + "\n".join(section for section in sections if section)
        + "\n</body></html>\n"
    )


def _cards(data: dict[str, Any], comparison: Comparison) -> str:
    found = comparison.summary
    base, cont = html.escape(comparison.baseline), html.escape(comparison.contender)
    troubles = [
        f"{name} {word}: {trouble_of(part, word)}"
        for name, part in sorted(data["queries"].items())
        for word in data["settings"]["engines"]
        if trouble_of(part, word)
    ]
    cards = [
        (_seconds(found.contender_wall_s), f"total, {cont}"),
        (_seconds(found.baseline_wall_s), f"total, {base}"),
        (f"{found.geomean:.2f}", "geometric mean of ratios (below 1 is faster)"),
        (f'<i class="faster">{found.faster}</i>', "queries faster"),
        (f'<i class="slower">{found.slower}</i>', "queries slower"),
        (str(found.no_change), "no change"),
    ]
    if found.too_few_runs:
        cards.append((str(found.too_few_runs), "too few runs to tell"))
    if found.not_compared:
        cards.append((f'<i class="slower">{found.not_compared}</i>', "not compared"))
    answers = "Answers are equal on every query and engine."
    if troubles:
        listed = "".join(f"<li>{html.escape(line)}</li>" for line in troubles)
        answers = f'<span class="bad">Not everything can be compared:</span><ul>{listed}</ul>'
    boxes = "".join(
        f'<div class="card"><b>{number}</b><span>{text}</span></div>' for number, text in cards
    )
    return f'<div class="cards">{boxes}</div><p>{answers}</p>'


def _changes(comparison: Comparison) -> str:
    known = [line.difference for line in comparison.lines if line.difference]
    scale = charts.LogScale.of_ratios(found.ratio for found in known)
    rows = "".join(_change_row(line, scale) for line in comparison.lines)
    axis = (
        f'<div class="row axis"><span class="name"></span><div class="bar">'
        f"{charts.axis(scale, charts.ratio_ticks(scale))}</div></div>"
    )
    base, cont = html.escape(comparison.baseline), html.escape(comparison.contender)
    return (
        f"<h2>Change per query</h2><p class='soft'>Median wall time of {cont} over that of {base}."
        " Bars to the left are faster. The thin line is the noise band of the runs: where it"
        " touches the middle, nothing is claimed.</p>"
        f"<figure>{axis}{rows}</figure>"
    )


def _change_row(line: Line, scale: charts.LogScale) -> str:
    kind, picture = "same why", charts.picture([])
    if line.difference is not None:
        found = line.difference
        kind = found.verdict if found.verdict in ("faster", "slower") else "same"
        title = f"{line.query}: {_pair(line)}, {line.change}, noise band {band(line)}"
        picture = charts.ratio_bar(scale, found.ratio, found.low, found.high, kind, title)
    return (
        f'<div class="row"><span class="name">{line.query}</span><div class="bar">{picture}</div>'
        f'<span class="times">{_pair(line)}</span>'
        f'<span class="change {kind}">{html.escape(line.change)}</span></div>'
    )


def _pair(line: Line) -> str:
    both = [line.baseline, line.contender]
    return " → ".join("?" if cost is None else _short(cost.wall_s) for cost in both)


def _engines(data: dict[str, Any], baseline: str) -> str:
    words = data["settings"]["engines"]
    found = {word: compare_engines(data, baseline, word).summary for word in words}
    longest = max((summary.contender_wall_s for summary in found.values()), default=1.0) or 1.0
    rows = ""
    for number, word in enumerate(words):
        summary = found[word]
        text = f"{_seconds(summary.contender_wall_s)}, CPU {_seconds(summary.contender_cpu_s)}"
        peak = size(summary.contender_peak_bytes)
        title = f"{word}: {text}, peak memory {peak}, {summary.queries} queries"
        picture = charts.bar(summary.contender_wall_s / longest, f"e{number % 8}", title)
        rows += (
            f'<div class="row engine"><span class="name">{html.escape(word)}</span>'
            f'<div class="bar">{picture}</div><span class="times">{text}</span></div>'
        )
    return (
        "<h2>All engines</h2><p class='soft'>Sum of median wall times over the queries each could"
        f" be compared on.</p><figure>{rows}</figure>"
    )


def _dots(data: dict[str, Any]) -> str:
    words = data["settings"]["engines"]
    costs = {
        name: [(i, word, cost_of(part, word)) for i, word in enumerate(words)]
        for name, part in sorted(data["queries"].items())
    }
    scale = charts.LogScale.of_times(
        cost.wall_s for line in costs.values() for _, _, cost in line if cost
    )
    legend = "".join(
        f'<li><i class="e{i % 8}"></i>{html.escape(word)}</li>' for i, word in enumerate(words)
    )
    rows = ""
    for name, line in costs.items():
        points = [
            (i, cost.wall_s, f"{name} {word}: {milliseconds(cost.wall_s)}")
            for i, word, cost in line
            if cost
        ]
        rows += (
            f'<div class="row wide"><span class="name">{name}</span>'
            f'<div class="bar">{charts.dots(scale, points)}</div></div>'
        )
    axis = (
        '<div class="row wide axis"><span class="name"></span>'
        f'<div class="bar">{charts.axis(scale, charts.time_ticks(scale))}</div></div>'
    )
    return (
        "<h2>Every query on every engine</h2><p class='soft'>Median wall time; the scale is"
        f' logarithmic.</p><ul class="legend">{legend}</ul><figure>{axis}{rows}</figure>'
    )


def _pruning(data: dict[str, Any], word: str) -> str:
    row_groups = data["machine"]["row_groups"]
    found = {
        name: pruned_of(part, word, row_groups) for name, part in sorted(data["queries"].items())
    }
    known = {name: pruned for name, pruned in found.items() if pruned is not None}
    head = f"<h2>What {html.escape(word)} did not read</h2>"
    if not known:
        return f"{head}<p class='soft'>It does not tell.</p>"
    legend = "".join(f'<li><i class="p{i}"></i>{level}</li>' for i, level in enumerate(_LEVELS))
    rows = "".join(_pruning_row(name, pruned) for name, pruned in known.items())
    return (
        f"{head}<p class='soft'>Row groups by the level that dropped them. Beside the bar: the"
        " reader, how many row groups of all it read, and how many pages of those it skipped.</p>"
        f'<ul class="legend">{legend}</ul><figure>{rows}</figure>'
    )


def _pruning_row(name: str, pruned: Pruned) -> str:
    total = max(pruned.row_groups, 1)
    counts = [*(count or 0 for _, count in pruned.levels()), pruned.row_groups_left]
    shares = [
        (count / total, f"p{i}", f"{name}: {count} of {pruned.row_groups} row groups: {level}")
        for i, (count, level) in enumerate(zip(counts, _LEVELS, strict=True))
    ]
    pages = f"{pruned.pages_pruned:,}/{pruned.pages:,} pages" if pruned.pages else "-"
    return (
        f'<div class="row"><span class="name">{name}</span>'
        f'<div class="bar">{charts.stacked(shares)}</div>'
        f'<span class="times">{html.escape(pruned.reader)}, {pruned.row_groups_left:,}/'
        f"{pruned.row_groups:,} groups</span>"
        f'<span class="change same">{pages}</span></div>'
    )


def _table(comparison: Comparison) -> str:
    base, cont = html.escape(comparison.baseline), html.escape(comparison.contender)
    head = ("Query", base, cont, "Change", "Noise band", f"{base} CPU", f"{cont} CPU")
    rows = []
    for line in comparison.lines:
        costs = [line.baseline, line.contender]
        rows.append(
            (
                line.query,
                *("" if cost is None else milliseconds(cost.wall_s) for cost in costs),
                html.escape(line.change),
                band(line),
                *("" if cost is None else milliseconds(cost.cpu_s) for cost in costs),
            )
        )
    return f"<h2>Numbers</h2>{_grid(head, rows)}"


def _all_costs(data: dict[str, Any]) -> str:
    """Wall time, CPU time and peak memory of all engines, folded away."""
    parts = []
    for word in data["settings"]["engines"]:
        rows = []
        for name, part in sorted(data["queries"].items()):
            cost = cost_of(part, word)
            trouble = html.escape(trouble_of(part, word))
            if cost is None:
                rows.append((name, "", "", "", "", trouble))
                continue
            cells = (milliseconds(cost.wall_s), milliseconds(cost.cpu_s), size(cost.peak_bytes))
            rows.append((name, *cells, str(cost.runs), trouble or "equal"))
        head = ("Query", "Wall", "CPU", "Peak memory", "Runs", "Answer")
        summary = f"<summary>{html.escape(word)}</summary>"
        parts.append(f"<details>{summary}{_grid(head, rows)}</details>")
    return f"<h2>Every engine by itself</h2>{''.join(parts)}"


def _grid(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    top = "".join(f"<th>{cell}</th>" for cell in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    table = f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll">{table}</div>'


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s"


def _short(seconds: float) -> str:
    """Three digits are enough beside a bar; the table has all."""
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms" if seconds < 0.0995 else f"{seconds * 1e3:.0f} ms"
    return f"{seconds:.3g} s"
