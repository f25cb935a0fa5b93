"""The engines that answer the queries: one class each, behind one `Engine` protocol.

In: the files of `hits` and SQL in DataFusion's spelling. Out: Arrow tables.
"""

from __future__ import annotations

from clickbench.engines.contenders import ENGINES, make_engine, parse_engines
from clickbench.engines.engine import Engine, EngineError

__all__ = ["ENGINES", "Engine", "EngineError", "make_engine", "parse_engines"]
