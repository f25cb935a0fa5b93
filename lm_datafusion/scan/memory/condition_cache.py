"""The condition cache: which rows met which conjuncts, as found by complete scans.

In: the rows of a row group that meet all conjuncts of a set. Out: the same, for a later scan whose
conjuncts include the set.

Dashboards repeat the same conditions. The rows found in a row group stay valid for that version of
the file, so the next scan need not read the filter columns, nor open row groups without a matching
row.

An entry belongs to a *set* of conjuncts on one version of a file: the exact rows of their
conjunction, by row group. A scan uses every entry whose set is a subset of its conjuncts: the rows
of `{a, b}` narrow a query for `a AND b AND c`, never one for `a` alone.

Why sets: a chain evaluates its second conjunct only on the rows that passed the first. The result
is exact for the conjunction, and says nothing about the second conjunct alone.

A row group shared by several threads is known once each has reported its rows (`WaitingParts`).

Invariant: an entry is exact for its version of the file; entries that do not fit are evicted,
least recently used first.
"""

from __future__ import annotations

import functools
import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from lm_datafusion.forks import hold_over_forks
from lm_datafusion.predicate.volatility import may_change
from lm_datafusion.selection import RowSelection
from lm_datafusion.selection.packed import pack

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

    from lm_datafusion.predicate.conjunct import Conjunct
    from lm_datafusion.selection.packed import PackedSelection
    from lm_datafusion.storage import FileVersion

# Longer texts (IN lists of thousands of values) are kept as a digest.
_TEXT_LIMIT = 200
# The row groups of one table may evict each other, but not everything else.
_LARGEST_SHARE = 4
# The Python overhead of an entry, and of a row group in it.
_ENTRY_BYTES = 600
_ROW_GROUP_BYTES = 200
# Partly known row groups; a scan that ended early never completes its own.
_MOST_WAITING = 64


class ConjunctKey(NamedTuple):
    """Everything that the answer of a conjunct depends on, besides the file."""

    meaning: str
    text: str
    columns: str

    def verified(self) -> ConjunctKey:
        """The key for results from pages with verified checksums."""
        return self._replace(meaning=f"{self.meaning}, verified")


ConjunctSet: TypeAlias = frozenset[ConjunctKey]
# The version of a file, conjuncts, a row group.
PartKey: TypeAlias = "tuple[FileVersion, ConjunctSet, int]"


def conjunct_key(conjunct: Conjunct, schema: pa.Schema) -> ConjunctKey | None:
    """The key of a conjunct; None if its answer must not be cached.

    Args:
        conjunct: The conjunct.
        schema: The columns it is bound to; a file's values are cast to these types first.
    """
    if conjunct.is_volatile or conjunct.is_momentary or not conjunct.columns:
        return None
    # A conjunct without text calls functions we know nothing about, such as UDFs.
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
    """Row selections by file version and set of conjuncts; thread-safe."""

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[FileVersion, ConjunctSet], _Entry] = OrderedDict()
        # Sets are indexed by their smallest member, which every superset contains, so a lookup
        # skips most sets of a file.
        self._by_member: dict[tuple[FileVersion, ConjunctKey], set[ConjunctSet]] = {}
        self._current: dict[str, FileVersion] = {}
        self._entry_counts: dict[FileVersion, int] = {}
        self._total_bytes = 0
        self.lock = threading.Lock()

    def find(
        self, version: FileVersion, conjuncts: ConjunctSet
    ) -> list[tuple[ConjunctSet, Mapping[int, PackedSelection]]]:
        """Known selections for subsets of a conjunction, by row group; large sets first."""
        with self.lock:
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
        """Caches the rows of a row group that meet all conjuncts of a set."""
        size = _ROW_GROUP_BYTES + rows.memory_bytes
        with self.lock:
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
        with self.lock:
            self._entries.clear()
            self._by_member.clear()
            self._current.clear()
            self._entry_counts.clear()
            self._total_bytes = 0

    def memory_bytes(self) -> int:
        """The approximate size of the cache."""
        return self._total_bytes

    def __len__(self) -> int:
        return len(self._entries)

    def _entry(self, version: FileVersion, conjuncts: ConjunctSet) -> _Entry:
        entry = self._entries.get((version, conjuncts))
        if entry is None:
            entry = self._entries[version, conjuncts] = _Entry()
            self._by_member.setdefault((version, min(conjuncts)), set()).add(conjuncts)
            self._entry_counts[version] = self._entry_counts.get(version, 0) + 1
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
        self._forget_path(version)

    def _forget_path(self, version: FileVersion) -> None:
        """Drops the path of a version without entries, or paths of deleted files would pile up."""
        self._entry_counts[version] -= 1
        if not self._entry_counts[version]:
            del self._entry_counts[version]
            if self._current.get(version.path) == version:
                del self._current[version.path]

    def _drop_stale(self, version: FileVersion) -> None:
        """Drops the entries of the file's previous version."""
        stale = self._current.get(version.path)
        if stale is None or stale == version:
            return
        del self._current[version.path]
        for known in [key for key in self._entries if key[0] == stale]:
            self._drop(*known)


class WaitingParts:
    """Row groups that scans have covered in part so far; thread-safe."""

    def __init__(self) -> None:
        self._parts: OrderedDict[PartKey, list[tuple[int, int, PackedSelection]]] = OrderedDict()
        self.lock = threading.Lock()

    def put(
        self, key: PartKey, part: tuple[int, int], rows: PackedSelection
    ) -> PackedSelection | None:
        """Adds the matching rows of a range.

        Returns:
            The matching rows of the whole row group once every range is known; else None.
        """
        with self.lock:
            parts = self._parts.setdefault(key, [])
            parts.append((*part, rows))
            self._parts.move_to_end(key)
            selections = [found.unpack() for _, _, found in parts]
            if _reach(parts) < selections[0].total_rows:
                while len(self._parts) > _MOST_WAITING:
                    self._parts.popitem(last=False)
                return None
            del self._parts[key]
        return pack(functools.reduce(RowSelection.union, selections))

    def clear(self) -> None:
        """Forgets everything."""
        with self.lock:
            self._parts.clear()

    def __len__(self) -> int:
        return len(self._parts)


def _reach(parts: Iterable[tuple[int, int, PackedSelection]]) -> int:
    """The first row that no range covers."""
    end = 0
    for start, stop, _ in sorted(parts, key=lambda part: part[0]):
        if start <= end:
            end = max(end, stop)
    return end


CONDITIONS = ConditionCache()
PARTS = WaitingParts()
hold_over_forks(CONDITIONS.lock)
hold_over_forks(PARTS.lock)


def condition_cache_bytes() -> int:
    """The approximate memory of the condition cache of this process."""
    return CONDITIONS.memory_bytes()


def clear_condition_cache() -> None:
    """Forgets which rows met which conditions."""
    CONDITIONS.clear()
    PARTS.clear()
