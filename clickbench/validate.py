"""Compares a folder of `hits` files with what is published about the real ones.

Published counts are scaled to the rows of the folder. Checked are the rows that each predicate
of the 43 queries keeps, top values, empty shares, lengths, distinct values, the order of rows,
row groups left after pruning, and compressed sizes. The table has a line per group with what is
furthest from its expectation; failures, and what cannot be checked at this size, are listed with
the reason. --all lists every check. The exit status is 1 if something is outside its tolerance.
Tolerances and their reasons are in clickbench/expected.py.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from clickbench.checks import Result, run_checks
from clickbench.expected import Check, Skipped
from clickbench.manifest import Workplace
from clickbench.measure import Measure

if TYPE_CHECKING:
    import argparse

HELP = "compare data with what is published about ClickBench"
_LEAST_ROWS = 100_000
_ALWAYS_LISTED = ("predicate", "row groups left")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `python -m clickbench validate`."""
    parser.add_argument("folder", metavar="DIR", help="a folder that generate or ingest made")
    parser.add_argument("--all", action="store_true", help="list every check, not one per group")
    parser.add_argument("--json", metavar="FILE", help="write all checks to this file as well")


def main(arguments: argparse.Namespace) -> int:
    """Runs the command; the exit status."""
    try:
        measure = Measure(arguments.folder)
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 2
    results = validate(measure, arguments.folder)
    print_table(results, measure.rows, everything=arguments.all)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump([vars(result) for result in results], file, indent=1, ensure_ascii=False)
    failed = [result for result in results if isinstance(result, Check) and not result.passed]
    return 1 if failed else 0


def validate(measure: Measure, folder: str) -> list[Result]:
    """All results; a line on standard error as each group begins."""
    manifest = Workplace(folder).manifest()
    layout = manifest["parameters"]["layout"] if manifest else None
    results = []
    group = ""
    for result in run_checks(measure, layout):
        if result.group != group and sys.stderr.isatty():
            sys.stderr.write(f"\r{result.group}\x1b[K")
        group = result.group
        results.append(result)
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    return results


def print_table(results: list[Result], rows: int, *, everything: bool) -> None:
    """Prints the table, then failures and what was left out."""
    checks = [result for result in results if isinstance(result, Check)]
    skipped = [result for result in results if isinstance(result, Skipped)]
    print(f"{rows:,} rows\n")
    print(f"{'':4} {'group':29} {'of it':38} {'measured':>14} {'expected':>14} {'allowed':>31}")
    for group in dict.fromkeys(check.group for check in checks):
        members = [check for check in checks if check.group == group]
        if everything or group in _ALWAYS_LISTED:
            for check in members:
                _print_check(check)
        else:
            _print_check(max(members, key=_distance), len(members))
    failed = [check for check in checks if not check.passed]
    if failed and not everything:
        print("\noutside tolerance:")
        for check in failed:
            _print_check(check)
    if skipped:
        print("\nnot checked at this size:")
        for entry in skipped:
            print(f"     {entry.group}, {entry.name}: {entry.reason}")
    if rows < _LEAST_ROWS:
        print(
            f"\nBelow {_LEAST_ROWS:,} rows most counters have a row or two: shares by visit shift."
        )
    print(f"\n{len(checks)} checks, {len(failed)} outside tolerance, {len(skipped)} not made")


def _distance(check: Check) -> float:
    """How much of its tolerance a check uses; over 1 if it fails."""
    room = (
        check.high - check.expected
        if check.measured > check.expected
        else (check.expected - check.low)
    )
    return abs(check.measured - check.expected) / room if room else float(not check.passed) * 9


def _print_check(check: Check, of: int = 1) -> None:
    name = f"{check.name[:27]} ({of}: worst)" if of > 1 else check.name[:38]
    bounds = f"{_number(check.low)} .. {_number(check.high)}"
    print(
        f"{'ok' if check.passed else 'FAIL':4} {check.group:29} {name:38} "
        f"{_number(check.measured):>14} {_number(check.expected):>14} {bounds:>31}"
        + (f"  {check.note}" if check.note else "")
    )


def _number(value: float) -> str:
    if abs(value) >= 1e15:
        return f"{value:.4g}"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:,.2f}"
