"""The interface for PyArrow, DataFusion, DuckDB and Polars: a `pyarrow.dataset.Dataset`.

In: paths, column names, filters as SQL or PyArrow expressions. Out: tables and batches.

Invariant: filters that an engine pushes down are applied exactly, with that engine's semantics.
"""

from __future__ import annotations

from lm_datafusion.dataset.dataset import LateDataset, dataset
from lm_datafusion.dataset.fragment import LateFragment
from lm_datafusion.dataset.late_form import late_form
from lm_datafusion.dataset.scanner import LateScanner

__all__ = ["LateDataset", "LateFragment", "LateScanner", "dataset", "late_form"]
