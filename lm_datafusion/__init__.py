"""lm_datafusion: late materialization for DataFusion and PyArrow datasets.

    import lm_datafusion as lm

    hits = lm.dataset("hits.parquet")
    hits.to_table(columns=["url"], filter="status = 500 AND url LIKE '%login%'")

Names are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lm_datafusion.dataset import LateDataset as LateDataset
    from lm_datafusion.dataset import dataset as dataset
    from lm_datafusion.dataset.orc_reader import OrcReader as OrcReader
    from lm_datafusion.dataset.orc_reader import orc_reader as orc_reader
    from lm_datafusion.dataset.parquet_reader import ParquetReader as ParquetReader
    from lm_datafusion.dataset.parquet_reader import parquet_reader as parquet_reader
    from lm_datafusion.engine import LateTableFactory as LateTableFactory
    from lm_datafusion.engine import SessionContext as SessionContext
    from lm_datafusion.errors import LateError as LateError
    from lm_datafusion.kernels import kernel_info as kernel_info
    from lm_datafusion.metrics import ScanReport as ScanReport
    from lm_datafusion.metrics.explanation import ScanExplanation as ScanExplanation
    from lm_datafusion.options import ScanOptions as ScanOptions
    from lm_datafusion.plan import ScanRequest as ScanRequest
    from lm_datafusion.scan import clear_condition_cache as clear_condition_cache
    from lm_datafusion.scan import condition_cache_bytes as condition_cache_bytes
    from lm_datafusion.selection import RowSelection as RowSelection
    from lm_datafusion.selection import RowSelector as RowSelector

__version__ = "0.1.0"

_HOMES = {
    "LateDataset": "lm_datafusion.dataset",
    "LateError": "lm_datafusion.errors",
    "LateTableFactory": "lm_datafusion.engine",
    "OrcReader": "lm_datafusion.dataset.orc_reader",
    "ParquetReader": "lm_datafusion.dataset.parquet_reader",
    "RowSelection": "lm_datafusion.selection",
    "RowSelector": "lm_datafusion.selection",
    "ScanExplanation": "lm_datafusion.metrics.explanation",
    "ScanOptions": "lm_datafusion.options",
    "ScanReport": "lm_datafusion.metrics",
    "ScanRequest": "lm_datafusion.plan",
    "SessionContext": "lm_datafusion.engine",
    "clear_condition_cache": "lm_datafusion.scan",
    "condition_cache_bytes": "lm_datafusion.scan",
    "dataset": "lm_datafusion.dataset",
    "kernel_info": "lm_datafusion.kernels",
    "orc_reader": "lm_datafusion.dataset.orc_reader",
    "parquet_reader": "lm_datafusion.dataset.parquet_reader",
}

__all__ = [
    "LateDataset",
    "LateError",
    "LateTableFactory",
    "OrcReader",
    "ParquetReader",
    "RowSelection",
    "RowSelector",
    "ScanExplanation",
    "ScanOptions",
    "ScanReport",
    "ScanRequest",
    "SessionContext",
    "__version__",
    "clear_condition_cache",
    "condition_cache_bytes",
    "dataset",
    "kernel_info",
    "orc_reader",
    "parquet_reader",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


class _Package(ModuleType):
    """Keeps `dataset` the function: importing the room of that name would put the room there."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _HOMES and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted(__all__)
