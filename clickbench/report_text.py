"""The report as text.

In: a comparison and the contents of a results file. Out: tables for a terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clickbench.comparison import compare_engines, trouble_of
from clickbench.pruning import pruned_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clickbench.comparison import Comparison, Cost, Line


def render_text(data: dict[str, Any], comparison: Comparison) -> str:
    """The whole report."""
    parts = [
        describe(data),
        _times(comparison),
        _summary(comparison),
        _engines(data, comparison.baseline),
        _first_runs(data, comparison),
        _pruning(data, comparison.contender),
        _remembered(data, comparison.contender),
        _answers(data),
    ]
    return "\n".join(part for part in parts if part)


def describe(data: dict[str, Any]) -> str:
    """What was run on what, in two lines."""
    settings, machine = data["settings"], data["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in settings["versions"].items())
    return (
        f"{machine['rows']:,} rows in {machine['files']} files, {machine['row_groups']} row groups,"
        f" {size(machine['bytes'])}; {settings['threads']} threads for every engine;"
        f" {settings['repeat']} {'cold' if settings['cold'] else 'hot'} runs\n"
        f"{machine['processor']}, {machine['cores']} cores, {size(machine['memory_bytes'])};"
        f" Python {machine['python']}, {versions}"
    )


def milliseconds(seconds: float) -> str:
    """As `12.34ms`."""
    return f"{seconds * 1e3:.2f}ms"


def size(count: float) -> str:
    """Bytes as `1.5 GB`."""
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def query_title(name: str) -> str:
    """`q07` as `Query 7`."""
    return f"Query {int(name.removeprefix('q'))}"


def band(line: Line) -> str:
    """The band around the ratio, as `0.95 .. 1.08`."""
    if line.difference is None or line.difference.verdict == "too few runs":
        return ""
    return f"{line.difference.low:.2f} .. {line.difference.high:.2f}"


def _times(comparison: Comparison) -> str:
    base, cont = comparison.baseline, comparison.contender
    rows = [
        (
            query_title(line.query),
            _wall(line.baseline),
            _wall(line.contender),
            line.change,
            band(line),
            _cpu(line.baseline),
            _cpu(line.contender),
            _peak(line.baseline),
            _peak(line.contender),
        )
        for line in comparison.lines
    ]
    head = (
        "Query",
        base,
        cont,
        "Change",
        "Noise band",
        f"{base} CPU",
        f"{cont} CPU",
        f"{base} memory",
        f"{cont} memory",
    )
    return _table(head, rows)


def _summary(comparison: Comparison) -> str:
    found = comparison.summary
    base, cont = comparison.baseline, comparison.contender
    count = max(found.queries, 1)
    rows = [
        (f"Total Time ({base})", milliseconds(found.baseline_wall_s)),
        (f"Total Time ({cont})", milliseconds(found.contender_wall_s)),
        (f"Average Time ({base})", milliseconds(found.baseline_wall_s / count)),
        (f"Average Time ({cont})", milliseconds(found.contender_wall_s / count)),
        (f"Total CPU Time ({base})", milliseconds(found.baseline_cpu_s)),
        (f"Total CPU Time ({cont})", milliseconds(found.contender_cpu_s)),
        (f"Peak Memory ({base})", size(found.baseline_peak_bytes)),
        (f"Peak Memory ({cont})", size(found.contender_peak_bytes)),
        ("Geometric Mean of Ratios", f"{found.geomean:.3f}"),
        ("Queries Faster", str(found.faster)),
        ("Queries Slower", str(found.slower)),
        ("Queries with No Change", str(found.no_change)),
    ]
    if found.too_few_runs:
        rows.append(("Queries with Too Few Runs", str(found.too_few_runs)))
    if found.not_compared:
        rows.append(("Queries not Compared", str(found.not_compared)))
    return _table(("Benchmark Summary", ""), rows)


def _engines(data: dict[str, Any], baseline: str) -> str:
    """Every engine against the baseline, if there are more than two."""
    words = data["settings"]["engines"]
    if len(words) <= 2:
        return ""
    rows = []
    for word in words:
        found = compare_engines(data, baseline, word).summary
        rows.append(
            (
                word,
                str(found.queries),
                milliseconds(found.contender_wall_s),
                milliseconds(found.contender_cpu_s),
                size(found.contender_peak_bytes),
                f"{found.geomean:.3f}",
                f"{found.faster} / {found.slower} / {found.no_change}",
            )
        )
    head = (
        f"Engine against {baseline}",
        "Queries",
        "Wall",
        "CPU",
        "Peak memory",
        "Geomean",
        "Faster / slower / same",
    )
    return _table(head, rows)


def _first_runs(data: dict[str, Any], comparison: Comparison) -> str:
    """The first runs of new processes, where they were kept: nothing was there before them."""
    words = (comparison.baseline, comparison.contender)
    rows = []
    for name, part in sorted(data["queries"].items()):
        firsts = [part["engines"].get(word, {}).get("first") for word in words]
        if None not in firsts:
            base, cont = firsts
            rows.append(
                (
                    query_title(name),
                    *(milliseconds(first["wall_s"]) for first in firsts),
                    f"{cont['wall_s'] / base['wall_s']:.2f}",
                    *(size(first["start_bytes"]) for first in firsts),
                    *(size(first["peak_bytes"]) for first in firsts),
                    f"{cont['peak_bytes'] / base['peak_bytes']:.2f}",
                )
            )
    head = (
        "First run of a new process",
        *words,
        "Ratio",
        *(f"{word} memory before" for word in words),
        *(f"{word} peak" for word in words),
        "Ratio",
    )
    return _table(head, rows) if rows else ""


def _pruning(data: dict[str, Any], word: str) -> str:
    rows = []
    for name, part in sorted(data["queries"].items()):
        found = pruned_of(part, word, data["machine"]["row_groups"])
        if found is not None:
            rows.append(
                (
                    query_title(name),
                    found.reader,
                    str(found.row_groups),
                    *("-" if count is None else str(count) for _, count in found.levels()),
                    str(found.row_groups_left),
                    f"{found.pages_pruned:,} of {found.pages:,}",
                    "-" if found.rows_pruned is None else f"{found.rows_pruned:,}",
                    size(found.bytes_read),
                )
            )
    head = (
        f"Pruned by {word}",
        "Reader",
        "Row groups",
        "File",
        "Statistics",
        "Bloom",
        "Dictionary",
        "Top k",
        "Left",
        "Pages",
        "Rows",
        "Read",
    )
    return _table(head, rows) if rows else f"{word} does not tell what it pruned."


def _remembered(data: dict[str, Any], word: str) -> str:
    """What an engine's condition cache held after each query, if it says so."""
    counts = {
        name: (part["engines"][word].get("pruned") or {}).get("condition_cache_bytes")
        for name, part in sorted(data["queries"].items())
        if word in part["engines"]
    }
    held = [f"{name} {size(count)}" for name, count in counts.items() if count is not None]
    return f"Condition cache of {word} after a query: {', '.join(held)}" if held else ""


def _answers(data: dict[str, Any]) -> str:
    """Every engine and query that cannot be compared, or that all can."""
    troubles = [
        f"  {name} {word}: {trouble_of(part, word)}"
        for name, part in sorted(data["queries"].items())
        for word in data["settings"]["engines"]
        if trouble_of(part, word)
    ]
    if not troubles:
        count = len(data["queries"])
        return (
            f"Answers: equal on all {count} queries and {len(data['settings']['engines'])} engines."
        )
    return "Answers: not all engines can be compared on all queries.\n" + "\n".join(troubles)


def _wall(cost: Cost | None) -> str:
    return "" if cost is None else milliseconds(cost.wall_s)


def _cpu(cost: Cost | None) -> str:
    return "" if cost is None else milliseconds(cost.cpu_s)


def _peak(cost: Cost | None) -> str:
    return "" if cost is None else size(cost.peak_bytes)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table with a heavy head, the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]

    def rule(left: str, middle: str, right: str, dash: str) -> str:
        return left + middle.join(dash * (width + 2) for width in widths) + right

    def line(cells: tuple[str, ...], bar: str) -> str:
        padded = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"{bar} {f' {bar} '.join(padded)} {bar}"

    return "\n".join(
        [
            rule("┏", "┳", "┓", "━"),
            line(head, "┃"),
            rule("┡", "╇", "┩", "━"),
            *(line(row, "│") for row in rows),
            rule("└", "┴", "┘", "─"),
        ]
    )
