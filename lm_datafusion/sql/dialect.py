"""DataFusion's SQL dialect for sqlglot.

In: text. Out: trees whose `.sql()` DataFusion reads like the text.

sqlglot translates between dialects and so renames functions: `strpos` becomes `POSITION`, `random`
becomes `RAND`. Here functions keep their names: the tables of known functions are empty, except for
those with special syntax (CAST, EXTRACT, ...).

Invariant: nothing is normalised that DataFusion distinguishes.
"""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, ClassVar

from sqlglot import exp, generator, parser
from sqlglot.dialects.dialect import NormalizationStrategy
from sqlglot.dialects.postgres import Postgres
from sqlglot.parsers.postgres import PostgresParser

if TYPE_CHECKING:
    from collections.abc import Callable

_OWN_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "POSITION", "OVERLAY", "TRIM", "CEIL", "FLOOR")

_NEGATED_INSIDE = (
    exp.In,
    exp.Like,
    exp.ILike,
    exp.Between,
    exp.SimilarTo,
    exp.Is,
    exp.RegexpLike,
    exp.RegexpILike,
)


_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def normalized(identifier: exp.Expr) -> str:
    """A name by DataFusion's case rules: unquoted, only A to Z are lower-cased."""
    return identifier.name if identifier.args.get("quoted") else identifier.name.translate(_LOWER)


class DataFusion(Postgres):
    """DataFusion reads the generic dialect of sqlparser-rs, which is close to PostgreSQL's."""

    NORMALIZATION_STRATEGY = NormalizationStrategy.LOWERCASE
    TYPED_DIVISION = True

    class Tokenizer(Postgres.Tokenizer):
        """Without PostgreSQL operators that DataFusion lacks; hexadecimal strings are bytes."""

        HEX_STRINGS: ClassVar = [("x'", "'"), ("X'", "'")]
        BYTE_STRINGS: ClassVar = []

    class Parser(PostgresParser):
        """Functions keep their names."""

        FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {}
        FUNCTION_PARSERS: ClassVar = {
            name: parse
            for name, parse in parser.Parser.FUNCTION_PARSERS.items()
            if name in _OWN_SYNTAX
        }
        NO_PAREN_FUNCTION_PARSERS: ClassVar = parser.Parser.NO_PAREN_FUNCTION_PARSERS

    class Generator(generator.Generator):
        """The generic generator, with DataFusion's spellings."""

        INTERVAL_ALLOWS_PLURAL_FORM = True
        SINGLE_STRING_INTERVAL = True
        TRANSFORMS: ClassVar = {
            **generator.Generator.TRANSFORMS,
            exp.RegexpLike: lambda self, e: self.binary(e, "~"),
            exp.RegexpILike: lambda self, e: self.binary(e, "~*"),
            exp.StrPosition: lambda self, e: (
                f"POSITION({self.sql(e, 'substr')} IN {self.sql(e, 'this')})"
            ),
        }

        def not_sql(self, expression: exp.Not) -> str:
            """`x NOT IN y` for sqlglot's `NOT x IN y`: DataFusion distinguishes them."""
            child = expression.this
            subject = child.this if isinstance(child, exp.Escape) else child
            if not isinstance(subject, _NEGATED_INSIDE):
                return super().not_sql(expression)
            operand = self.sql(subject, "this")
            rest = self.sql(child)[len(operand) :].lstrip()
            if isinstance(subject, exp.Is):
                return f"{operand} IS NOT {rest.removeprefix('IS ')}"
            if isinstance(subject, exp.RegexpLike | exp.RegexpILike):
                return f"{operand} !{rest}"
            return f"{operand} NOT {rest}"

        def hexstring_sql(
            self,
            expression: exp.HexString,
            binary_function_repr: str | None = None,  # noqa: ARG002 sqlglot's signature
        ) -> str:
            """Bytes, as a hexadecimal string."""
            return f"x'{expression.name}'"
