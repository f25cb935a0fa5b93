"""A query's table references, found by sqlglot and changed in the user's own text.

In: SQL text. Out: where each table is named, and the text with other names in those places.

The text is never written anew from a tree: what the user wrote reaches DataFusion character for
character, but for the names. A name `hits` becomes `"other" AS hits`, so that `hits.url` goes on
meaning what it meant.

Invariant: a name that stands for a CTE, a subquery or a table function is no table reference.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import traverse_scope

from lm_datafusion.predicate.literals import quote_identifier
from lm_datafusion.sql.dialect import DataFusion

if TYPE_CHECKING:
    from collections.abc import Mapping

# sqlglot warns about statements it only knows as text; those pass through untouched.
logging.getLogger("sqlglot").setLevel(logging.ERROR)

_CATALOG_SCHEMA_TABLE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReference:
    """One place where a table is named.

    Attributes:
        name: The parts of the name in DataFusion's case rules: catalog and schema may be missing.
        alias: What the table is called in the query.
        start: Where the name begins in the text.
        stop: Where it ends.
        has_alias: Whether the text gives the alias itself.
    """

    name: tuple[str, ...]
    alias: str
    start: int
    stop: int
    has_alias: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A statement that only reads, and the tables it reads."""

    text: str
    references: tuple[TableReference, ...]

    def renamed(self, names: Mapping[int, str]) -> str:
        """The text with some references (by position) leading to other tables."""
        parts = []
        position = 0
        for index, reference in sorted(enumerate(self.references), key=lambda r: r[1].start):
            if index not in names:
                continue
            parts.append(self.text[position : reference.start])
            parts.append(quote_identifier(names[index]))
            if not reference.has_alias:
                parts.append(f" AS {quote_identifier(reference.alias)}")
            position = reference.stop
        return "".join([*parts, self.text[position:]])


def parse_query(text: str) -> Query | None:
    """Finds the table references of a query.

    Returns:
        The query, or None for everything that is not one query that can be understood: it is
        left to DataFusion as it is.
    """
    try:
        trees = sqlglot.parse(text, dialect=DataFusion)
    except (SqlglotError, RecursionError):
        return None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query) or _is_writing(trees[0]):
        return None
    try:
        scopes = traverse_scope(trees[0])
    except (SqlglotError, RecursionError):
        return None
    tables = {
        id(source): source
        for scope in scopes
        for _, source in scope.selected_sources.values()
        if isinstance(source, exp.Table)
    }
    references = [_reference(table) for table in tables.values()]
    found = tuple(reference for reference in references if reference is not None)
    return Query(text=text, references=found)


def _is_writing(tree: exp.Query) -> bool:
    """SELECT ... INTO makes a table; columns named by schema and table cannot be kept."""
    qualified = any(column.args.get("db") for column in tree.find_all(exp.Column))
    return tree.find(exp.Into) is not None or qualified


def _reference(table: exp.Table) -> TableReference | None:
    parts = table.parts
    plain = all(isinstance(part, exp.Identifier) and "start" in part.meta for part in parts)
    extras = {"joins", "laterals", "pivots", "sample", "version", "only", "ordinality", "when"}
    if not plain or len(parts) > _CATALOG_SCHEMA_TABLE or any(table.args.get(e) for e in extras):
        return None
    alias = table.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        return None
    name = tuple(_normalized(part) for part in parts)
    return TableReference(
        name=name,
        alias=name[-1] if alias is None else _normalized(alias.this),
        start=parts[0].meta["start"],
        stop=parts[-1].meta["end"] + 1,
        has_alias=alias is not None,
    )


def _normalized(identifier: exp.Expr) -> str:
    return identifier.name if identifier.args.get("quoted") else identifier.name.lower()
