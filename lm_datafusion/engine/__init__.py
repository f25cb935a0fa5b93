"""DataFusion's session, with late materialization inside.

In: SQL. Out: `datafusion.DataFrame`s whose Parquet tables are read by the path that suits them.

Invariant: every answer, schema and error is the one DataFusion gives.
"""

from __future__ import annotations

from lm_datafusion.engine.factory import LateTableFactory
from lm_datafusion.engine.frame import LateDataFrame
from lm_datafusion.engine.session import SessionContext

__all__ = ["LateDataFrame", "LateTableFactory", "SessionContext"]
