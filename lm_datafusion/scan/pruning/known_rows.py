"""Applies the condition cache to row groups, and fills it.

In: row groups before they are read; the selections of their windows after. Out: narrower access;
cache entries.

1. Planning drops the row groups in which a subset of the conjuncts is known to match no row.
2. Before a row group is read, known selections narrow it and decide their conjuncts.
3. After its last window, two selections are kept: that of the whole conjunction, and that of the
   step evaluated first, the only step that saw every row.

Invariant: only exact selections are kept. Rows ruled out before the first step say nothing about
that step, unless its own conjunct ruled them out; a scan that stops early, or that is restricted to
some rows, keeps nothing about the row groups it did not finish.
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lm_datafusion.scan.memory.condition_cache import CONDITIONS, PARTS, conjunct_key
from lm_datafusion.selection import RowSelection
from lm_datafusion.selection.packed import pack

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lm_datafusion.plan import FilePlan, ReadPlan, RowGroupAccess
    from lm_datafusion.predicate.conjunct import BoundConjunct
    from lm_datafusion.scan.memory.condition_cache import ConjunctKey
    from lm_datafusion.scan.pruning.prune import PruningContext
    from lm_datafusion.selection.packed import PackedSelection

    Found = tuple[frozenset[int], Mapping[int, PackedSelection]]


def condition_keys(
    conjuncts: Sequence[BoundConjunct], file: FilePlan, schema: pa.Schema, *, is_verified: bool
) -> list[ConjunctKey | None]:
    """A key per conjunct; None for those that must not be cached for this file.

    A column that the file does not store has its value from elsewhere, such as a folder name, so a
    conjunct on it is not a fact of the file. If several conjuncts use one floating point column,
    pruning relies on all of them to rule out NaN, so its verdict about one is no fact either. A
    scan that verifies checksums trusts nothing that was read without verification.
    """
    named = Counter(name for conjunct in conjuncts for name in set(conjunct.columns))

    def is_fact_of_file(name: str) -> bool:
        is_shared = named[name] > 1 and _has_floats(schema.field(name).type)
        return name in file.columns and not is_shared

    keys = [
        conjunct_key(conjunct.conjunct, schema)
        if all(map(is_fact_of_file, conjunct.columns))
        else None
        for conjunct in conjuncts
    ]
    return [key.verified() if key is not None and is_verified else key for key in keys]


def _has_floats(data_type: pa.DataType) -> bool:
    """Whether a type is floating point or contains such a type."""
    fields = [data_type.field(i).type for i in range(data_type.num_fields)]
    return bool(pa.types.is_floating(data_type)) or any(map(_has_floats, fields))


def _find(keys: Sequence[ConjunctKey | None], file: FilePlan) -> list[Found]:
    """Known selections by row group with the conjuncts they decide; large sets first."""
    wanted = frozenset(key for key in keys if key is not None)
    if not wanted:
        return []
    return [
        (frozenset(index for index, key in enumerate(keys) if key in members), row_groups)
        for members, row_groups in CONDITIONS.find(file.version, wanted)
    ]


def prune_by_condition_cache(
    accesses: list[RowGroupAccess], context: PruningContext
) -> list[RowGroupAccess]:
    """Drops the row groups in which a subset of the conjuncts is known to match no row."""
    if not context.options.condition_cache_bytes or not any(not a.is_skipped for a in accesses):
        return accesses
    found = _find(context.keys, context.file_plan)
    if not found:
        return accesses
    return [
        _without_known_empty(access, found, context) if not access.is_skipped else access
        for access in accesses
    ]


def _without_known_empty(
    access: RowGroupAccess, found: Sequence[Found], context: PruningContext
) -> RowGroupAccess:
    for members, row_groups in found:
        rows = row_groups.get(access.row_group)
        if rows is not None and not rows.row_count:
            context.metrics.add(
                row_groups_pruned_condition_cache=1,
                condition_cache_hits=1,
                condition_cache_rows=access.row_count,
            )
            return access.with_known_rows(members, rows.unpack())
    return access


class PassedRows:
    """The rows that passed in the windows of a scan, and those that passed the first step."""

    def __init__(self) -> None:
        self._windows: list[RowSelection] = []
        self._after_first: list[RowSelection] = []
        self._rows_seen = 0
        self.first_steps: set[int] = set()

    def note_first_step(self, conjunct: int, selection: RowSelection) -> None:
        """Records the rows that passed the first step evaluated in a window."""
        self.first_steps.add(conjunct)
        self._after_first.append(selection)

    def note_window(self, selection: RowSelection, row_count: int) -> None:
        """Records the rows that passed all conjuncts in a window of `row_count` rows."""
        self._windows.append(selection)
        self._rows_seen += row_count
        if len(self._after_first) < len(self._windows):
            # No step was evaluated: the remaining rows meet every conjunct.
            self._after_first.append(selection)

    def of_all(self, selection: RowSelection) -> tuple[RowSelection, RowSelection] | None:
        """Rows that passed the first step, and all steps; None unless every row was tested."""
        if self._rows_seen != selection.row_count:
            return None  # the scan stopped early
        return _union(self._after_first), _union(self._windows)


class KnownRows:
    """Connects the scan of one row group to the condition cache."""

    def __init__(
        self,
        access: RowGroupAccess,
        context: PruningContext,
        part: tuple[int, int] | None = None,
    ) -> None:
        """Prepares.

        Args:
            access: The row group.
            context: The file and the conjuncts.
            part: The range of its rows that is scanned; None for all. The cache holds whole row
                groups: it learns from parts once it has them all.
        """
        self._access = access
        self._context = context
        self._part = part
        self._keys: list[ConjunctKey | None] = []
        self._decided: set[int] = set()
        self.is_kept = False  # whether the cache learns from the row group
        # Rows outside the selection at this point were not ruled out by a conjunct.
        is_whole = access.selection.selects_all()
        if context.options.condition_cache_bytes and is_whole and not access.is_fully_matched:
            self._keys = context.keys
            self.is_kept = any(key is not None for key in self._keys)
        self._row_count = access.row_count if part is None else part[1] - part[0]

    def narrowed(self) -> RowGroupAccess:
        """The access without the rows known to fail and the conjuncts known to hold."""
        access = self._access
        found = _find(self._keys, self._context.file_plan) if self._keys else []
        for members, row_groups in found:
            rows = row_groups.get(access.row_group)
            if rows is not None and any(access.is_undecided(index) for index in members):
                access = access.with_known_rows(members, rows.unpack())
                self._decided |= members
                # All conjuncts are known at once: there is nothing left to learn.
                self.is_kept &= not members.issuperset(self._asked())
        if access is not self._access:
            counts = {"condition_cache_hits": 1, "condition_cache_rows": self._row_count}
            self._context.metrics.add(**counts)
        return access

    @property
    def is_known(self) -> bool:
        """Whether the cache narrowed the row group and cannot learn more from it."""
        return bool(self._decided) and not self.is_kept

    def is_decided(self, conjunct: int) -> bool:
        """Whether the cache decided a conjunct."""
        return conjunct in self._decided

    def keep_pruned(self, access: RowGroupAccess) -> None:
        """Caches that pruning left no row."""
        if self.is_kept:
            self._put(access.narrowed_by, RowSelection.none(access.row_count))

    def keep(
        self,
        access: RowGroupAccess,
        *,
        first_steps: set[int],
        after_first: RowSelection,
        passed: RowSelection,
    ) -> None:
        """Caches the outcome; call it after the last window.

        Args:
            access: The row group as it was when its first window was read.
            first_steps: The conjuncts that windows evaluated first.
            after_first: The rows that met those.
            passed: The rows that met all.
        """
        if not self.is_kept:
            return
        asked = set(self._asked())
        is_first_known = len(first_steps) == 1 and access.narrowed_by <= first_steps
        if is_first_known and first_steps < asked:
            self._put(first_steps, after_first)
            if not after_first.selects_any():
                return  # then nothing passes all
        self._put(asked, passed)

    def _asked(self) -> list[int]:
        """The conjuncts, without those that statistics prove for the whole row group."""
        return [n for n in range(len(self._keys)) if self._access.is_undecided(n)]

    def _put(self, conjuncts: Iterable[int], rows: RowSelection) -> None:
        keys = [self._keys[index] for index in conjuncts]
        members = frozenset(key for key in keys if key is not None)
        if not members or None in keys:
            return
        version, row_group = self._context.file_plan.version, self._access.row_group
        packed: PackedSelection | None = pack(rows)
        if packed is not None and self._part is not None:
            packed = PARTS.put((version, members, row_group), self._part, packed)
        if packed is not None:
            limit_bytes = self._context.options.condition_cache_bytes
            CONDITIONS.put(version, members, row_group, packed, limit_bytes=limit_bytes)


def _union(parts: Sequence[RowSelection]) -> RowSelection:
    return functools.reduce(RowSelection.union, parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedShare:
    """How much of a plan the condition cache can answer.

    Attributes:
        row_groups: Row groups that statistics did not rule out.
        row_groups_known: Those in which every conjunct is cached or decided.
        rows_known: The most rows that those yield.
    """

    row_groups: int
    row_groups_known: int
    rows_known: int

    @property
    def share(self) -> float:
        """The share of the row groups that is known; 1 if there are none."""
        return self.row_groups_known / self.row_groups if self.row_groups else 1.0


def cached_share(plan: ReadPlan) -> CachedShare:
    """Looks up how much of a plan the condition cache answers; reads and evaluates nothing."""
    steps = sorted(plan.row_filter.steps, key=lambda step: step.index)
    conjuncts = [step.conjunct for step in steps]
    found: dict[int, list[Found]] = {}
    known = rows = 0
    for task in plan.tasks:
        file = task.file
        if file.index not in found and plan.options.condition_cache_bytes:
            is_verified = plan.options.verify_checksums
            keys = condition_keys(conjuncts, file, plan.filter_schema, is_verified=is_verified)
            found[file.index] = _find(keys, file)
        count = _known_row_count(task.access, found.get(file.index, []))
        if count is not None:
            known, rows = known + 1, rows + count
    return CachedShare(row_groups=len(plan.tasks), row_groups_known=known, rows_known=rows)


def _known_row_count(access: RowGroupAccess, found: Sequence[Found]) -> int | None:
    """The most rows that can meet every conjunct; None if one is not known."""
    count = access.selection.row_count
    waiting = {index for index in range(len(access.undecided)) if access.is_undecided(index)}
    for members, row_groups in found:
        rows = row_groups.get(access.row_group)
        if rows is not None and waiting & members:
            waiting -= members
            count = min(count, rows.row_count)
    return None if waiting else count
