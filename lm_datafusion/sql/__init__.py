"""The only user of sqlglot: turns SQL text into conjuncts and scan requests.

In: SQL in DataFusion's dialect. Out: `Conjunct`s that the rooms below bind and evaluate.

Invariant: the resulting text means the same to DataFusion as the user's text; where that cannot be
shown, the user's text is passed on unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from lm_datafusion.predicate.conjunct import Conjunct

__all__ = ["parse_condition"]


def parse_condition(text: str, schema: pa.Schema) -> tuple[Conjunct, ...]:
    """The conjuncts of a SQL condition over a table; see `sql.condition`.

    The first call imports sqlglot, which takes 50 ms; queries of a session need only DataFusion's
    parser.
    """
    from lm_datafusion.sql import condition

    return condition.parse_condition(text, schema)
