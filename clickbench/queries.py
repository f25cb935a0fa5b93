"""The 43 queries and their view, read from `queries/`, the only copy.

In: a choice like `20-26` or `0,5,40-42`. Out: number and text of each query chosen.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

QUERY_COUNT = 43
_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "queries")
_PART = re.compile(r"q?(\d+)(?:-q?(\d+))?", re.IGNORECASE)


class QueryChoiceError(ValueError):
    """A choice of queries that cannot be understood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One question; `name` is `q00` to `q42`."""

    name: str
    sql: str


def parse_choice(text: str) -> tuple[int, ...]:
    """The numbers named by `20-26` or `0,5,40-42`, each once, in order.

    Raises:
        QueryChoiceError: A part is no number or range, or there is no such query.
    """
    numbers: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise QueryChoiceError(
                f"{part.strip()!r} is neither a query nor a range, as 5 or 20-26"
            )
        first = int(match[1])
        last = int(match[2] or first)
        if not first <= last < QUERY_COUNT:
            raise QueryChoiceError(f"{part.strip()!r}: queries go from 0 to {QUERY_COUNT - 1}")
        numbers.update(range(first, last + 1))
    return tuple(sorted(numbers))


def load_queries(numbers: tuple[int, ...]) -> tuple[Query, ...]:
    """The texts of queries, without the semicolon at their end."""
    queries = []
    for number in numbers:
        with open(os.path.join(_FOLDER, f"q{number:02}.sql"), encoding="utf-8") as file:
            queries.append(Query(name=f"q{number:02}", sql=file.read().strip().rstrip(";")))
    return tuple(queries)


def load_view() -> str:
    """The statement that makes the table of the queries of the table `hits_raw`."""
    with open(os.path.join(_FOLDER, "view.sql"), encoding="utf-8") as file:
        return file.read().strip().rstrip(";")
