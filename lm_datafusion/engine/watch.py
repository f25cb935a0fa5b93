"""One run of a query: what its scans report and raise.

In: an offer, and the datasets it reads. Out: datasets for DataFusion to scan; a `ScanReport` per
Parquet table.

DataFusion hands the text of a Python error on, not the error, so a watched dataset keeps it.

Invariant: reports of one run never reach another, whichever threads its partitions run on.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds

from lm_datafusion.errors import GaveUpError
from lm_datafusion.metrics import merge_reports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from lm_datafusion.dataset import LateDataset
    from lm_datafusion.engine.offer import Offer, TableAccess
    from lm_datafusion.metrics import ScanReport
    from lm_datafusion.sql.table_name import TableName

_ERRORS_KEPT = 16


class Run:
    """The reports and errors of one run of an offer.

    `list_tables` gives the offer with its tables, if nobody had to know them.
    """

    def __init__(self, offer: Offer, list_tables: Callable[[], Offer] | None = None) -> None:
        self.offer = offer
        self.errors: deque[Exception] = deque(maxlen=_ERRORS_KEPT)
        self.reports: dict[TableName, list[ScanReport]] = {a.use.name: [] for a in offer.tables}
        self._list_tables = list_tables
        self._row_count = 0
        self._lock = threading.Lock()

    def merged(self) -> list[ScanReport]:
        """One report per table; as far as the run has come."""
        offer = self.offer if self._list_tables is None else self._list_tables()
        return [_merged(a, list(self.reports.get(a.use.name, []))) for a in offer.tables]

    def watched(self, datasets: dict[TableName, LateDataset]) -> dict[TableName, WatchedDataset]:
        """Datasets whose reports and errors are those of this run."""
        return {name: WatchedDataset(late, self, name) for name, late in datasets.items()}

    @contextmanager
    def errors_kept(self) -> Iterator[None]:
        """A block of a scan."""
        try:
            yield
        except Exception as error:
            self.errors.append(error)
            raise

    def count(self, row_count: int) -> None:
        """Counts rows found; a `GaveUpError` if they are more than the offer has at most."""
        most = self.offer.most_rows
        if most is None:
            return
        with self._lock:
            self._row_count += row_count
            if self._row_count > most:
                raise GaveUpError(f"more than {most:,} rows were found")


def _merged(access: TableAccess, reports: list[ScanReport]) -> ScanReport:
    table = access.use.table
    whole = merge_reports(reports, table=access.use.alias, path=access.path, reason=access.reason)
    return dataclasses.replace(whole, files=len(table.files), bytes_total=table.size_bytes)


class WatchedDataset(ds.Dataset):
    """A dataset as DataFusion scans it; without a name, its reports stay with the dataset.

    With `applies_all`, every filter that DataFusion pushes is one that the dataset applies anyway:
    to read one back from PyArrow's form takes a millisecond, three times a statement.
    """

    def __init__(self, late: LateDataset, run: Run, name: TableName | None = None) -> None:
        # The base class cannot be initialised from Python.
        self.applies_all = False
        self._late = late if name is None else late.with_reports(run.reports[name])
        self._run = run
        self._name = name

    def observe(self, run: Run) -> None:
        """Makes the reports and errors of scans that begin from now on those of another run."""
        if self._name is not None:
            self._late.report_to(run.reports[self._name])
        self._run = run

    @property
    def schema(self) -> pa.Schema:
        """Columns and types."""
        return self._late.schema

    def scanner(self, columns: Any = None, filter: Any = None, **settings: Any) -> _Scanner:  # noqa: A002 PyArrow's name
        """As the dataset's."""
        pushed = None if self.applies_all else filter
        with self._run.errors_kept():
            return _Scanner(self._late.scanner(columns, pushed, **settings), self._run)

    def get_fragments(self, filter: Any = None) -> Iterator[_Fragment]:  # noqa: A002 PyArrow's name
        """As the dataset's."""
        run = self._run
        with run.errors_kept():
            for fragment in self._late.get_fragments(None if self.applies_all else filter):
                yield _Fragment(fragment, run, applies_all=self.applies_all)


class _Fragment:
    def __init__(self, fragment: Any, run: Run, *, applies_all: bool) -> None:
        self._fragment = fragment
        self._run = run
        self._applies_all = applies_all

    def scanner(self, *arguments: Any, filter: Any = None, **settings: Any) -> _Scanner:  # noqa: A002 PyArrow's name
        pushed = None if self._applies_all else filter
        with self._run.errors_kept():
            scanner = self._fragment.scanner(*arguments, filter=pushed, **settings)
            return _Scanner(scanner, self._run)


class _Scanner:
    def __init__(self, scanner: Any, run: Run) -> None:
        self._scanner = scanner
        self._run = run

    @property
    def projected_schema(self) -> pa.Schema:
        return self._scanner.projected_schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        with self._run.errors_kept():
            for batch in self._scanner.to_batches():
                self._run.count(batch.num_rows)
                yield batch
