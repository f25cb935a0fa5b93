"""Tells what a results file says: two engines query by query, all engines, what was pruned.

A change is called one only if it is larger than the noise of the runs; the band around each ratio
(contender over baseline, below 1 is faster) is computed from the runs themselves.

Example: python -m clickbench report results.json --baseline datafusion --contender lm
--html report.html
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

HELP = "print what came out of a run, and write it as a page"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the words of this command."""
    parser.add_argument("results", metavar="RESULTS", help="file that `run` wrote")
    parser.add_argument("--html", metavar="FILE", help="write the report as one page, too")
    parser.add_argument(
        "--queries", metavar="LIST", help="numbers and ranges, as 20-26; default: all of the run"
    )
    parser.add_argument(
        "--baseline", metavar="ENGINE", help="default: datafusion, or the first engine of the run"
    )
    parser.add_argument(
        "--contender", metavar="ENGINE", help="default: lm, or the last engine of the run"
    )


def main(arguments: argparse.Namespace) -> int:
    """Prints the report; 0, or 2 if there is nothing to report on."""
    from clickbench.comparison import compare_engines, only_queries
    from clickbench.queries import QueryChoiceError, parse_choice
    from clickbench.report_html import render_html
    from clickbench.report_text import render_text
    from clickbench.results import ResultsError, load_results

    try:
        data = load_results(arguments.results)
        if arguments.queries:
            data = only_queries(data, parse_choice(arguments.queries))
        words = data["settings"]["engines"]
        baseline = arguments.baseline or _preferred(words, "datafusion", words[0])
        contender = arguments.contender or _preferred(words, "lm", words[-1])
        comparison = compare_engines(data, baseline, contender)
    except (QueryChoiceError, ResultsError) as error:
        print(f"clickbench report: {error}", file=sys.stderr)
        return 2
    print(render_text(data, comparison))
    if arguments.html:
        with open(arguments.html, "w", encoding="utf-8") as file:
            file.write(render_html(data, comparison))
        print(f"page written to {arguments.html}")
    return 0


def _preferred(words: list[str], name: str, otherwise: str) -> str:
    """The engine of a name, or the first of its paths, or another."""
    found = [word for word in words if word.partition(":")[0] == name]
    return found[0] if found else otherwise
