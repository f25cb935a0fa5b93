"""Names of tables, as DataFusion's methods and statements have them.

In: a name as text, or its parts. Out: the other.

Invariant: `parse_name(dotted(name))` is the name.
"""

from __future__ import annotations

import re

from lm_datafusion.predicate.literals import quote_identifier

# Catalog, schema and table, without the parts that are missing.
TableName = tuple[str, ...]
_PARTS = re.compile(r'("(?:[^"]|"")*"|[^".\s]+)(?:\.|$)')


def parse_name(text: str) -> TableName:
    """A table's name as DataFusion's methods read it: parts in quotes keep their case."""
    parts = _PARTS.findall(text)
    if not 0 < len(parts) <= 3 or _PARTS.sub("", text):  # noqa: PLR2004 catalog, schema, table
        return (text,)
    return tuple(
        part[1:-1].replace('""', '"') if part.startswith('"') else part.lower() for part in parts
    )


def dotted(name: TableName) -> str:
    """A name as SQL."""
    return ".".join(map(quote_identifier, name))
