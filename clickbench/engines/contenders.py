"""Engines by name.

In: words like `duckdb` or `lm:late`. Out: engines that are not open yet.

A word is `name` or `name:path`; only `lm` has paths, which force one of its readers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clickbench.engines.engine import EngineError

if TYPE_CHECKING:
    from clickbench.engines.engine import Engine

ENGINES = {
    "datafusion": "DataFusion as it comes",
    "datafusion-pushdown": "DataFusion with pushdown_filters and reorder_filters on",
    "lm": "lm_datafusion.SessionContext; lm:late, lm:native force a path of"
    " ScanOptions, lm:dataset registers lm_datafusion.dataset, lm:remember keeps conditions",
    "duckdb": "DuckDB",
    "polars": "Polars, through its SQLContext",
    "spark": "Spark SQL through PySpark, in local mode",
    "pyarrow": "pyarrow.dataset in DataFusion",
}


def parse_engines(text: str) -> tuple[str, ...]:
    """The engines named by a list like `datafusion,lm:late`.

    Raises:
        EngineError: A name is not known, is there twice, or has a path and is not `lm`.
    """
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    for word in words:
        name, colon, path = word.partition(":")
        if name not in ENGINES:
            raise EngineError(f"there is no engine {name!r}; there are {', '.join(ENGINES)}")
        if colon and (name != "lm" or not path):
            raise EngineError(f"{word!r}: only lm has paths, as in lm:late")
    if not words:
        raise EngineError(f"no engine named; there are {', '.join(ENGINES)}")
    if len(set(words)) < len(words):
        raise EngineError(f"an engine is named twice in {text!r}")
    return words


def make_engine(word: str) -> Engine:
    """The engine a word stands for; its library is imported here."""
    name, _, path = word.partition(":")
    if name == "duckdb":
        from clickbench.engines.duckdb_engine import DuckDB

        return DuckDB()
    if name == "polars":
        from clickbench.engines.polars_engine import Polars

        return Polars()
    if name == "spark":
        from clickbench.engines.spark_engine import Spark

        return Spark()
    if name == "pyarrow":
        from clickbench.engines.pyarrow_engine import PyArrow

        return PyArrow()
    from clickbench.engines.datafusion_engine import DataFusion, LateDataFusion

    if name == "lm":
        return LateDataFusion(path or "auto")
    return DataFusion(pushdown=name == "datafusion-pushdown")
