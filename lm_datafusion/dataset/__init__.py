"""The face PyArrow, DataFusion, DuckDB and Polars see: a `pyarrow.dataset.Dataset`.

In: paths, column names, filters as SQL or PyArrow expressions. Out: tables and batches.

Invariant: what an engine pushes down is answered exactly, with that engine's meaning.
"""

from __future__ import annotations

from lm_datafusion.dataset.dataset import LateDataset, dataset
from lm_datafusion.dataset.fragment import LateFragment
from lm_datafusion.dataset.late_form import late_form
from lm_datafusion.dataset.scanner import LateScanner

__all__ = ["LateDataset", "LateFragment", "LateScanner", "dataset", "late_form"]
