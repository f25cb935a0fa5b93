"""Globs over the keys of an object store.

In: a glob, as for local files. Out: a regular expression over whole keys.

Invariant: no wildcard but `**` matches a slash, and none the dot that a hidden name begins with.
"""

from __future__ import annotations

import re


def key_pattern(glob: str) -> re.Pattern[str]:
    """A glob as a regular expression over keys."""
    parts = glob.split("/")
    made = []
    for index, part in enumerate(parts):
        is_last = index == len(parts) - 1
        if part == "**":
            made.append(r"(?:(?!\.)[^/]+/)*" + (r"(?!\.)[^/]+" if is_last else ""))
            continue
        hidden = r"(?!\.)" if part[:1] in "*?[" else ""
        made.append(hidden + _part_pattern(part) + ("" if is_last else "/"))
    return re.compile("".join(made), re.DOTALL)


def _part_pattern(part: str) -> str:
    """One part of a glob; no wildcard matches a slash."""
    made, position = [], 0
    while position < len(part):
        character = part[position]
        position += 1
        stop = part.find("]", position + 1 + (part[position : position + 1] == "!"))
        if character == "*":
            made.append("[^/]*")
        elif character == "?":
            made.append("[^/]")
        elif character == "[" and stop >= 0:
            inner = part[position:stop].replace("\\", r"\\").replace("[", r"\[")
            inner = f"^{inner[1:]}" if inner.startswith("!") else inner.replace("^", r"\^")
            made.append(f"(?!/)[{inner}]")
            position = stop + 1
        else:
            made.append(re.escape(character))
    return "".join(made)
