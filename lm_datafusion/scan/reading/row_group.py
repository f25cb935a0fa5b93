"""Late materialization of row groups: filter columns first, the rest only for surviving rows.

In: row groups that statistics did not rule out, and windows of their rows. Out: the matching rows
of a window, and column values for them.

For each window the filter chain runs, and the projected columns are read for the remaining rows.

Invariant: exactly the rows asked for are returned; a page is not decoded for rows that an earlier
step dropped. Windows may come in any order.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, TypeAlias

from lm_datafusion.plan import RowGroupAccess
from lm_datafusion.scan.pruning.known_rows import PassedRows
from lm_datafusion.scan.reading.filter_chain import FilterChain
from lm_datafusion.selection import RowSelection

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from lm_datafusion.formats.protocol import Chunk
    from lm_datafusion.plan import ReadPlan
    from lm_datafusion.predicate.tree import Predicate
    from lm_datafusion.scan.reading.adaptive_order import AdaptiveOrder
    from lm_datafusion.scan.reading.columns import Column
    from lm_datafusion.scan.reading.row_group_state import RowGroupState
    from lm_datafusion.scan.reading.scan_file import ScanFile
    from lm_datafusion.storage import ByteRange, OpenFile

    Values: TypeAlias = pa.Array | pa.ChunkedArray


class RowGroupReader:
    """Reads row groups of one file as if they were one, window by window.

    Args:
        plan: The scan.
        states: The row groups, in row order; several if `group_states` grouped them.
        file: Their file.
        order: The learned order of filter steps.
    """

    def __init__(
        self, plan: ReadPlan, states: Sequence[RowGroupState], file: ScanFile, order: AdaptiveOrder
    ) -> None:
        self._plan = plan
        self._states = states
        self._row_groups = tuple([state.access.row_group for state in states])
        self.task = states[0].task
        self.access = states[0].access
        self.context = file.context
        self._file = file
        self._order = order
        self._passed = PassedRows()
        self._columns: dict[str, Column] = {}
        self._filter_columns: list[str] = []
        self._chain: FilterChain | None = None
        self._spare: list[RowGroupReader] = []

    @property
    def index_file(self) -> OpenFile:
        """The file, for reads that count as metadata."""
        return self._file.index_file

    @property
    def _learns(self) -> bool:
        """Whether the condition cache can learn from these row groups."""
        return self._states[0].known.is_kept

    @property
    def is_order_known(self) -> bool:
        """Whether the order of filter steps is settled."""
        return self._order.is_known

    @property
    def borders(self) -> list[int]:
        """The first row of each row group, and the row after the last."""
        counts = [state.access.row_count for state in self._states]
        return [0, *itertools.accumulate(counts)]

    # ---- before and after ------------------------------------------------------------------

    def open(self, extra: Sequence[str] = ()) -> RowGroupAccess:
        """Prunes and prepares to read; returns the remaining rows and the undecided conjuncts.

        Args:
            extra: Columns that will be read besides those of the filter and the projection.
        """
        for state in self._states:
            state.prune(self.index_file)
        self._begin()
        if not self.access.selection.selects_all():
            self._note_filter_pages()
        if not self.access.is_skipped:
            for name in (*self._filter_columns, *self._plan.names, *extra):
                self._column(name)
        return self.access

    def _begin(self) -> None:
        self.access = access = self._joint_access()
        names = [
            name
            for step in self._plan.row_filter.steps
            if access.is_undecided(step.index)
            for name in step.conjunct.columns
        ]
        self._filter_columns = list(dict.fromkeys(names))
        self._chain = FilterChain(
            self.context,
            access,
            self._columns,
            self._row_groups,
            [state.passes for state in self._states],
            order=self._order,
            projected=self._plan.names,
        )

    def _joint_access(self) -> RowGroupAccess:
        first = self._states[0].access
        if len(self._states) == 1:
            return first
        conjuncts = self._states[0].joint_conjuncts
        assert conjuncts is not None
        whole = RowGroupAccess.scan(first.row_group, self.borders[-1], conjuncts)
        if all(state.access.selection.selects_all() for state in self._states):
            return whole
        rows = RowSelection.concat(state.access.selection for state in self._states)
        return dataclasses.replace(whole, selection=rows)

    def finish(self) -> None:
        """Adds what the decoders counted to the metrics."""
        decoders = [c.decoder for c in self._columns.values() if c.decoder is not None]
        fetched = sum([decoder.pages_fetched for decoder in decoders])
        # Of a part, another task counts the pages that were not fetched.
        total = fetched if self.task.is_part else sum([d.pages_seen for d in decoders])
        chunks = {True: 0, False: 0, None: 0}
        for decoder in decoders:
            chunks[decoder.is_spliced] += len(self._states)
        self.context.metrics.add(
            pages_total=total,
            pages_pruned=max(0, total - fetched),
            pages_fetched=fetched,
            bytes_scanned=sum([decoder.bytes_fetched for decoder in decoders]),
            chunks_by_kernels=chunks[False],
            chunks_by_splice=chunks[True],
        )

    def note_window(self, rows: RowSelection, row_count: int) -> None:
        """Records the rows that passed out of a window of `row_count`, for the condition cache."""
        if self._learns:
            self._passed.note_window(rows, row_count)

    def keep_known(self) -> None:
        """Updates the condition cache; call it once every window has been filtered."""
        if not self._learns:
            return
        self.check_unchanged()
        if self.access.is_skipped:
            self._states[0].known.keep_pruned(self.access)
            return
        found = self._passed.of_all(self.access.selection)
        if found is None:
            return
        after_first, passed = found
        borders = self.borders
        for state, start, stop in zip(self._states, borders, borders[1:], strict=False):
            state.known.keep(
                state.access,
                first_steps=self._passed.first_steps,
                after_first=after_first.slice(start, stop),
                passed=passed.slice(start, stop),
            )

    def fork(self) -> RowGroupReader:
        """An opened reader of the same rows for another thread; `join` returns it."""
        if self._spare:
            return self._spare.pop()
        other = RowGroupReader(self._plan, self._states, self._file, self._order)
        other._begin()
        for name, column in self._columns.items():
            decoder = other._column(name).decoder
            if decoder is not None and column.decoder is not None:
                decoder.share_dictionaries(column.decoder)
        return other

    def join(self, other: RowGroupReader) -> None:
        """Takes over what a fork counted."""
        for name, column in other._columns.items():
            target = self._columns[name]
            if target.decoder is not None and column.decoder is not None:
                target.decoder.join(column.decoder)
        self._spare.append(other)

    def check_unchanged(self) -> None:
        """Raises if the file is not the planned version."""
        self._file.file.check_unchanged()

    def check_read(self) -> None:
        """Raises if what was read may not be from the planned version of the file."""
        self._file.file.check_read()

    def blamed(self) -> AbstractContextManager[None]:
        """Turns errors of a block into a `FileChangedError` if the file has changed."""
        return self._file.file.blamed()

    # ---- columns ---------------------------------------------------------------------------

    def filter_columns(self) -> list[str]:
        """Columns of the undecided conjuncts."""
        return self._filter_columns

    @property
    def largest_chunk_bytes(self) -> int:
        """Uncompressed bytes of the largest column chunk that is read."""
        decoders = [column.decoder for column in self._columns.values()]
        return max([d.uncompressed_bytes for d in decoders if d is not None], default=0)

    def chunks(self, names: Iterable[str], index: int = 0) -> list[Chunk]:
        """The column chunks of some columns in one row group; only stored columns have them."""
        columns = [self.task.file.columns.get(name) for name in names]
        facts, row_group = self.context.facts, self._row_groups[index]
        return [c for n in columns if n is not None for c in facts.chunks_of(row_group, n)]

    @property
    def row_group_count(self) -> int:
        """How many row groups are read as one."""
        return len(self._states)

    def plan_ranges(self, names: Iterable[str], rows: RowSelection) -> list[ByteRange]:
        """Where the bytes of some columns of some rows are; columns not stored have none."""
        columns = [n for name in names if (n := self.task.file.columns.get(name)) is not None]
        if not columns:
            return []
        borders, found = self.borders, []
        facts, file = self.context.facts, self.index_file
        for number, start, stop in zip(self._row_groups, borders, borders[1:], strict=False):
            part = rows if len(borders) == 2 else rows.slice(start, stop)  # noqa: PLR2004
            if part.selects_any():
                found += facts.plan_row_ranges(number, columns, part, file)
        return found

    def note_pages(self, names: Iterable[str]) -> None:
        """Counts the pages of some columns as considered by the scan."""
        for name in names:
            decoder = self._column(name).decoder
            if decoder is not None:
                decoder.locate()

    def read(self, names: Sequence[str], rows: RowSelection) -> list[Values]:
        """Columns of rows of the window, in the table's types."""
        return [self._columns[name].read(rows) for name in names]

    def hold(self, name: str, rows: RowSelection, values: Values) -> None:
        """Keeps values of the window that will be read again."""
        self._columns[name].hold(rows, values)

    def release(self) -> None:
        """Releases the held values after a window."""
        for column in self._columns.values():
            column.release()

    def early_stop(self, ahead: RowSelection, names: Iterable[str]) -> None:
        """Counts the pages of some columns that the early stop saved."""
        if not ahead.selects_any():
            return
        seen = self.access.selection.difference(ahead)
        pages = 0
        for chunk in self.chunks(names):
            first_rows = chunk.load_first_rows(self.index_file)
            if first_rows is not None:
                pages += int((ahead.page_mask(first_rows) & ~seen.page_mask(first_rows)).sum())
        self.context.metrics.add(pages_pruned_early_stop=pages)

    def _column(self, name: str) -> Column:
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = self._file.column(name, self._row_groups)
        return column

    def _note_filter_pages(self) -> None:
        """Counts the pages that the page index decided about."""
        for step in self._plan.row_filter.steps:
            if not any(state.known.is_decided(step.index) for state in self._states):
                self.note_pages(step.conjunct.columns)

    # ---- filter ----------------------------------------------------------------------------

    def filter(self, rows: RowSelection, decided: frozenset[int] = frozenset()) -> RowSelection:
        """The rows of a window that meet every conjunct.

        Args:
            rows: Rows of the window.
            decided: Steps that all of them are known to pass.
        """
        assert self._chain is not None
        on_first = self._passed.note_first_step if self._learns else None
        return self._chain.run(rows, decided, on_first)

    def test(self, name: str, tree: Predicate, rows: RowSelection) -> RowSelection | None:
        """The rows whose column meets a condition, tested by kernels; None if they cannot.

        The values of those rows are held.
        """
        return self._columns[name].test(rows, tree, None, is_held=True)
