"""The condition cache: which rows met which conjuncts, from scans that looked at them all.

In: the rows of a row group that meet all of some conjuncts. Out: the same, to a later scan whose
conjuncts include those.

Dashboards ask the same conditions again and again. What a scan found out about a row group of a
file version stays true for that version, so the next scan need not read the filter's columns, and
row groups without a matching row need not be opened.

An entry is about a *set* of conjuncts on one version of a file: an exact answer to their
conjunction, by row group. A scan uses every entry whose set is part of what it asks: the rows of
`{a, b}` narrow a query for `a AND b AND c`, never one for `a` alone.

Why sets: a chain evaluates its second conjunct only on the rows that the first let through. What
it learns is exact about the conjunction, and says nothing about the second conjunct alone.

Invariant: an entry is exact for its version of the file; what does not fit is dropped, least
recently used first.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from lm_datafusion.predicate.volatility import may_change

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from lm_datafusion.predicate.conjunct import Conjunct
    from lm_datafusion.selection.packed import PackedSelection
    from lm_datafusion.storage import FileVersion

# Longer texts (lists of thousands of values) are kept as a digest.
_TEXT_LIMIT = 200
# One table's row groups may push each other out, but not everything else.
_LARGEST_SHARE = 4
# What the objects of an entry, and of a row group in it, take in Python.
_ENTRY_BYTES = 600
_ROW_GROUP_BYTES = 200


class ConjunctKey(NamedTuple):
    """All that the answer of a conjunct depends on, beside the file."""

    meaning: str
    text: str
    columns: str


ConjunctSet: TypeAlias = frozenset[ConjunctKey]


def conjunct_key(conjunct: Conjunct, schema: pa.Schema) -> ConjunctKey | None:
    """The key of a conjunct; None if its answer is not to be kept.

    Args:
        conjunct: The conjunct.
        schema: The columns it is bound to: a file's values are cast to these types first.
    """
    if conjunct.is_volatile or conjunct.is_momentary or not conjunct.columns:
        return None
    # Without a text it holds functions that we know nothing about, a user's own among them.
    if not conjunct.text or may_change(conjunct.text):
        return None
    text = conjunct.text
    if len(text) > _TEXT_LIMIT:
        text = hashlib.sha256(text.encode()).hexdigest()
    meaning = "datafusion" if conjunct.expression is None else "pyarrow"
    columns = "; ".join(str(schema.field(name)) for name in sorted(conjunct.columns))
    return ConjunctKey(meaning, text, columns)


@dataclass(slots=True)
class _Entry:
    row_groups: dict[int, PackedSelection] = field(default_factory=dict)
    size_bytes: int = _ENTRY_BYTES


class ConditionCache:
    """Row selections by file version and set of conjuncts; safe to share between threads."""

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[FileVersion, ConjunctSet], _Entry] = OrderedDict()
        # A set is found by its smallest member: a part of a query's conjuncts has it in common
        # with them, and most sets of a file need not be looked at.
        self._by_member: dict[tuple[FileVersion, ConjunctKey], set[ConjunctSet]] = {}
        self._current: dict[str, FileVersion] = {}
        self._total_bytes = 0
        self._lock = threading.Lock()

    def find(
        self, version: FileVersion, conjuncts: ConjunctSet
    ) -> list[tuple[ConjunctSet, Mapping[int, PackedSelection]]]:
        """What is known about parts of a conjunction: selections by row group, large sets first."""
        with self._lock:
            self._drop_stale(version)
            sets = [
                found
                for member in conjuncts
                for found in self._by_member.get((version, member), ())
                if found <= conjuncts
            ]
            for found in sets:
                self._entries.move_to_end((version, found))
            sets.sort(key=len, reverse=True)
            return [(found, self._entries[version, found].row_groups) for found in sets]

    def put(
        self,
        version: FileVersion,
        conjuncts: ConjunctSet,
        row_group: int,
        rows: PackedSelection,
        *,
        limit_bytes: int,
    ) -> None:
        """Keeps the rows of a row group that meet all of some conjuncts."""
        size = _ROW_GROUP_BYTES + rows.memory_bytes
        with self._lock:
            self._drop_stale(version)
            self._current[version.path] = version
            entry = self._entry(version, conjuncts)
            is_known = row_group in entry.row_groups
            if not is_known and (entry.size_bytes + size) * _LARGEST_SHARE <= limit_bytes:
                entry.row_groups[row_group] = rows
                entry.size_bytes += size
                self._total_bytes += size
            if not entry.row_groups:
                self._drop(version, conjuncts)
            while self._total_bytes > limit_bytes and self._entries:
                self._drop(*next(iter(self._entries)))

    def clear(self) -> None:
        """Forgets everything."""
        with self._lock:
            self._entries.clear()
            self._by_member.clear()
            self._current.clear()
            self._total_bytes = 0

    def memory_bytes(self) -> int:
        """Roughly what the cache holds."""
        return self._total_bytes

    def __len__(self) -> int:
        return len(self._entries)

    def _entry(self, version: FileVersion, conjuncts: ConjunctSet) -> _Entry:
        entry = self._entries.get((version, conjuncts))
        if entry is None:
            entry = self._entries[version, conjuncts] = _Entry()
            self._by_member.setdefault((version, min(conjuncts)), set()).add(conjuncts)
            self._total_bytes += entry.size_bytes
        self._entries.move_to_end((version, conjuncts))
        return entry

    def _drop(self, version: FileVersion, conjuncts: ConjunctSet) -> None:
        entry = self._entries.pop((version, conjuncts))
        self._total_bytes -= entry.size_bytes
        sets = self._by_member[version, min(conjuncts)]
        sets.discard(conjuncts)
        if not sets:
            del self._by_member[version, min(conjuncts)]

    def _drop_stale(self, version: FileVersion) -> None:
        """Drops what was known about the file before it changed."""
        stale = self._current.get(version.path)
        if stale is None or stale == version:
            return
        del self._current[version.path]
        for known in [key for key in self._entries if key[0] == stale]:
            self._drop(*known)


CONDITIONS = ConditionCache()


def condition_cache_bytes() -> int:
    """Roughly the memory that the condition cache of this process holds."""
    return CONDITIONS.memory_bytes()


def clear_condition_cache() -> None:
    """Forgets which rows met which conditions."""
    CONDITIONS.clear()
