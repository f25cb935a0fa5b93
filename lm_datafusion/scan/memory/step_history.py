"""The cost of filter steps in earlier scans: the starting point of the learned order.

In: rows, dropped rows and seconds of each conjunct of a scan. Out: the same, for a later scan of
one of the same files.

The files of a table are alike, so a measurement is kept for all files of a scan, and a scan uses
the first of its files that has one. Only the first few files of a plan are used: a measurement is
advice and need not be complete.

Invariant: bounded; a measurement belongs to one version of a file. It affects the order of filter
steps and the choice of the reader, never which rows match.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lm_datafusion.forks import hold_over_forks
from lm_datafusion.scan.memory.condition_cache import conjunct_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lm_datafusion.plan import ReadPlan
    from lm_datafusion.scan.memory.condition_cache import ConjunctKey
    from lm_datafusion.storage import FileVersion

# About 300 bytes each.
_MOST_ENTRIES = 4096
_FILES_ASKED = 8
# Fewer rows measure the call, not the step.
FEWEST_ROWS = 10_000
# An earlier measurement weighs as much as this many rows measured now.
_RECALLED_ROWS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The measured cost of a conjunct.

    Attributes:
        rows_in: Rows it was evaluated on.
        rows_dropped: Rows that failed it.
        rows_decoded: Rows of its columns that were decoded for it: pages are decoded whole, so a
            late step is evaluated on few rows and decodes many.
        decode_s: Time to decode them.
        evaluate_s: Time to evaluate, without the fixed cost of a call.
    """

    rows_in: int = 0
    rows_dropped: int = 0
    rows_decoded: int = 0
    decode_s: float = 0.0
    evaluate_s: float = 0.0

    @property
    def kept_share(self) -> float:
        """The share of rows that it kept."""
        return 1.0 - self.rows_dropped / max(1, self.rows_in)

    @property
    def cost(self) -> float:
        """Seconds per dropped row, if it were evaluated on every row."""
        # One more dropped row, so that a step that drops nothing has a finite cost.
        dropped_share = (self.rows_dropped + 1) / (self.rows_in + 1)
        decode_s = self.decode_s / max(1, self.rows_decoded)
        return (decode_s + self.evaluate_s / max(1, self.rows_in)) / dropped_share

    def plus(self, other: Measured) -> Measured:
        """The sum of both."""
        return Measured(
            rows_in=self.rows_in + other.rows_in,
            rows_dropped=self.rows_dropped + other.rows_dropped,
            rows_decoded=self.rows_decoded + other.rows_decoded,
            decode_s=self.decode_s + other.decode_s,
            evaluate_s=self.evaluate_s + other.evaluate_s,
        )

    def faded(self) -> Measured:
        """The same rates, weighted as an earlier measurement."""
        share = min(1.0, _RECALLED_ROWS / max(1, self.rows_in))
        return Measured(
            rows_in=int(self.rows_in * share),
            rows_dropped=int(self.rows_dropped * share),
            rows_decoded=int(self.rows_decoded * share),
            decode_s=self.decode_s * share,
            evaluate_s=self.evaluate_s * share,
        )


class StepHistory:
    """Measurements by file version and conjunct; thread-safe."""

    def __init__(self) -> None:
        self._measured: OrderedDict[tuple[FileVersion, ConjunctKey], Measured] = OrderedDict()
        self.lock = threading.Lock()

    def recall(
        self, versions: Iterable[FileVersion], keys: Mapping[int, ConjunctKey]
    ) -> dict[int, Measured]:
        """Known measurements of conjuncts in any of the files."""
        asked = list(itertools.islice(versions, _FILES_ASKED))
        found = {}
        with self.lock:
            for index, key in keys.items():
                for version in asked:
                    measured = self._measured.get((version, key))
                    if measured is not None:
                        self._measured.move_to_end((version, key))
                        found[index] = measured.faded()
                        break
        return found

    def keep(
        self,
        versions: Iterable[FileVersion],
        keys: Mapping[int, ConjunctKey],
        measured: Mapping[int, Measured],
    ) -> None:
        """Keeps the measurements of a scan of some files."""
        worth = {i: m for i, m in measured.items() if i in keys and m.rows_in >= FEWEST_ROWS}
        with self.lock:
            for version in itertools.islice(versions, _FILES_ASKED):
                for index, found in worth.items():
                    self._measured[version, keys[index]] = found
                    self._measured.move_to_end((version, keys[index]))
            while len(self._measured) > _MOST_ENTRIES:
                self._measured.popitem(last=False)

    def clear(self) -> None:
        """Forgets everything."""
        with self.lock:
            self._measured.clear()

    def __len__(self) -> int:
        return len(self._measured)


def step_keys(plan: ReadPlan) -> dict[int, ConjunctKey]:
    """By step: the key of its measurement."""
    steps = plan.row_filter.steps
    keys = {s.index: conjunct_key(s.conjunct.conjunct, plan.filter_schema) for s in steps}
    return {index: key for index, key in keys.items() if key is not None}


def file_versions(plan: ReadPlan) -> list[FileVersion]:
    """The files of a plan, without repeats, in plan order."""
    return list(dict.fromkeys(task.file.version for task in plan.tasks))


STEPS = StepHistory()
hold_over_forks(STEPS.lock)
