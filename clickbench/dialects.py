"""The queries in the SQL of other engines.

In: a query in DataFusion's spelling. Out: the same question as DuckDB, Polars or Spark spell it.

sqlglot carries over the grammar (quotes, escapes, where nulls are sorted); `_FUNCTIONS` has the
functions whose name or meaning differs. That the questions are the same is not believed but
checked: every run compares answers.

Invariant: a function that is not in the table keeps its name, so an engine that lacks it says so.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import sqlglot
from sqlglot import exp

from lm_datafusion.sql.dialect import DataFusion

_Rewrite = Callable[[list[exp.Expression]], exp.Expression]

_GENERATORS = {"duckdb": "duckdb", "polars": "postgres", "spark": "spark"}
_MICROSECONDS = 1_000_000


@functools.cache
def translate(sql: str, engine: str) -> str:
    """A query in an engine's SQL."""
    tree = sqlglot.parse_one(sql, dialect=DataFusion)
    rewrites = _FUNCTIONS[engine]

    def rewritten(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Anonymous) and node.name.lower() in rewrites:
            return rewrites[node.name.lower()](node.expressions)
        return node

    return str(tree.transform(rewritten).sql(dialect=_GENERATORS[engine]))


def _renamed(name: str) -> _Rewrite:
    return lambda arguments: exp.Anonymous(this=name, expressions=arguments)


def _duckdb_timestamp(arguments: list[exp.Expression]) -> exp.Expression:
    """`to_timestamp` would give a time with a zone; seconds as microseconds give one without."""
    micros = exp.Mul(this=arguments[0], expression=exp.Literal.number(_MICROSECONDS))
    return exp.Anonymous(this="make_timestamp", expressions=[micros])


def _polars_timestamp(arguments: list[exp.Expression]) -> exp.Expression:
    """An integer that is cast counts microseconds."""
    micros = exp.Mul(this=arguments[0], expression=exp.Literal.number(_MICROSECONDS))
    return exp.Cast(this=micros, to=exp.DataType.build("timestamp"))


def _java_regexp_replace(arguments: list[exp.Expression]) -> exp.Expression:
    """Java writes groups as `$1`, and replaces every match, not the first."""
    text, pattern, replacement = arguments
    groups = exp.Literal.string(replacement.name.replace("\\", "$"))
    return exp.Anonymous(this="regexp_replace", expressions=[text, pattern, groups])


_FUNCTIONS: dict[str, dict[str, _Rewrite]] = {
    # octet_length counts bytes; DuckDB has it for BLOB only, its strlen counts bytes of text.
    "duckdb": {"to_timestamp_seconds": _duckdb_timestamp, "octet_length": _renamed("strlen")},
    "polars": {"to_timestamp_seconds": _polars_timestamp},
    "spark": {
        "to_timestamp_seconds": _renamed("timestamp_seconds"),
        "regexp_replace": _java_regexp_replace,
    },
}
