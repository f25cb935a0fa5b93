"""What filter steps took in earlier scans: where the learned order of the next one starts.

In: rows, dropped rows and seconds of each conjunct of a scan. Out: the same, to a later scan of
one of the same files.

The files of a table are alike, so what a scan measured is kept for all of its files, and asked
of any: a scan takes the first of its files that has an answer. Only the first few of a plan's
files stand for it, for a measurement is advice and need not be complete.

Invariant: bounded; of another version of a file nothing is known. It changes the order of filter
steps and which reader is chosen, never which rows are left.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lm_datafusion.scan.memory.condition_cache import conjunct_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lm_datafusion.plan import ReadPlan
    from lm_datafusion.scan.memory.condition_cache import ConjunctKey
    from lm_datafusion.storage import FileVersion

# Of about 300 bytes each.
_MOST_ENTRIES = 4096
_FILES_ASKED = 8
# Fewer rows measure the call, not the step.
FEWEST_ROWS = 10_000
# What was measured before counts as much as so many rows that are measured now.
_RECALLED_ROWS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What evaluating a conjunct took.

    Attributes:
        rows_in: Rows it was evaluated on.
        rows_dropped: Those of them that failed.
        rows_decoded: Rows of its columns that were decoded for it: pages are decoded whole, so a
            step that comes late is evaluated on few rows and decodes many.
        decode_s: What that took.
        evaluate_s: What evaluating took, beyond what a call takes in any case.
    """

    rows_in: int = 0
    rows_dropped: int = 0
    rows_decoded: int = 0
    decode_s: float = 0.0
    evaluate_s: float = 0.0

    @property
    def kept_share(self) -> float:
        """The share of rows that it left."""
        return 1.0 - self.rows_dropped / max(1, self.rows_in)

    @property
    def cost(self) -> float:
        """Seconds per dropped row, if every row were looked at."""
        # One row that could have been dropped, so that a step that drops nothing has a cost.
        dropped_share = (self.rows_dropped + 1) / (self.rows_in + 1)
        decode_s = self.decode_s / max(1, self.rows_decoded)
        return (decode_s + self.evaluate_s / max(1, self.rows_in)) / dropped_share

    def plus(self, other: Measured) -> Measured:
        """Both together."""
        return Measured(
            rows_in=self.rows_in + other.rows_in,
            rows_dropped=self.rows_dropped + other.rows_dropped,
            rows_decoded=self.rows_decoded + other.rows_decoded,
            decode_s=self.decode_s + other.decode_s,
            evaluate_s=self.evaluate_s + other.evaluate_s,
        )

    def faded(self) -> Measured:
        """The same rates, over no more rows than an old measurement counts for."""
        share = min(1.0, _RECALLED_ROWS / max(1, self.rows_in))
        return Measured(
            rows_in=int(self.rows_in * share),
            rows_dropped=int(self.rows_dropped * share),
            rows_decoded=int(self.rows_decoded * share),
            decode_s=self.decode_s * share,
            evaluate_s=self.evaluate_s * share,
        )


class StepHistory:
    """Measurements by file version and conjunct; safe to share between threads."""

    def __init__(self) -> None:
        self._measured: OrderedDict[tuple[FileVersion, ConjunctKey], Measured] = OrderedDict()
        self._lock = threading.Lock()

    def recall(
        self, versions: Iterable[FileVersion], keys: Mapping[int, ConjunctKey]
    ) -> dict[int, Measured]:
        """What is known of some conjuncts in any of some files."""
        asked = list(itertools.islice(versions, _FILES_ASKED))
        found = {}
        with self._lock:
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
        """Keeps what a scan of some files has measured."""
        worth = {i: m for i, m in measured.items() if i in keys and m.rows_in >= FEWEST_ROWS}
        with self._lock:
            for version in itertools.islice(versions, _FILES_ASKED):
                for index, found in worth.items():
                    self._measured[version, keys[index]] = found
                    self._measured.move_to_end((version, keys[index]))
            while len(self._measured) > _MOST_ENTRIES:
                self._measured.popitem(last=False)

    def clear(self) -> None:
        """Forgets everything."""
        with self._lock:
            self._measured.clear()

    def __len__(self) -> int:
        return len(self._measured)


def step_keys(plan: ReadPlan) -> dict[int, ConjunctKey]:
    """By step: under which name what it took is kept."""
    steps = plan.row_filter.steps
    keys = {s.index: conjunct_key(s.conjunct.conjunct, plan.filter_schema) for s in steps}
    return {index: key for index, key in keys.items() if key is not None}


def file_versions(plan: ReadPlan) -> list[FileVersion]:
    """The files of a plan, each once, in the plan's order."""
    return list(dict.fromkeys(task.file.version for task in plan.tasks))


STEPS = StepHistory()
