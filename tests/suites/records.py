"""Statements and queries of a sqllogictest file.

In: a `.slt` file. Out: `Record`s in the order of the file, included files where they are named.

What a file expects is not read: the answers of two engines are compared instead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pathlib

ENGINE = "datafusion"
# Only these give the same each time they run, and change nothing.
_QUERY = re.compile(
    r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*(?:SELECT|WITH|VALUES|FROM|TABLE)\b", re.IGNORECASE | re.DOTALL
)
_INTO = re.compile(r"\bINTO\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Record:
    """One statement.

    Attributes:
        text: SQL.
        file: Where it stands.
        line: Its first line there.
        is_query: Whether it only reads.
        is_explain: Whether it prints a plan.
    """

    text: str
    file: str
    line: int

    @property
    def is_query(self) -> bool:
        return _QUERY.match(self.text) is not None and not _INTO.search(self.text)

    @property
    def is_explain(self) -> bool:
        return self.text.lstrip().upper().startswith("EXPLAIN")


def parse_records(path: pathlib.Path) -> list[Record]:
    """The records of a file.

    Raises:
        FileNotFoundError: An include that names no file.
    """
    lines = path.read_text().splitlines()
    records: list[Record] = []
    position, is_skipped = 0, False
    while position < len(lines):
        words = lines[position].split()
        word = words[0] if words else ""
        if word == "halt":
            break
        if word == "include":
            records += _included(path, words[1])
        elif word == "skipif":
            is_skipped |= words[1].lower() == ENGINE
        elif word == "onlyif":
            is_skipped |= words[1].lower() != ENGINE
        elif word in ("statement", "query"):
            text, stop = _text(lines, position + 1)
            if not is_skipped and text:
                records.append(Record(text, path.name, position + 1))
            position, is_skipped = stop, False
            continue
        position += 1
    return records


def _included(path: pathlib.Path, pattern: str) -> list[Record]:
    found = sorted(path.parent.glob(pattern.removeprefix("./")))
    if not found:
        raise FileNotFoundError(f"{path}: include {pattern}")
    return [record for file in found for record in parse_records(file)]


def _text(lines: list[str], start: int) -> tuple[str, int]:
    """The SQL from a line on, and the line behind what is expected of it."""
    stop = start
    while stop < len(lines) and lines[stop].strip() and lines[stop] != "----":
        stop += 1
    text = "\n".join(lines[start:stop])
    while stop < len(lines) and lines[stop].strip():
        stop += 1
    return text, stop
