"""Splits SQL text into statements, and finds the files that a statement names as tables.

In: the text of a file or of `-c`. Out: statements without their `;`, and the positions of quoted
names that may be paths.

Only tokens are read: strings (`'..'`, `E'..'`, `$tag$..$tag$`), quoted names (`".."`, and the same
in backticks), comments (`--` and nested `/* */`), words. A `;` inside any of them does not end a
statement.

Why not a parser: text that DataFusion understands and a parser does not must still reach
DataFusion, character for character.

Invariant: statements, joined by the text between them, are the original text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

# An unterminated token ends with the text; DataFusion reports the error.
_TOKEN: Final = re.compile(
    r"""
      (?P<space>\s+|--[^\n]*)
    | (?P<block>/\*)
    | (?P<escaped>[eE]'(?:[^'\\]|\\.|'')*(?:'|\Z))
    | (?P<string>'[^']*(?:''[^']*)*(?:'|\Z))
    | (?P<name>"[^"]*(?:""[^"]*)*(?:"|\Z)|`[^`]*(?:`|\Z))
    | (?P<word>\w[\w$]*)
    | (?P<dollar>\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?(?:\$(?P=tag)\$|\Z))
    | (?P<end>;)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE: Final = re.compile(r"/\*|\*/")
_QUERY_WORDS: Final = frozenset({"SELECT", "WITH", "VALUES", "FROM", "TABLE"})
_DEFINING_WORDS: Final = frozenset({"CREATE", "DROP", "SET", "RESET"})
# Words that can follow a table and are not its alias; after them a comma does not name a table. A
# missing word would be taken for an alias, and the columns of the file could not be qualified.
_CLAUSE_WORDS: Final = frozenset(
    [
        "WHERE",
        "GROUP",
        "ORDER",
        "HAVING",
        "LIMIT",
        "OFFSET",
        "FETCH",
        "ON",
        "USING",
        "JOIN",
        "INNER",
        "LEFT",
        "RIGHT",
        "FULL",
        "CROSS",
        "SEMI",
        "ANTI",
        "NATURAL",
        "LATERAL",
        "UNION",
        "EXCEPT",
        "INTERSECT",
        "WINDOW",
        "QUALIFY",
        "SORT",
        "CLUSTER",
        "DISTRIBUTE",
        "TABLESAMPLE",
        "FOR",
        "UNNEST",
        "SELECT",
        "SET",
        "VALUES",
    ]
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class QuotedTable:
    """A quoted name where a table is expected, and its position in the text."""

    name: str
    start: int
    stop: int
    is_string: bool
    has_alias: bool


def split_statements(text: str) -> list[str]:
    """Splits text at each `;` that ends a statement; drops parts with only comments."""
    statements = []
    start, has_content = 0, False
    for token in _tokens(text):
        if token.kind != "end":
            has_content = has_content or token.kind != "space"
            continue
        if has_content:
            statements.append(text[start : token.start].strip())
        start, has_content = token.stop, False
    if has_content:
        statements.append(text[start:].strip())
    return statements


def is_query(statement: str) -> bool:
    """Whether a statement only queries rows."""
    return _first_word(statement) in _QUERY_WORDS


def is_definition(statement: str) -> bool:
    """Whether a statement changes the session, which later statements may depend on."""
    return _first_word(statement) in _DEFINING_WORDS


def quoted_tables(statement: str) -> list[QuotedTable]:
    """Quoted names after FROM, JOIN, or a comma in a list of tables."""
    found = []
    expects_table, words_after = False, None
    tokens = [token for token in _tokens(statement) if token.kind != "space"]
    for index, token in enumerate(tokens):
        text = statement[token.start : token.stop]
        if expects_table and token.kind in ("string", "name"):
            found.append(
                QuotedTable(
                    name=_unquoted(text),
                    start=token.start,
                    stop=token.stop,
                    is_string=token.kind == "string",
                    has_alias=_is_alias(statement, tokens[index + 1 : index + 2]),
                )
            )
            expects_table, words_after = False, 0
        elif token.kind == "word":
            before = tokens[index - 1] if index else token
            expects_table = _is_before_table(text, statement[before.start : before.stop])
            words_after = _words_after(words_after, text)
        elif token.kind == "name" and words_after is not None:
            words_after = _words_after(words_after, text)
        else:
            expects_table = text == "," and words_after is not None
            words_after = None
    return found


def _is_alias(statement: str, following: list[_Token]) -> bool:
    """Whether a table is followed by an alias."""
    for token in following:
        word = statement[token.start : token.stop].upper()
        return token.kind == "name" or (token.kind == "word" and word not in _CLAUSE_WORDS)
    return False


def _is_before_table(word: str, previous: str) -> bool:
    if word.upper() == "JOIN":
        return True
    return word.upper() == "FROM" and previous.upper() != "DISTINCT"  # IS DISTINCT FROM 'a value'


def _words_after(count: int | None, word: str) -> int | None:
    """The number of words after a table: none or an alias, with or without AS."""
    if count is None or word.upper() in _CLAUSE_WORDS:
        return None
    return count + 1 if count <= 1 else None


def _unquoted(text: str) -> str:
    quote = text[0]
    return text[1:-1].replace(quote * 2, quote)


def _first_word(statement: str) -> str:
    for token in _tokens(statement):
        text = statement[token.start : token.stop]
        if token.kind == "word":
            return text.upper()
        if token.kind != "space" and text != "(":
            return ""
    return ""


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while match := _TOKEN.match(text, position):
        kind, stop = str(match.lastgroup), match.end()
        if match["dollar"]:
            kind = "dollar"  # the tag inside is the last group
        elif kind == "block":
            kind, stop = "space", _comment_stop(text, stop)
        yield _Token(kind, position, stop)
        position = stop


def _comment_stop(text: str, position: int) -> int:
    """Where a comment opened before `position` ends; comments nest."""
    depth = 1
    while depth and (edge := _COMMENT_EDGE.search(text, position)):
        depth += 1 if edge[0] == "/*" else -1
        position = edge.end()
    return len(text) if depth else position
