"""The only door to sqlglot: SQL text becomes conjuncts and scan requests.

In: SQL in DataFusion's spelling. Out: `Conjunct`s that the rooms below bind and evaluate.

Invariant: the text handed on says to DataFusion what the user's text said to it; where that
cannot be shown, the user's text is handed on whole.
"""

from __future__ import annotations

from lm_datafusion.sql.condition import parse_condition

__all__ = ["parse_condition"]
