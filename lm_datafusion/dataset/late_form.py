"""Converts a stock PyArrow dataset to a `LateDataset`.

In: any `pyarrow.dataset.Dataset`. Out: a `LateDataset` of the same rows, or None.

Invariant: only datasets known to hold the same rows are converted: whole local Parquet or ORC
files, no partition columns, no filter, no options of PyArrow's own reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from lm_datafusion.dataset.dataset import LateDataset
from lm_datafusion.errors import LateError
from lm_datafusion.plan import Table, TableFile
from lm_datafusion.scan import load_facts
from lm_datafusion.storage import LocalStorage

if TYPE_CHECKING:
    from lm_datafusion.options import ScanOptions


_ALL = pc.scalar(True)


def late_form(dataset: ds.Dataset, options: ScanOptions) -> LateDataset | None:
    """The dataset as a `LateDataset`; None if it cannot be converted."""
    if isinstance(dataset, LateDataset):
        return dataset
    if not _is_plain(dataset):
        return None
    storage = LocalStorage()
    try:
        for path in dataset.files:
            if load_facts(storage, path, options).schema != dataset.schema:
                return None
    except LateError:
        return None
    files = tuple(TableFile(path=path, partition={}) for path in dataset.files)
    return LateDataset(Table(storage=storage, files=files, schema=dataset.schema), options=options)


def _is_plain(dataset: ds.Dataset) -> bool:
    if type(dataset) is not ds.FileSystemDataset or not isinstance(
        dataset.filesystem, fs.LocalFileSystem
    ):
        return False
    # PyArrow keeps a dataset's filter here; a filtered dataset has no fragments to inspect.
    if dataset._scan_options or not _is_plain_format(dataset.format):  # noqa: SLF001
        return False
    return all(f.partition_expression.equals(_ALL) for f in dataset.get_fragments())


def _is_plain_format(found: ds.FileFormat) -> bool:
    return bool(found == ds.ParquetFileFormat() or found == ds.OrcFileFormat())
