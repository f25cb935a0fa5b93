"""Conditions that can be taken out of a query's text once a scan applies them.

In: the text of a query. Out: per condition of a WHERE its place in the text, the table reference
it is about, and its own text over the columns of that table.

A condition can be taken out where every row the WHERE sees holds a row of the reference: the
reference stands in the FROM, alone or under inner joins, by itself or behind a subquery that only
chooses columns. Under an outer join it stays: it may be what drops the rows without a partner.

Invariant: the place in the text, parsed alone, is the condition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import Scope, traverse_scope

from lm_datafusion.sql.dialect import DataFusion, normalized

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sqlglot import Token

_ENDS = frozenset(
    {
        TokenType.GROUP_BY,
        TokenType.ORDER_BY,
        TokenType.HAVING,
        TokenType.QUALIFY,
        TokenType.WINDOW,
        TokenType.LIMIT,
        TokenType.OFFSET,
        TokenType.FETCH,
        TokenType.UNION,
        TokenType.EXCEPT,
        TokenType.INTERSECT,
        TokenType.SEMICOLON,
    }
)
_PLAIN_SELECT = frozenset({"expressions", "from_", "where", "kind", "hint"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition of a WHERE about one table.

    Attributes:
        table: The name of the table in the text.
        text: The condition over the table's own columns, without their table's name.
        start: Where it begins in the query's text.
        stop: Where it ends.
    """

    table: str
    text: str
    start: int
    stop: int


def find_conditions(text: str) -> list[Condition]:
    """The conditions that may be taken out; none if the text is not understood."""
    try:
        (tree,) = sqlglot.parse(text, dialect=DataFusion)
        scopes = traverse_scope(tree) if isinstance(tree, exp.Query) else []
        pieces = list(_pieces(text))
    except (SqlglotError, RecursionError, ValueError):
        return []
    return [condition for scope in scopes for condition in _conditions(scope, text, pieces)]


def without(text: str, conditions: Iterable[Condition]) -> str:
    """The text with conditions replaced by TRUE."""
    for condition in sorted(conditions, key=lambda c: c.start, reverse=True):
        text = f"{text[: condition.start]}TRUE{text[condition.stop :]}"
    return text


def _conditions(scope: Scope, text: str, pieces: list[tuple[int, int]]) -> Iterator[Condition]:
    select = scope.expression
    if not isinstance(select, exp.Select) or not _joins_keep_rows(select):
        return
    where = select.args.get("where")
    # DataFusion takes all that follows IS DISTINCT FROM, also behind an AND, for its operand.
    if where is None or where.find(exp.NullSafeEQ, exp.NullSafeNEQ):
        return
    for part in _split(where.this):
        columns = list(part.find_all(exp.Column))
        if not columns or part.find(exp.Query, exp.Window, exp.Placeholder, exp.Parameter):
            continue
        table = _table_of(columns, scope)
        place = None if table is None else _place(part, columns, text, pieces)
        if table is not None and place is not None:
            yield Condition(table=table, text=_unqualified(part), start=place[0], stop=place[1])


def _joins_keep_rows(select: exp.Select) -> bool:
    """Whether no join of the FROM, also inside parentheses, can make a row without a partner."""
    if select.args.get("laterals"):
        return False
    sources = [select.args.get("from_"), *(select.args.get("joins") or [])]
    return all(
        not join.side and join.kind in ("", "INNER", "CROSS") and not join.method
        for source in sources
        if source is not None
        for join in source.find_all(exp.Join)
    )


def _split(condition: exp.Expr) -> list[exp.Expr]:
    found, waiting = [], [condition]
    while waiting:
        node = waiting.pop()
        if isinstance(node, exp.And):
            waiting += [node.right, node.left]
        else:
            found.append(node)
    return found


def _table_of(columns: list[exp.Column], scope: Scope) -> str | None:
    """The table whose columns all these are, unchanged."""
    sources = {name.lower(): source for name, (_, source) in scope.selected_sources.items()}
    qualifiers = {column.table.lower() for column in columns}
    if qualifiers == {""} and len(sources) == 1:
        qualifiers = set(sources)
    is_clear = len(sources) == len(scope.selected_sources)  # no "A" beside a
    if not is_clear or len(qualifiers) != 1 or any(column.args.get("db") for column in columns):
        return None
    source = sources.get(qualifiers.pop())
    names = {normalized(column.this) for column in columns}
    if isinstance(source, Scope):
        return _passed_through(source, names)
    return source.name if isinstance(source, exp.Table) else None


def _passed_through(scope: Scope, names: set[str]) -> str | None:
    """The one table behind a subquery that hands these columns out as they are."""
    select = scope.expression
    if not isinstance(select, exp.Select):
        return None
    if {key for key, value in select.args.items() if value} - _PLAIN_SELECT or select.find(
        exp.Window
    ):
        return None
    sources = [source for _, source in scope.selected_sources.values()]
    if len(sources) != 1 or not isinstance(sources[0], exp.Table):
        return None
    same, other = _outputs(select)
    if names & other or not (same is None or names <= same):
        return None
    return sources[0].name


def _outputs(select: exp.Select) -> tuple[set[str] | None, set[str]]:
    """Names of columns that are handed out as they are (None: all), and of those that are not."""
    same: set[str] = set()
    other: set[str] = set()
    has_star = False
    for output in select.expressions:
        column = output.this if isinstance(output, exp.Column) else None
        star = output if isinstance(output, exp.Star) else column
        if isinstance(star, exp.Star):
            has_star = True
            changed = [
                e for key in ("except_", "replace", "rename") for e in star.args.get(key) or []
            ]
            other |= {normalized(name) for e in changed for name in e.find_all(exp.Identifier)}
        elif isinstance(output, exp.Column):
            same.add(normalized(output.this))
        else:
            alias = output.args.get("alias")
            other.add("" if alias is None else normalized(alias))
    return None if has_star else same, other


def _place(
    part: exp.Expr, columns: list[exp.Column], text: str, pieces: list[tuple[int, int]]
) -> tuple[int, int] | None:
    starts = [identifier.meta.get("start") for identifier in columns[0].find_all(exp.Identifier)]
    if not starts or starts[0] is None:
        return None
    around = [piece for piece in pieces if piece[0] <= starts[0] < piece[1]]
    if not around:
        return None
    start, stop = min(around, key=lambda piece: piece[1] - piece[0])
    try:
        alone = sqlglot.parse_one(text[start:stop], into=exp.Condition, dialect=DataFusion)
    except SqlglotError:
        return None
    return (start, stop) if alone == part else None


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """What stands between the ANDs of every WHERE."""
    tokens = list(sqlglot.tokenize(text, read=DataFusion))
    for place, token in enumerate(tokens):
        if token.token_type == TokenType.WHERE:
            yield from _pieces_of(tokens[place + 1 :])


def _pieces_of(tokens: list[Token]) -> Iterator[tuple[int, int]]:
    depth = betweens = 0
    piece: list[Token] = []
    for token in tokens:
        kind = token.token_type
        depth += kind in (TokenType.L_PAREN, TokenType.CASE)
        depth -= kind in (TokenType.R_PAREN, TokenType.END)
        if depth < 0 or (depth == 0 and kind in _ENDS):
            break
        betweens += depth == 0 and kind == TokenType.BETWEEN
        if depth == 0 and kind == TokenType.AND:
            if not betweens:
                yield piece[0].start, piece[-1].end + 1
                piece = []
                continue
            betweens -= 1
        piece.append(token)
    if piece:
        yield piece[0].start, piece[-1].end + 1


def _unqualified(part: exp.Expr) -> str:
    bare = part.copy()
    for column in bare.find_all(exp.Column):
        column.set("table", None)
    return bare.sql(dialect=DataFusion)
