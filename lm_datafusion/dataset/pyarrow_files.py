"""A table in the form that PyArrow's own reader accepts.

In: a table, and which of its rows are wanted. Out: a `pyarrow.dataset.FileSystemDataset`.

Python calls on a dataset go to our scan; calls from PyArrow's C++ code (`Scanner.from_dataset`, a
scan node, a union) go to PyArrow's reader over the same files.

Why lazily: a fragment per file costs microseconds, and a statement makes several datasets. PyArrow
calls `_scanner_options` before it scans; the files are added then. Until then there is one
fragment, which raises an error that explains why it cannot be read. Only
`UnionDataset(schema, children)` makes no call first; `pyarrow.dataset.dataset(children)` calls
`replace_schema`.

Invariant: no rows other than those of the dataset. A selection that PyArrow's reader cannot apply
is an `OptionError`.
"""

from __future__ import annotations

import functools
import operator
import threading
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from lm_datafusion.dataset.extent import Extent
from lm_datafusion.errors import OptionError
from lm_datafusion.formats.names import ORC
from lm_datafusion.options import ScanOptions
from lm_datafusion.scan import load_facts
from lm_datafusion.storage import LocalStorage

if TYPE_CHECKING:
    from lm_datafusion.plan import Table, TableFile
    from lm_datafusion.predicate.conjunct import Conjunct

_PARQUET: Final = ds.ParquetFileFormat()
_FILESYSTEM: Final = fs.LocalFileSystem()
_EVERYTHING: Final = Extent()


class _RefusingFile:
    """A file that raises when PyArrow's C++ code reads it."""

    closed = False

    def readable(self) -> bool:
        """Called by PyArrow when it makes a fragment of the file."""
        return True

    def read(self, *_: Any) -> NoReturn:
        """Raises on every attempt to read the file."""
        raise OptionError(
            "PyArrow cannot read this LateDataset by itself; use the dataset's own methods, and"
            " pyarrow.dataset.dataset([...]) for a union"
        )

    tell = seek = size = read


def _make_refusing() -> ds.Fragment:
    """A fragment of a file that raises, made on a separate thread.

    PyArrow asks the file for its size at once, and keeps the error with its traceback. On the
    calling thread, that would keep every frame of the importing code and its variables alive.
    """
    made: list[ds.Fragment] = []
    thread = threading.Thread(target=lambda: made.append(_PARQUET.make_fragment(_RefusingFile())))
    thread.start()
    thread.join()
    return made[0]


_REFUSING: Final = _make_refusing()


class PyArrowFiles(ds.FileSystemDataset):
    """The part of a dataset that PyArrow's C++ code sees."""

    def __init__(self, table: Table, conjuncts: tuple[Conjunct, ...], extent: Extent) -> None:
        super().__init__([_REFUSING], table.schema, _PARQUET)
        self._table = table
        self._conjuncts = conjuncts
        self._extent = extent
        self._is_open = False

    @property
    def filesystem(self) -> fs.FileSystem:
        """Where the files are."""
        return _FILESYSTEM

    @property
    def format(self) -> ds.FileFormat:
        """What the files are."""
        return _format_of(self._table)

    @property
    def partitioning(self) -> None:
        """Not known: partition values come from the folders of each file."""

    @property
    def is_whole_table(self) -> bool:
        """Whether all rows are wanted, in any order."""
        return not self._conjuncts and self._extent == _EVERYTHING

    def open_to_pyarrow(self) -> None:
        """Makes the files visible to PyArrow's C++ code."""
        if not self._is_open:
            found = _format_of(self._table)
            fragments = _fragments(self._table, found)
            super().__init__(fragments, self._table.schema, found, _FILESYSTEM)
            self._is_open = True

    def _scanner_options(self, options: dict[str, Any]) -> dict[str, Any]:
        """Called by PyArrow before it scans."""
        if not self.is_whole_table:
            raise OptionError(
                "PyArrow cannot apply the filter, limit or order of this LateDataset; use the"
                " dataset's own methods"
            )
        self.open_to_pyarrow()
        return options

    @property
    def _scan_options(self) -> dict[str, Any]:
        """PyArrow treats a dataset that has any as filtered, and makes no union of it."""
        if self.is_whole_table:
            return {}
        return {"conjuncts": self._conjuncts, "extent": self._extent}


def _format_of(table: Table) -> ds.FileFormat:
    """The format of the files: of the first one, as PyArrow reads it."""
    facts = load_facts(table.storage, table.files[0].path, ScanOptions())
    return ds.OrcFileFormat() if facts.format_name == ORC else _PARQUET


def _fragments(table: Table, file_format: ds.FileFormat) -> list[ds.Fragment]:
    if not isinstance(table.storage, LocalStorage):
        raise OptionError("PyArrow's own reader is for local files here")
    return [
        file_format.make_fragment(file.path, _FILESYSTEM, _partition_expression(file, table.schema))
        for file in table.files
    ]


def _partition_expression(file: TableFile, schema: pa.Schema) -> pc.Expression:
    known = [
        _is_value(name, value, schema.field(name).type)
        for name, value in file.partition.items()
        if name in schema.names
    ]
    return functools.reduce(operator.and_, known) if known else pc.scalar(True)


def _is_value(name: str, value: pa.Scalar, data_type: pa.DataType) -> pc.Expression:
    field = pc.field(name)
    return field == value.cast(data_type) if value.is_valid else field.is_null()
