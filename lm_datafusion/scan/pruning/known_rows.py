"""What the condition cache knows about row groups, and what a scan teaches it.

In: row groups before they are read; the selections of their windows after. Out: narrower access;
entries of the cache.

1. Planning leaves out the row groups in which a part of the conjunction has no row.
2. Before a row group is read, the selections that are known narrow it and decide their conjuncts.
3. After its last window, two selections are kept: that of the whole conjunction, and that of the
   step that was evaluated first, which alone of all steps saw every row.

Invariant: only what is exact is kept. Rows that some conjunct ruled out before the first step
tell nothing about that step, unless it was the step's own conjunct; a scan that stops early, or
that is about chosen rows, keeps nothing of the row groups it did not finish.
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lm_datafusion.scan.memory.condition_cache import CONDITIONS, conjunct_key
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
    conjuncts: Sequence[BoundConjunct], file: FilePlan, schema: pa.Schema
) -> list[ConjunctKey | None]:
    """A key per conjunct; None for those that are not to be cached in this file.

    A column that the file does not store has its value from elsewhere, a folder's name perhaps:
    what a conjunct says about it is not a fact of the file. Where several conjuncts are about one
    floating point column, pruning relies on all of them to rule NaN out: what it says about one
    is no fact either.
    """
    named = Counter(name for conjunct in conjuncts for name in set(conjunct.columns))

    def is_own_fact(name: str) -> bool:
        is_shared = named[name] > 1 and _has_floats(schema.field(name).type)
        return name in file.columns and not is_shared

    return [
        conjunct_key(conjunct.conjunct, schema) if all(map(is_own_fact, conjunct.columns)) else None
        for conjunct in conjuncts
    ]


def _has_floats(data_type: pa.DataType) -> bool:
    """Whether values are floating point numbers, or have some in them."""
    fields = [data_type.field(i).type for i in range(data_type.num_fields)]
    return bool(pa.types.is_floating(data_type)) or any(map(_has_floats, fields))


def _find(keys: Sequence[ConjunctKey | None], file: FilePlan) -> list[Found]:
    """Known selections by row group, each with the conjuncts it decides; many conjuncts first."""
    wanted = frozenset(key for key in keys if key is not None)
    if not wanted:
        return []
    return [
        (frozenset(place for place, key in enumerate(keys) if key in members), row_groups)
        for members, row_groups in CONDITIONS.find(file.version, wanted)
    ]


def prune_by_condition_cache(
    accesses: list[RowGroupAccess], context: PruningContext
) -> list[RowGroupAccess]:
    """Leaves out the row groups in which a part of the conjunction is known to have no row."""
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
    """What the windows of a scan have left, and what the first step of each has."""

    def __init__(self) -> None:
        self._windows: list[RowSelection] = []
        self._after_first: list[RowSelection] = []
        self._rows_seen = 0
        self.first_steps: set[int] = set()

    def note_first_step(self, conjunct: int, selection: RowSelection) -> None:
        """What the first step that a window evaluated has left of the window."""
        self.first_steps.add(conjunct)
        self._after_first.append(selection)

    def note_window(self, selection: RowSelection, row_count: int) -> None:
        """What all conjuncts have left of a window of so many rows."""
        self._windows.append(selection)
        self._rows_seen += row_count
        if len(self._after_first) < len(self._windows):
            # No step was evaluated: the rows left meet every conjunct.
            self._after_first.append(selection)

    def of_all(self, selection: RowSelection) -> tuple[RowSelection, RowSelection] | None:
        """Rows that passed the first step, and all; None unless every selected row was asked."""
        if self._rows_seen != selection.row_count:
            return None  # someone had enough
        return _union(self._after_first), _union(self._windows)


class KnownRows:
    """One row group between the condition cache and its scan."""

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
            part: The range of its rows that is scanned; None for all. The cache knows whole row
                groups, so that it learns nothing from a part.
        """
        self._access = access
        self._context = context
        self._keys: list[ConjunctKey | None] = []
        self._decided: set[int] = set()
        self.is_kept = False  # whether the cache is to learn from the row group
        # What lies outside the selection by now was not ruled out by a conjunct.
        is_whole = access.selection.selects_all()
        if context.options.condition_cache_bytes and is_whole and not access.is_fully_matched:
            self._keys = context.keys
            self.is_kept = part is None and any(key is not None for key in self._keys)
        self._row_count = access.row_count if part is None else part[1] - part[0]

    def narrowed(self) -> RowGroupAccess:
        """The access, without the rows that are known to fail and the conjuncts that are known."""
        access = self._access
        found = _find(self._keys, self._context.file_plan) if self._keys else []
        for members, row_groups in found:
            rows = row_groups.get(access.row_group)
            if rows is not None and any(access.is_undecided(place) for place in members):
                access = access.with_known_rows(members, rows.unpack())
                self._decided |= members
        if access is not self._access:
            counts = {"condition_cache_hits": 1, "condition_cache_rows": self._row_count}
            self._context.metrics.add(**counts)
        return access

    def is_decided(self, conjunct: int) -> bool:
        """Whether the cache decided a conjunct."""
        return conjunct in self._decided

    def keep_pruned(self, access: RowGroupAccess) -> None:
        """Teaches the cache that pruning left no row."""
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
        """Teaches the cache what was learned. To be called after the last window.

        Args:
            access: The row group as it was when its first window was read.
            first_steps: The conjuncts that windows evaluated first.
            after_first: The rows that met those.
            passed: The rows that met all.
        """
        if not self.is_kept:
            return
        # Those that hold in the whole row group by its statistics add nothing.
        asked = [n for n in range(len(self._keys)) if self._access.is_undecided(n)]
        is_first_known = len(first_steps) == 1 and access.narrowed_by <= first_steps
        if is_first_known and first_steps <= set(asked):
            self._put(first_steps, after_first)
            if not after_first.selects_any():
                return  # which says it all
        self._put(asked, passed)

    def _put(self, conjuncts: Iterable[int], rows: RowSelection) -> None:
        keys = [self._keys[place] for place in conjuncts]
        members = frozenset(key for key in keys if key is not None)
        if not members or None in keys:
            return
        CONDITIONS.put(
            self._context.file_plan.version,
            members,
            self._access.row_group,
            pack(rows),
            limit_bytes=self._context.options.condition_cache_bytes,
        )


def _union(parts: Sequence[RowSelection]) -> RowSelection:
    return functools.reduce(RowSelection.union, parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedShare:
    """How much of a plan the condition cache can answer.

    Attributes:
        row_groups: Row groups that statistics left over.
        row_groups_known: Those in which every conjunct is known, or none is left to be asked.
        rows_known: Rows that those hand out, at most.
    """

    row_groups: int
    row_groups_known: int
    rows_known: int

    @property
    def share(self) -> float:
        """The part of the row groups that is known; 1 where there are none."""
        return self.row_groups_known / self.row_groups if self.row_groups else 1.0


def cached_share(plan: ReadPlan) -> CachedShare:
    """Looks up what a plan could leave to the condition cache; reads and evaluates nothing."""
    steps = sorted(plan.row_filter.steps, key=lambda step: step.index)
    conjuncts = [step.conjunct for step in steps]
    found: dict[int, list[Found]] = {}
    known = rows = 0
    for task in plan.tasks:
        file = task.file
        if file.place not in found and plan.options.condition_cache_bytes:
            keys = condition_keys(conjuncts, file, plan.filter_schema)
            found[file.place] = _find(keys, file)
        count = _known_row_count(task.access, found.get(file.place, []))
        if count is not None:
            known, rows = known + 1, rows + count
    return CachedShare(row_groups=len(plan.tasks), row_groups_known=known, rows_known=rows)


def _known_row_count(access: RowGroupAccess, found: Sequence[Found]) -> int | None:
    """At most so many rows meet every conjunct; None if one of them is not known."""
    count = access.selection.row_count
    waiting = {place for place in range(len(access.undecided)) if access.is_undecided(place)}
    for members, row_groups in found:
        rows = row_groups.get(access.row_group)
        if rows is not None and waiting & members:
            waiting -= members
            count = min(count, rows.row_count)
    return None if waiting else count
