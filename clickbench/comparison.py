"""The numbers of a report.

In: the contents of a results file, a baseline and a contender. Out: one line per query, sums.

A query on which one of the two was capped, failed or gave a wrong answer is listed, but is in no
sum: sums are over the same queries for both.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import Any

from clickbench.noise import Difference, compare
from clickbench.results import ResultsError
from clickbench.schedule import wrong_engines


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Medians over the runs of one engine on one query; the peak is the largest."""

    wall_s: float
    cpu_s: float
    peak_bytes: int
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One query: both costs and the difference, or why there is none."""

    query: str
    baseline: Cost | None
    contender: Cost | None
    difference: Difference | None
    why_not: str

    @property
    def change(self) -> str:
        """As `1.10x faster`, `no change` or why there is nothing to say."""
        if self.difference is None:
            return self.why_not
        match self.difference.verdict:
            case "faster":
                return f"+{1 / self.difference.ratio:.2f}x faster"
            case "slower":
                return f"{self.difference.ratio:.2f}x slower"
        return self.difference.verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Sums over the queries that can be compared."""

    queries: int
    not_compared: int
    baseline_wall_s: float
    contender_wall_s: float
    baseline_cpu_s: float
    contender_cpu_s: float
    baseline_peak_bytes: int
    contender_peak_bytes: int
    geomean: float
    faster: int
    slower: int
    no_change: int
    too_few_runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A contender against a baseline, query by query."""

    baseline: str
    contender: str
    lines: tuple[Line, ...]
    summary: Summary


def compare_engines(data: dict[str, Any], baseline: str, contender: str) -> Comparison:
    """Compares two engines of a results file.

    Raises:
        ResultsError: One of them is not in it.
    """
    for word in (baseline, contender):
        if word not in data["settings"]["engines"]:
            known = ", ".join(data["settings"]["engines"])
            raise ResultsError(f"the results have no engine {word!r}; they have {known}")
    lines = tuple(
        _line(name, part, baseline, contender) for name, part in sorted(data["queries"].items())
    )
    return Comparison(baseline=baseline, contender=contender, lines=lines, summary=_summary(lines))


def only_queries(data: dict[str, Any], numbers: tuple[int, ...]) -> dict[str, Any]:
    """The contents of a results file, with some queries only.

    Raises:
        ResultsError: One of them was not run.
    """
    names = [f"q{number:02}" for number in numbers]
    missing = [name for name in names if name not in data["queries"]]
    if missing:
        raise ResultsError(f"the results have no {', '.join(missing)}")
    return {**data, "queries": {name: data["queries"][name] for name in names}}


def cost_of(part: dict[str, Any], word: str) -> Cost | None:
    """What a query cost an engine; None without a run."""
    runs = part["engines"].get(word, {}).get("runs", [])
    if not runs:
        return None
    return Cost(
        wall_s=statistics.median(run["wall_s"] for run in runs),
        cpu_s=statistics.median(run["cpu_s"] for run in runs),
        peak_bytes=max(run["peak_bytes"] for run in runs),
        runs=len(runs),
    )


def trouble_of(part: dict[str, Any], word: str) -> str:
    """Why an engine is not compared on a query; empty if it is."""
    engine = part["engines"].get(word)
    if engine is None or (engine["state"] == "ok" and not engine["runs"]):
        return "not run"
    if engine["state"] != "ok":
        return str(engine["state"])
    if any(run["digest"] not in part["faults"] for run in engine["runs"]):
        return "answer not compared yet"
    return "wrong answer" if word in wrong_engines(part) else ""


def _line(name: str, part: dict[str, Any], baseline: str, contender: str) -> Line:
    troubles = [
        f"{word}: {trouble_of(part, word)}"
        for word in dict.fromkeys((baseline, contender))
        if trouble_of(part, word)
    ]
    difference = None
    if not troubles:
        base, cont = (
            [run["wall_s"] for run in part["engines"][word]["runs"]]
            for word in (baseline, contender)
        )
        difference = compare(base, cont)
    return Line(
        query=name,
        baseline=cost_of(part, baseline),
        contender=cost_of(part, contender),
        difference=difference,
        why_not="; ".join(troubles),
    )


def _summary(lines: tuple[Line, ...]) -> Summary:
    pairs = [
        (line.baseline, line.contender, line.difference)
        for line in lines
        if line.baseline and line.contender and line.difference
    ]
    verdicts = [difference.verdict for _, _, difference in pairs]
    logs = [math.log(difference.ratio) for _, _, difference in pairs]
    return Summary(
        queries=len(pairs),
        not_compared=len(lines) - len(pairs),
        baseline_wall_s=sum(base.wall_s for base, _, _ in pairs),
        contender_wall_s=sum(cont.wall_s for _, cont, _ in pairs),
        baseline_cpu_s=sum(base.cpu_s for base, _, _ in pairs),
        contender_cpu_s=sum(cont.cpu_s for _, cont, _ in pairs),
        baseline_peak_bytes=max((base.peak_bytes for base, _, _ in pairs), default=0),
        contender_peak_bytes=max((cont.peak_bytes for _, cont, _ in pairs), default=0),
        geomean=math.exp(statistics.fmean(logs)) if logs else math.nan,
        faster=verdicts.count("faster"),
        slower=verdicts.count("slower"),
        no_change=verdicts.count("no change"),
        too_few_runs=verdicts.count("too few runs"),
    )
