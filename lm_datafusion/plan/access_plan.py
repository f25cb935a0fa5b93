"""Which rows of a row group may match, refined by each pruning stage.

In: verdicts of conjuncts about the row group or about ranges of its rows. Out: `RowGroupAccess`:
the remaining rows, and per conjunct the rows it still has to be evaluated on.

Invariant: no row outside `selection` matches; each fails a conjunct of `narrowed_by`. Rows outside
`undecided[i]` need no evaluation of conjunct i: it holds there, or they are ruled out.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lm_datafusion.forks import cached_property
from lm_datafusion.pruning import Verdict
from lm_datafusion.selection import RowSelection

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


# No slots: derived properties are cached, and the same access serves many statements.
@dataclass(frozen=True, kw_only=True)
class RowGroupAccess:
    """What is left to do in one row group."""

    row_group: int
    row_count: int
    selection: RowSelection
    undecided: tuple[RowSelection, ...]
    narrowed_by: frozenset[int] = frozenset()

    @staticmethod
    def scan(row_group: int, row_count: int, undecided: tuple[bool, ...]) -> RowGroupAccess:
        """All rows of a row group; per conjunct, whether it has to be evaluated on them."""
        return _scan(row_group, row_count, undecided)

    @cached_property
    def open_conjuncts(self) -> tuple[bool, ...] | None:
        """Per conjunct, whether it has to be evaluated on all rows or on none.

        None if some rows are ruled out, or a conjunct is decided for some.
        """
        is_whole = self.selection.selects_all() and all(
            rows.selects_all() or not rows.selects_any() for rows in self.undecided
        )
        return tuple([rows.selects_any() for rows in self.undecided]) if is_whole else None

    @cached_property
    def is_skipped(self) -> bool:
        """Whether no row is left."""
        return not self.selection.selects_any()

    @cached_property
    def is_fully_matched(self) -> bool:
        """Whether every remaining row is known to match."""
        return not any(rows.selects_any() for rows in self.undecided)

    def is_undecided(self, conjunct: int) -> bool:
        """Whether a conjunct has rows left to be evaluated on."""
        return self.undecided[conjunct].selects_any()

    def with_verdict(self, conjunct: int, verdict: int) -> RowGroupAccess:
        """A verdict about the whole row group."""
        if verdict == Verdict.SOME_ROWS:
            return self
        nothing = RowSelection.none(self.row_count)
        if verdict == Verdict.NO_ROWS:
            return dataclasses.replace(
                self,
                selection=nothing,
                undecided=(nothing,) * len(self.undecided),
                narrowed_by=frozenset({conjunct}),
            )
        return self._with_undecided(conjunct, nothing)

    def with_range_verdicts(
        self, conjunct: int, starts: npt.NDArray[np.int64], verdicts: npt.NDArray[np.uint8]
    ) -> RowGroupAccess:
        """Verdicts about ranges of rows; `starts` are their first rows, ascending from 0."""
        if (verdicts == Verdict.SOME_ROWS).all():
            return self
        return self.with_rows(conjunct, *rows_of_verdicts(starts, verdicts, self.row_count))

    def with_rows(
        self, conjunct: int, left: RowSelection, undecided: RowSelection
    ) -> RowGroupAccess:
        """Narrows to the rows that a conjunct may hold for, and to those it is undecided about."""
        narrowed = self._with_undecided(conjunct, self.undecided[conjunct].intersection(undecided))
        return narrowed._with_rows(left, frozenset({conjunct}))  # noqa: SLF001 of this very class

    def with_range(self, start: int, stop: int) -> RowGroupAccess:
        """Restricts the access to the rows `[start, stop)`."""
        rows = RowSelection.from_consecutive_ranges([(start, stop)], self.row_count)
        return dataclasses.replace(
            self,
            selection=self.selection.intersection(rows),
            undecided=tuple(held.intersection(rows) for held in self.undecided),
        )

    def with_known_rows(self, conjuncts: frozenset[int], rows: RowSelection) -> RowGroupAccess:
        """Narrows to exactly the rows that meet some conjuncts, which are then decided."""
        nothing = RowSelection.none(self.row_count)
        undecided = (
            nothing if index in conjuncts else held for index, held in enumerate(self.undecided)
        )
        decided = dataclasses.replace(self, undecided=tuple(undecided))
        return decided._with_rows(rows, conjuncts)  # noqa: SLF001

    def _with_rows(self, rows: RowSelection, conjuncts: frozenset[int]) -> RowGroupAccess:
        """Drops the rows that fail one of the conjuncts."""
        selection = self.selection.intersection(rows)
        if selection == self.selection:
            return self
        return dataclasses.replace(
            self,
            selection=selection,
            undecided=tuple(held.intersection(selection) for held in self.undecided),
            narrowed_by=self.narrowed_by | conjuncts,
        )

    def _with_undecided(self, conjunct: int, rows: RowSelection) -> RowGroupAccess:
        undecided = list(self.undecided)
        undecided[conjunct] = rows
        return dataclasses.replace(self, undecided=tuple(undecided))


# Row groups of many files are alike, and statements are repeated.
@functools.lru_cache(maxsize=4096)
def _scan(row_group: int, row_count: int, undecided: tuple[bool, ...]) -> RowGroupAccess:
    everything, nothing = RowSelection.all(row_count), RowSelection.none(row_count)
    return RowGroupAccess(
        row_group=row_group,
        row_count=row_count,
        selection=everything,
        undecided=tuple(everything if is_open else nothing for is_open in undecided),
    )


def rows_of_verdicts(
    starts: npt.NDArray[np.int64], verdicts: npt.NDArray[np.uint8], row_count: int
) -> tuple[RowSelection, RowSelection]:
    """The rows of the ranges that a conjunct may hold for, and those it is undecided about."""
    import numpy as np

    stops = np.append(starts[1:], row_count)
    left, undecided = (
        RowSelection.from_ranges(starts[chosen], stops[chosen], row_count)
        for chosen in (verdicts != Verdict.NO_ROWS, verdicts == Verdict.SOME_ROWS)
    )
    return left, undecided
