"""One row group between the plan and its reader.

In: a task of a plan. Out: the rows that pruning and the condition cache leave.

Whole row groups of a file with the same undecided conjuncts are read as one, and so are those
whose matching rows the condition cache knows: this pays the Python overhead per row group only
once.

Invariant: a row group is pruned once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lm_datafusion.scan.pruning.known_rows import KnownRows
from lm_datafusion.scan.pruning.prune import prune_row_group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lm_datafusion.plan import RowGroupTask
    from lm_datafusion.scan.pruning.prune import DictionaryPasses, PruningContext
    from lm_datafusion.storage import OpenFile


class RowGroupState:
    """A row group, and what is known about it.

    Attributes:
        task: The row group in the plan.
        access: The remaining rows, and per conjunct those it is undecided about.
        known: What the condition cache knows and learns.
        passes: Which dictionary values pass, by conjunct.
    """

    __slots__ = ("_context", "_is_pruned", "access", "known", "passes", "task")

    def __init__(self, task: RowGroupTask, context: PruningContext) -> None:
        self.task = task
        self.access = task.access
        self.known = KnownRows(task.access, context, task.rows)
        self.passes: DictionaryPasses = {}
        self._context = context
        self._is_pruned = False

    def prune(self, index_file: OpenFile) -> None:
        """Narrows the access by known rows, bloom filters, dictionaries and the page index."""
        if self._is_pruned:
            return
        self._is_pruned = True
        task = self.task
        access = prune_row_group(
            self.known.narrowed(),
            self._context,
            index_file,
            self.passes,
            is_counted=not task.is_part,
        )
        is_matched = access.undecided and access.is_fully_matched and not access.is_skipped
        if is_matched and not task.is_part:
            self._context.metrics.add(row_groups_fully_matched=1)
        self.access = access if task.rows is None else access.with_range(*task.rows)

    @property
    def joint_conjuncts(self) -> tuple[bool, ...] | None:
        """Per conjunct, whether it has to be evaluated; None if the row group is read by itself."""
        access = self.access
        if self.task.rows is not None or access.is_skipped:
            return None
        if access.is_fully_matched and self.known.is_known:
            return (False,) * len(access.undecided)
        return access.open_conjuncts


def group_states(
    states: Sequence[RowGroupState], decoding: Callable[[int], object]
) -> Iterator[list[RowGroupState]]:
    """Groups the pruned row groups of one file that can be read as one.

    Args:
        states: In the order of their rows.
        decoding: How the columns of a row group are decoded; the same for all of a group.
    """
    if len(states) == 1:
        yield [*states]
        return
    group: list[RowGroupState] = []
    shared: tuple[object, ...] | None = None
    for state in states:
        left = state.joint_conjuncts
        key = None if left is None else (left, decoding(state.access.row_group))
        if group and (key is None or key != shared):
            yield group
            group = []
        group.append(state)
        shared = key
    if group:
        yield group
