"""lm_datafusion: late materialization for DataFusion and PyArrow datasets."""

from __future__ import annotations

__version__ = "0.1.0"
