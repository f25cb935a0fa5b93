"""Row groups that are read as one, after pruning has looked at each.

In: tasks of one file. Out: a `Bundle`: what is left of them, as if it were one row group; and, once
they are scanned, what the condition cache learns about each.

What a scan does in Python it does once per window, whatever the window holds, and while it does so
no other thread runs Python. So small row groups share a window:

1. neighbours of one file, `WINDOW_ROWS` rows together at most, and only where enough bundles are
   left for all threads (`plan_bundles`, from the plan alone);
2. of those, row groups whose columns fit one window together, as far as footers tell, and that have
   the same columns as dictionary codes (`split_bundle`, when their turn has come);
3. those in which pruning leaves nothing drop out.

Invariant: the rows of a bundle are those of its row groups, in their order; a bundle of several row
groups is scanned in one window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lm_datafusion.formats.parquet.splice import can_splice
from lm_datafusion.plan import RowGroupAccess
from lm_datafusion.predicate.kinds import is_text_or_bytes
from lm_datafusion.scan.known_rows import KnownRows, PassedRows
from lm_datafusion.scan.prune import prune_row_group
from lm_datafusion.scan.windows import WINDOW_ROWS
from lm_datafusion.selection import RowSelection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lm_datafusion.formats.parquet.chunk import ChunkFacts
    from lm_datafusion.formats.parquet.footer import FileFacts
    from lm_datafusion.plan import ReadPlan, RowGroupTask
    from lm_datafusion.scan.prune import DictionaryPasses, PruningContext
    from lm_datafusion.storage import OpenFile

    Places = tuple[int, ...]

# Bundles that each thread should have, so that none is idle for long while another has the last.
BUNDLES_PER_WORKER = 4


def plan_bundles(plan: ReadPlan, *, is_order_known: bool) -> list[Places]:
    """Places of tasks that may be scanned as one, in the order of the plan.

    Args:
        plan: The plan.
        is_order_known: Whether there is nothing to learn about the order of filter steps; else
            the first row group goes alone.
    """
    most = len(plan.tasks) // (BUNDLES_PER_WORKER * plan.options.worker_count)
    if plan.limit is not None or plan.is_reverse:
        most = 1
    bundles: list[list[int]] = []
    rows = 0
    for place, task in enumerate(plan.tasks):
        rows += task.access.row_count
        is_learning = len(bundles) == 1 and not is_order_known
        if (
            bundles
            and not is_learning
            and len(bundles[-1]) < most
            and rows <= WINDOW_ROWS
            and _can_join(plan.tasks[place - 1], task)
        ):
            bundles[-1].append(place)
        else:
            bundles.append([place])
            rows = task.access.row_count
    return [tuple(places) for places in bundles]


def _can_join(one: RowGroupTask, other: RowGroupTask) -> bool:
    """Whether two tasks are about one file, and about all rows of their row groups."""
    return one.file is other.file and all(
        task.access.selection.selects_all() and not task.is_part for task in (one, other)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Profile:
    """What footers tell of the columns in play in one row group, column by column."""

    sizes: tuple[int, ...]
    is_codes: tuple[bool, ...]
    is_size_known: bool

    def can_join(self, other: _Profile, window_bytes: int) -> bool:
        return (
            self.is_size_known
            and other.is_size_known
            and self.is_codes == other.is_codes
            and max(self.joined(other).sizes, default=0) <= window_bytes
        )

    def joined(self, other: _Profile) -> _Profile:
        sizes = tuple(a + b for a, b in zip(self.sizes, other.sizes, strict=True))
        return _Profile(sizes=sizes, is_codes=self.is_codes, is_size_known=self.is_size_known)


def split_bundle(
    places: Places, plan: ReadPlan, facts: FileFacts, file: OpenFile
) -> Iterator[Places]:
    """Parts of a bundle that one window can hold."""
    bundle: list[int] = []
    held: _Profile | None = None
    for place in places:
        own = _profile(plan.tasks[place], plan, facts, file)
        if held is not None and held.can_join(own, plan.options.window_bytes):
            bundle.append(place)
            held = held.joined(own)
            continue
        if bundle:
            yield tuple(bundle)
        bundle, held = [place], own
    yield tuple(bundle)


def _profile(task: RowGroupTask, plan: ReadPlan, facts: FileFacts, file: OpenFile) -> _Profile:
    steps = plan.row_filter.steps
    names = dict.fromkeys([*(n for s in steps for n in s.conjunct.columns), *plan.schema.names])
    columns = [task.file.columns[name] for name in names if name in task.file.columns]
    row_group = task.access.row_group
    chunks = [facts.chunks_of(row_group, column) for column in columns]
    is_codes = tuple(is_all_codes(facts, [row_group], column, file) for column in columns)
    return _Profile(
        sizes=tuple(sum(c.metadata.total_uncompressed_size for c in leaves) for leaves in chunks),
        is_codes=is_codes,
        is_size_known=all(
            is_code or _is_size_known(facts.schema.field(column).type, leaves)
            for column, leaves, is_code in zip(columns, chunks, is_codes, strict=True)
        ),
    )


def _is_size_known(data_type: pa.DataType, chunks: Sequence[ChunkFacts]) -> bool:
    """Whether a column decodes to about its stored size.

    Text of a dictionary decodes to any size. (And PyArrow does not put the dictionaries of several
    row groups together below a list or struct.)
    """
    if pa.types.is_nested(data_type):
        return False
    return not is_text_or_bytes(data_type) or not any(c.dictionary_page_bytes for c in chunks)


def is_all_codes(facts: FileFacts, row_groups: Iterable[int], column: int, file: OpenFile) -> bool:
    """Whether a column is text whose chunks are all dictionary: then codes are read."""
    if not is_text_or_bytes(facts.schema.field(column).type):
        return False
    leaves = [facts.chunks_of(row_group, column) for row_group in row_groups]
    return all(
        len(chunks) == 1 and can_splice(chunks[0]) and chunks[0].is_all_dictionary(file)
        for chunks in leaves
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedRowGroup:
    """A row group that pruning has looked at.

    Attributes:
        access: What is left of it.
        known: What stands between it and the condition cache.
        passes: What pruning found out about its dictionaries.
    """

    access: RowGroupAccess
    known: KnownRows
    passes: DictionaryPasses


def open_row_group(task: RowGroupTask, context: PruningContext, file: OpenFile) -> OpenedRowGroup:
    """Prunes a row group by what is known of it, and by what it says itself."""
    known = KnownRows(task.access, context)
    passes: DictionaryPasses = {}
    access = prune_row_group(known.narrowed(), context, file, passes)
    if access.undecided and access.is_fully_matched and not access.is_skipped:
        context.metrics.add(row_groups_fully_matched=1)
    return OpenedRowGroup(access=access, known=known, passes=passes)


class Bundle:
    """Row groups of one file, read as one."""

    def __init__(self, opened: Sequence[OpenedRowGroup]) -> None:
        self.opened = opened
        self.left = [group for group in opened if not group.access.is_skipped]
        self.access = joined([group.access for group in self.left or opened[:1]])
        self._passed = PassedRows()
        self._is_kept = any(group.known.is_kept for group in self.left)

    @property
    def row_groups(self) -> tuple[int, ...]:
        """The row groups in which something is left."""
        return tuple(group.access.row_group for group in self.left)

    @property
    def row_counts(self) -> list[int]:
        """The rows of each of them."""
        return [group.access.row_count for group in self.left]

    def note_first_step(self, conjunct: int, selection: RowSelection) -> None:
        """What the first step that a window evaluated has left of the window."""
        if self._is_kept:
            self._passed.note_first_step(conjunct, selection)

    def note_window(self, selection: RowSelection, row_count: int) -> None:
        """What all conjuncts have left of a window of so many rows."""
        if self._is_kept:
            self._passed.note_window(selection, row_count)

    def keep(self) -> None:
        """Teaches the condition cache what was learned. To be called after the last window."""
        for group in self.opened:
            if group.access.is_skipped:
                group.known.keep_pruned(group.access)
        found = self._passed.of_all(self.access.selection) if self._is_kept else None
        if found is None:
            return
        start = 0
        for group in self.left:
            stop = start + group.access.row_count
            after_first, passed = (rows.slice(start, stop) for rows in found)
            group.known.keep(
                group.access,
                first_steps=self._passed.first_steps,
                after_first=after_first,
                passed=passed,
            )
            start = stop


def joined(accesses: Sequence[RowGroupAccess]) -> RowGroupAccess:
    """What is left of some row groups, as if they were one."""
    first = accesses[0]
    if len(accesses) == 1:
        return first
    return RowGroupAccess(
        row_group=first.row_group,
        row_count=sum(access.row_count for access in accesses),
        selection=_concat([access.selection for access in accesses]),
        undecided=tuple(map(_concat, zip(*(a.undecided for a in accesses), strict=True))),
    )


def _concat(selections: Sequence[RowSelection]) -> RowSelection:
    if all(rows.selects_all() for rows in selections):
        return RowSelection.all(sum(rows.total_rows for rows in selections))
    return RowSelection.concat(selections)
