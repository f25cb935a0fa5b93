"""What happens when a frame of ours fails.

In: an error of DataFusion's, and what our own scans raised. Out: our own error, or DataFusion's
own frame instead.

* The data is at fault (a corrupt page, a file that is gone or has changed): our error is raised,
  and DataFusion's is its cause.
* Anything else (a feature that a reader lacks, a bug): DataFusion's own plan runs, and the report
  says why. What then fails, fails in DataFusion's words.

Invariant: no row is given twice. A stream that has given rows is not begun again, and neither is
something that writes.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

from datafusion import RecordBatchStream

from lm_datafusion.errors import CorruptFileError, LateError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, MutableSequence

    from datafusion import DataFrame
    from datafusion.record_batch import RecordBatch

    Instead = Callable[[Exception], DataFrame]

Answer = TypeVar("Answer")
# Errors that are the data's.
DATA_ERRORS = (CorruptFileError, StorageError)


def attempt(
    action: Callable[[DataFrame], Answer],
    served: DataFrame,
    errors: MutableSequence[Exception],
    instead: Instead | None,
) -> Answer:
    """Does something with a frame; with another one if that fails and the data is not at fault.

    Args:
        action: What is done.
        served: The frame.
        errors: What our scans raise.
        instead: Gives the other frame; None if the action cannot be repeated.
    """
    try:
        return action(served)
    except Exception as error:  # noqa: BLE001 raised again, or another frame
        other = _other_frame(error, errors, instead)
    return action(other)


def _other_frame(
    error: Exception, errors: MutableSequence[Exception], instead: Instead | None
) -> DataFrame:
    """The frame that runs after an error; or raises that, or the error of ours in its text.

    Errors of ours are taken out: their frames hold the stream that holds them, and with it open
    files. Those of other threads are left to them.
    """
    text = str(error)
    found = [e for e in list(errors) if isinstance(e, DATA_ERRORS) and _is_in(e, text)]
    if found:
        with contextlib.suppress(ValueError):
            errors.remove(found[0])
        raise found[0] from error
    errors.clear()
    if instead is None:
        raise error
    return instead(error)


def _is_in(own: LateError, text: str) -> bool:
    return str(own) in text or repr(str(own))[1:-1] in text


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
    """A stream of a frame of ours; begun again on another frame if the first batch fails."""

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
            self._begin_again(error)
            batch = super().__next__()
        self._instead = None
        return batch

    async def __anext__(self) -> RecordBatch:
        try:
            batch = await super().__anext__()
        except StopAsyncIteration:
            raise
        except Exception as error:  # noqa: BLE001 raised again, or another stream
            self._begin_again(error)
            batch = await super().__anext__()
        self._instead = None
        return batch

    def _begin_again(self, error: Exception) -> None:
        self.rbs = _other_frame(error, self._errors, self._instead).execute_stream().rbs
