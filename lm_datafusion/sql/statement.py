"""A query's table references, found by sqlglot and changed in the user's own text.

In: SQL text. Out: where each table is named, and the text with other names in those places.

The text is never written anew from a tree: what the user wrote reaches DataFusion character for
character, but for the names. A name `hits` becomes `"other" AS hits`, so that `hits.url` goes on
meaning what it meant.

Invariant: a name that stands for a CTE, a subquery or a table function is no table reference.
"""

from __future__ import annotations

import itertools
import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import traverse_scope

from lm_datafusion.predicate.literals import quote_identifier
from lm_datafusion.sql.dialect import DataFusion, normalized

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlglot import Token

# sqlglot warns about statements it only knows as text; those pass through untouched.
logging.getLogger("sqlglot").setLevel(logging.ERROR)

_CATALOG_SCHEMA_TABLE = 3
# Texts with a prefix, as E'\\'': sqlglot and DataFusion need not agree on where they end.
_KNOWN_TEXTS = (TokenType.STRING, TokenType.HEX_STRING)
_PREFIXED_TEXT = re.compile(r"\b(?:E|B|N|R|U&)'", re.IGNORECASE)
# sqlglot keeps an EXPLAIN as one piece of text.
_EXPLAIN = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*EXPLAIN(?:\s+ANALYZE)?(?:\s+VERBOSE)?(?:\s+FORMAT\s+\w+)?\s+",
    re.IGNORECASE | re.DOTALL,
)


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
    """A statement that only reads, and the tables it reads.

    Attributes:
        text: SQL.
        references: The tables, where their place in the text is clear.
        is_whole: Whether that is all of them: inside another query, no name that is left could
            come to mean a CTE of that query.
    """

    text: str
    references: tuple[TableReference, ...]
    is_whole: bool = True

    def spliced(self, sources: Mapping[int, str]) -> str:
        """The text with some references (by position) leading to other sources.

        Args:
            sources: By position of a reference: a quoted name, or a query in parentheses.
        """
        parts = []
        position = 0
        for index, reference in sorted(enumerate(self.references), key=lambda r: r[1].start):
            if index not in sources:
                continue
            parts += [self.text[position : reference.start], sources[index]]
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
    if _PREFIXED_TEXT.search(text) and _has_prefixed_text(text):
        return None
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
    named = sum(1 for _ in trees[0].find_all(exp.Table))
    uses = sum(
        1
        for scope in scopes
        for node, source in scope.selected_sources.values()
        if isinstance(node, exp.Table) and not isinstance(source, exp.Table)
    )
    return Query(text=text, references=found, is_whole=named == len(found) + uses)


def parse_create_view(text: str) -> tuple[tuple[str, ...], str] | None:
    """The name of a view and the text of its query, if a statement creates a view.

    Column names of the view's own are not part of that text.
    """
    tokens = _tokens(text)
    kinds = [token.token_type for token in tokens]
    if TokenType.CREATE not in kinds[:1] or TokenType.VIEW not in kinds[:4]:
        return None
    if TokenType.ALIAS not in kinds:
        return None
    try:
        (tree,) = sqlglot.parse(text, dialect=DataFusion)
    except (SqlglotError, RecursionError, ValueError):
        return None
    table = tree.find(exp.Table) if isinstance(tree, exp.Create) else None
    if table is None:
        return None
    body = tokens[kinds.index(TokenType.ALIAS) + 1 :]
    if body and body[-1].token_type == TokenType.SEMICOLON:
        body.pop()
    if not body:
        return None
    name = tuple(normalized(part) for part in table.parts)
    return name, text[body[0].start : body[-1].end + 1]


def split_explain(text: str) -> tuple[str, str] | None:
    """The words of EXPLAIN and the statement it explains; None for every other statement."""
    words = _EXPLAIN.match(text)
    return None if words is None else (words[0], text[words.end() :])


def _has_prefixed_text(text: str) -> bool:
    tokens = _tokens(text)
    is_plain = all(
        token.token_type in _KNOWN_TEXTS for token in tokens if "STRING" in token.token_type.name
    )
    return not is_plain or any(
        after.token_type == TokenType.STRING
        and before.end + 1 == after.start
        and before.text.upper() in {"E", "B", "N", "R", "U&", "&"}
        for before, after in itertools.pairwise(tokens)
    )


def _tokens(text: str) -> list[Token]:
    try:
        return list(sqlglot.tokenize(text, read=DataFusion))
    except (SqlglotError, RecursionError):
        return []


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
    name = tuple(normalized(part) for part in parts)
    return TableReference(
        name=name,
        alias=name[-1] if alias is None else normalized(alias.this),
        start=parts[0].meta["start"],
        stop=parts[-1].meta["end"] + 1,
        has_alias=alias is not None,
    )
