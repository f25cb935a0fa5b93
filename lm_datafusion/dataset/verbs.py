"""The methods that datasets and fragments share; each is one scan.

Signatures are PyArrow's. Options that only tune PyArrow's own reader (`batch_readahead`,
`fragment_readahead`, `fragment_scan_options`, `cache_metadata`, `memory_pool`) are accepted and
have no effect: the scan has its own read-ahead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    import pyarrow.compute as pc

    from lm_datafusion.dataset.scanner import LateScanner

    Columns: TypeAlias = Sequence[str] | Mapping[str, pc.Expression] | None
    Filter: TypeAlias = pc.Expression | str | None
    OrderBy: TypeAlias = str | Sequence[str | tuple[str, str]] | None


class ScanVerbs:
    """Methods of classes that have a scanner."""

    def _late_scanner(self, columns: Columns, filter: Filter, **tuning: Any) -> LateScanner:  # noqa: A002 PyArrow's name
        raise NotImplementedError

    def to_batches(
        self,
        columns: Columns = None,
        filter: Filter = None,  # noqa: A002 PyArrow's name
        **tuning: Any,
    ) -> Iterator[pa.RecordBatch]:
        """The matching rows as record batches.

        Args:
            columns: Names of columns, or new names with PyArrow expressions; all by default.
            filter: A PyArrow expression, or a SQL condition in DataFusion's spelling.
            **tuning: Arguments of `scanner` (`reverse`, `limit`, `order_by`) and of PyArrow's
                `Dataset.to_batches`.
        """
        return self._late_scanner(columns, filter, **tuning).to_batches()

    def to_table(
        self,
        columns: Columns = None,
        filter: Filter = None,  # noqa: A002 PyArrow's name
        **tuning: Any,
    ) -> pa.Table:
        """The matching rows as a table; arguments as for `to_batches`."""
        return self._late_scanner(columns, filter, **tuning).to_table()

    def head(
        self,
        num_rows: int,
        columns: Columns = None,
        filter: Filter = None,  # noqa: A002 PyArrow's name
        **tuning: Any,
    ) -> pa.Table:
        """The first matching rows; reading stops once they are found."""
        return self._late_scanner(columns, filter, **tuning).head(num_rows)

    def take(
        self,
        indices: Any,
        columns: Columns = None,
        filter: Filter = None,  # noqa: A002 PyArrow's name
        **tuning: Any,
    ) -> pa.Table:
        """Rows by position; without a filter only the pages that hold them are read."""
        return self._late_scanner(columns, filter, **tuning).take(indices)

    def count_rows(
        self,
        filter: Filter = None,  # noqa: A002 PyArrow's name
        **tuning: Any,
    ) -> int:
        """How many rows match; without a filter the footers answer."""
        return self._late_scanner([], filter, **tuning).count_rows()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        """The rows as an Arrow C stream: for `pyarrow.table`, `write_dataset` and others."""
        return self._late_scanner(None, None).__arrow_c_stream__(requested_schema)
