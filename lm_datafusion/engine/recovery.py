"""What happens when a frame of ours fails.

In: an error of DataFusion's, and what our own scans raised. Out: our own error, or DataFusion's
own frame instead.

* The data is at fault (a corrupt page, a file that is gone or has changed): our error is raised,
  and DataFusion's is its cause.
* Anything else (a feature that a reader lacks, a bug): DataFusion's own plan runs, and the report
  says why. What then fails, fails in DataFusion's words.

DataFusion hands the text of a Python error on, not the error. So `WatchedDataset` keeps it.

Invariant: no row is given twice. A stream that has given rows is not begun again, and neither is
something that writes.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow.dataset as ds
from datafusion import RecordBatchStream

from lm_datafusion.errors import CorruptFileError, GaveUpError, LateError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, MutableSequence

    import pyarrow as pa
    from datafusion import DataFrame
    from datafusion.record_batch import RecordBatch

    from lm_datafusion.dataset import LateDataset
    from lm_datafusion.engine.parquet_table import TableName
    from lm_datafusion.metrics import ScanReport

    Instead = Callable[[Exception], DataFrame]

Answer = TypeVar("Answer")
# Errors that are the data's.
_DATA = (CorruptFileError, StorageError)


def own_error(errors: MutableSequence[Exception], error: Exception) -> LateError | None:
    """The error of ours that DataFusion's text repeats, if the data is at fault.

    Errors are taken out: their frames hold the stream that holds them, and with it open files.
    """
    text = str(error)
    found = next((e for e in list(errors) if isinstance(e, _DATA) and _is_in(e, text)), None)
    errors.clear()
    return found


def _is_in(own: LateError, text: str) -> bool:
    return str(own) in text or repr(str(own))[1:-1] in text


def attempt(
    action: Callable[[DataFrame], Answer],
    served: DataFrame,
    errors: MutableSequence[Exception],
    instead: Instead | None,
) -> Answer:
    """Runs a frame, and another one if that fails and the data is not at fault.

    Args:
        action: What is done with a frame.
        served: The frame.
        errors: What our scans raise.
        instead: Gives the other frame; None if the action cannot be repeated.

    Raises:
        LateError: The data is at fault.
    """
    try:
        return action(served)
    except Exception as error:
        own = own_error(errors, error)
        if own is not None:
            raise own from error
        if instead is None:
            raise
        other = instead(error)
    return action(other)


def watched_streams(found: Any, errors: MutableSequence[Exception], instead: Instead | None) -> Any:
    """What an action gave; streams fail as frames do."""
    if isinstance(found, RecordBatchStream):
        return WatchedStream(found, errors, instead)
    if isinstance(found, list):
        # The partitions of another frame are others.
        return [
            WatchedStream(part, errors, None) if isinstance(part, RecordBatchStream) else part
            for part in found
        ]
    return found


class WatchedStream(RecordBatchStream):
    """A stream of a frame of ours; begun again by DataFusion's own frame if the first batch fails.

    Args:
        stream: The stream.
        errors: What our scans raise.
        instead: Gives the other frame; None for one partition of several.
    """

    def __init__(
        self, stream: RecordBatchStream, errors: MutableSequence[Exception], instead: Instead | None
    ) -> None:
        super().__init__(stream.rbs)
        self._errors = errors
        self._instead = instead

    def __next__(self) -> RecordBatch:
        try:
            batch = super().__next__()
        except StopIteration:
            raise
        except Exception as error:  # noqa: BLE001 raised again, or another stream
            self._recover(error)
            batch = super().__next__()
        self._instead = None
        return batch

    async def __anext__(self) -> RecordBatch:
        try:
            batch = await super().__anext__()
        except StopAsyncIteration:
            raise
        except Exception as error:  # noqa: BLE001 raised again, or another stream
            self._recover(error)
            batch = await super().__anext__()
        self._instead = None
        return batch

    def _recover(self, error: Exception) -> None:
        own = own_error(self._errors, error)
        if own is not None:
            raise own from error
        if self._instead is None:
            raise error
        self.rbs = self._instead(error).execute_stream().rbs


def watched(
    datasets: Mapping[TableName, LateDataset],
    reports_of: Callable[[TableName], MutableSequence[ScanReport]],
    errors: MutableSequence[Exception],
    most_rows: int | None = None,
) -> dict[TableName, WatchedDataset]:
    """Datasets as DataFusion scans them, with where their reports and errors go.

    Args:
        datasets: The datasets, by table.
        reports_of: Where the reports of a table go.
        errors: Where errors go.
        most_rows: A scan that finds more rows raises `GaveUpError`.
    """
    return {
        name: WatchedDataset(dataset, reports_of(name), errors, most_rows)
        for name, dataset in datasets.items()
    }


class WatchedDataset(ds.Dataset):
    """A dataset as DataFusion scans it, which keeps what is reported and raised.

    Args:
        late: The dataset.
        reports: Where reports go; None: where the dataset's own go.
        errors: Where errors go.
        most_rows: A scan that finds more rows raises `GaveUpError`.
    """

    def __init__(
        self,
        late: LateDataset,
        reports: MutableSequence[ScanReport] | None,
        errors: MutableSequence[Exception],
        most_rows: int | None = None,
    ) -> None:
        # The base class cannot be initialised from Python.
        self._late = late if reports is None else late.with_reports(reports)
        self._watch = _Watch(errors, most_rows)
        self._applies_all = False

    def applies_all(self) -> None:
        """Says that every filter which DataFusion pushes is one that the dataset applies anyway.

        Reading a filter back from PyArrow's form takes a millisecond, three times a statement.
        """
        self._applies_all = True

    def observe(
        self, reports: MutableSequence[ScanReport], errors: MutableSequence[Exception]
    ) -> None:
        """Sends reports and errors of scans that begin from now on elsewhere."""
        self._late.report_to(reports)
        self._watch = _Watch(errors, self._watch.most_rows)

    @property
    def schema(self) -> pa.Schema:
        """Columns and types."""
        return self._late.schema

    def scanner(self, columns: Any = None, filter: Any = None, **settings: Any) -> _Scanner:  # noqa: A002 PyArrow's name
        """As the dataset's."""
        pushed = None if self._applies_all else filter
        with self._watch.errors_kept():
            return _Scanner(self._late.scanner(columns, pushed, **settings), self._watch)

    def get_fragments(self, filter: Any = None) -> Iterator[_Fragment]:  # noqa: A002 PyArrow's name
        """As the dataset's."""
        pushed = None if self._applies_all else filter
        watch = self._watch
        with watch.errors_kept():
            for fragment in self._late.get_fragments(pushed):
                yield _Fragment(fragment, watch, applies_all=self._applies_all)


class _Fragment:
    def __init__(self, fragment: Any, watch: _Watch, *, applies_all: bool) -> None:
        self._fragment = fragment
        self._watch = watch
        self._applies_all = applies_all

    def scanner(self, *arguments: Any, filter: Any = None, **settings: Any) -> _Scanner:  # noqa: A002 PyArrow's name
        pushed = None if self._applies_all else filter
        with self._watch.errors_kept():
            scanner = self._fragment.scanner(*arguments, filter=pushed, **settings)
            return _Scanner(scanner, self._watch)


class _Scanner:
    def __init__(self, scanner: Any, watch: _Watch) -> None:
        self._scanner = scanner
        self._watch = watch

    @property
    def projected_schema(self) -> pa.Schema:
        return self._scanner.projected_schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        with self._watch.errors_kept():
            for batch in self._scanner.to_batches():
                self._watch.count(batch.num_rows)
                yield batch


class _Watch:
    """The errors of one run, and how many rows its scans have found."""

    def __init__(self, errors: MutableSequence[Exception], most_rows: int | None) -> None:
        self.most_rows = most_rows
        self._errors = errors
        self._row_count = 0
        self._lock = threading.Lock()

    @contextmanager
    def errors_kept(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._errors.append(error)
            raise

    def count(self, row_count: int) -> None:
        if self.most_rows is None:
            return
        with self._lock:
            self._row_count += row_count
            if self._row_count > self.most_rows:
                raise GaveUpError(f"more than {self.most_rows:,} rows were found")
