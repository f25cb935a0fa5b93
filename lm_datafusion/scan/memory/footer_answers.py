"""Verdicts from footers, cached for later scans with the same conjuncts.

In: file versions, conjuncts, and an array that depends on nothing else. Out: the same array.

A repeated statement has the same conjuncts on the same files, and an engine plans one statement
more than once. A lookup takes microseconds, judging a conjunct about a tenth of a millisecond.

Invariant: bounded, evicts the least recently used. An array belongs to exact versions of the
files, and to conjuncts whose meaning does not change.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

from lm_datafusion.forks import hold_over_forks
from lm_datafusion.scan.memory.condition_cache import conjunct_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from lm_datafusion.predicate.conjunct import BoundConjunct
    from lm_datafusion.scan.memory.condition_cache import ConjunctKey
    from lm_datafusion.storage import FileVersion

MOST_BYTES = 8 << 20
# The Python overhead of an entry, and of each file in its key.
_ENTRY_BYTES = 600
_FILE_BYTES = 8


class Question(NamedTuple):
    """The key of a cached array."""

    kind: str
    versions: tuple[FileVersion, ...]
    conjuncts: tuple[ConjunctKey, ...]


def question(
    kind: str, versions: tuple[FileVersion, ...], conjuncts: tuple[ConjunctKey, ...] | None
) -> Question | None:
    """The key of an answer; None if the conjuncts have no lasting meaning."""
    return None if conjuncts is None else Question(kind, versions, conjuncts)


def lasting_keys(
    conjuncts: Sequence[BoundConjunct], schema: pa.Schema
) -> tuple[ConjunctKey, ...] | None:
    """The keys of conjuncts; None if the meaning of one may change."""
    keys = [
        conjunct_key(bound.conjunct, schema) if bound.conjunct.expression is None else None
        for bound in conjuncts
    ]
    known = tuple(key for key in keys if key is not None)
    return known if len(known) == len(keys) else None


class FooterAnswers:
    """Arrays by question; thread-safe."""

    def __init__(self) -> None:
        self._found: OrderedDict[Question, npt.NDArray[Any]] = OrderedDict()
        self._total_bytes = 0
        self.lock = threading.Lock()

    def find(self, asked: Question | None) -> npt.NDArray[Any] | None:
        """The answer, if it is known."""
        if asked is None:
            return None
        with self.lock:
            found = self._found.get(asked)
            if found is not None:
                self._found.move_to_end(asked)
            return found

    def keep(self, asked: Question | None, answer: npt.NDArray[Any]) -> None:
        """Keeps an answer and makes it read-only."""
        if asked is None:
            return
        answer.flags.writeable = False
        with self.lock:
            if asked not in self._found:
                self._found[asked] = answer
                self._total_bytes += _size(asked, answer)
            while self._total_bytes > MOST_BYTES:
                self._total_bytes -= _size(*self._found.popitem(last=False))

    def clear(self) -> None:
        """Forgets everything."""
        with self.lock:
            self._found.clear()
            self._total_bytes = 0

    def __len__(self) -> int:
        return len(self._found)


def _size(asked: Question, answer: npt.NDArray[Any]) -> int:
    return _ENTRY_BYTES + _FILE_BYTES * len(asked.versions) + int(answer.nbytes)


ANSWERS = FooterAnswers()
hold_over_forks(ANSWERS.lock)
