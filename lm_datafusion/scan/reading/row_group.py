"""One row group, late: filter columns first, the rest only for the rows that survive.

In: a row group that statistics left over, and windows of its rows. Out: the rows of a window that
match, and values of columns for them.

For each window the filter chain runs, and the projected columns are read for the rows left.

Invariant: of every column, exactly the rows asked for are handed out; a page is not decoded for
rows that an earlier step dropped. Windows may come in any order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from lm_datafusion.scan.pruning.known_rows import KnownRows, PassedRows
from lm_datafusion.scan.pruning.prune import prune_row_group
from lm_datafusion.scan.reading.filter_chain import FilterChain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from lm_datafusion.formats.parquet.chunk import ChunkFacts
    from lm_datafusion.plan import ReadPlan, RowGroupAccess, RowGroupTask
    from lm_datafusion.predicate.tree import Predicate
    from lm_datafusion.scan.pruning.prune import DictionaryPasses
    from lm_datafusion.scan.reading.adaptive_order import AdaptiveOrder
    from lm_datafusion.scan.reading.columns import Column
    from lm_datafusion.scan.reading.scan_file import ScanFile
    from lm_datafusion.selection import RowSelection
    from lm_datafusion.storage import OpenFile

    Values: TypeAlias = pa.Array | pa.ChunkedArray


class RowGroupReader:
    """Reads one row group, window by window."""

    def __init__(
        self, plan: ReadPlan, task: RowGroupTask, file: ScanFile, order: AdaptiveOrder
    ) -> None:
        self._plan = plan
        self.task = task
        self.context = file.context
        self._order = order
        self._file = file
        self.access = task.access
        self._known = KnownRows(task.access, file.context, task.rows)
        self._passed = PassedRows()
        self._passes: DictionaryPasses = {}
        self._columns: dict[str, Column] = {}
        self._filter_columns: list[str] = []
        self._chain: FilterChain | None = None
        self._spare: list[RowGroupReader] = []

    @property
    def index_file(self) -> OpenFile:
        """The file, for what counts as metadata."""
        return self._file.index_file

    # ---- before and after ------------------------------------------------------------------

    def open(self, extra: Sequence[str] = ()) -> RowGroupAccess:
        """Prunes, and makes ready to read; the rows left, and what is undecided of them.

        Args:
            extra: Columns that will be read beside those of the filter and the projection.
        """
        access = prune_row_group(
            self._known.narrowed(),
            self.context,
            self.index_file,
            self._passes,
            is_counted=not self.task.is_part,
        )
        is_matched = access.undecided and access.is_fully_matched and not access.is_skipped
        if is_matched and not self.task.is_part:
            self.context.metrics.add(row_groups_fully_matched=1)
        if self.task.rows is not None:
            access = access.with_range(*self.task.rows)
        if not access.selection.selects_all():
            self._note_filter_pages()
        self._begin(access)
        if not access.is_skipped:
            for name in (*self._filter_columns, *self._plan.names, *extra):
                self._column(name)
        return access

    def _begin(self, access: RowGroupAccess) -> None:
        self.access = access
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
            self._passes,
            order=self._order,
            projected=self._plan.names,
        )

    def finish(self) -> None:
        """Adds what the decoders counted to the metrics."""
        decoders = [c.decoder for c in self._columns.values() if c.decoder is not None]
        fetched = sum(decoder.pages_fetched for decoder in decoders)
        # Somebody else counts the pages of a part that nobody fetched.
        total = fetched if self.task.is_part else sum(d.pages_seen for d in decoders)
        spliced = [decoder.is_spliced for decoder in decoders]
        self.context.metrics.add(
            pages_total=total,
            pages_pruned=max(0, total - fetched),
            pages_fetched=fetched,
            bytes_scanned=sum(decoder.bytes_fetched for decoder in decoders),
            chunks_by_kernels=spliced.count(False),
            chunks_by_splice=spliced.count(True),
        )

    def note_window(self, rows: RowSelection, row_count: int) -> None:
        """What the filter has left of a window of so many rows, for the condition cache."""
        if self._known.is_kept:
            self._passed.note_window(rows, row_count)

    def keep_known(self) -> None:
        """Teaches the condition cache; to be called once every window has been filtered."""
        if not self._known.is_kept:
            return
        self.check_unchanged()
        if self.access.is_skipped:
            self._known.keep_pruned(self.access)
        else:
            found = self._passed.of_all(self.access.selection)
            if found is not None:
                after_first, passed = found
                self._known.keep(
                    self.access,
                    first_steps=self._passed.first_steps,
                    after_first=after_first,
                    passed=passed,
                )

    def fork(self) -> RowGroupReader:
        """A reader of the same rows, opened already, for another thread; `join` gives it back."""
        if self._spare:
            return self._spare.pop()
        other = RowGroupReader(self._plan, self.task, self._file, self._order)
        other._passes = self._passes
        other._begin(self.access)
        for name, column in self._columns.items():
            decoder = other._column(name).decoder
            if decoder is not None and column.decoder is not None:
                decoder.share_dictionary(column.decoder)
        return other

    def join(self, other: RowGroupReader) -> None:
        """Takes over what a fork counted."""
        for name, column in other._columns.items():
            own = self._columns[name]
            if own.decoder is not None and column.decoder is not None:
                own.decoder.join(column.decoder)
        self._spare.append(other)

    def check_unchanged(self) -> None:
        """Raises if the file is not the one that was planned for."""
        self._file.file.check_unchanged()

    # ---- columns ---------------------------------------------------------------------------

    def filter_columns(self) -> list[str]:
        """Columns of the conjuncts that are undecided."""
        return self._filter_columns

    @property
    def largest_chunk_bytes(self) -> int:
        """Uncompressed bytes of the largest column chunk in play."""
        decoders = [column.decoder for column in self._columns.values()]
        return max([d.uncompressed_bytes for d in decoders if d is not None], default=0)

    def chunks(self, names: Iterable[str]) -> list[ChunkFacts]:
        """The column chunks of some columns, of those that the file stores."""
        columns = [self.task.file.columns.get(name) for name in names]
        facts, row_group = self.context.facts, self.access.row_group
        return [c for n in columns if n is not None for c in facts.chunks_of(row_group, n)]

    def note_pages(self, names: Iterable[str]) -> None:
        """Counts the pages of some columns among those the scan decided about."""
        for name in names:
            decoder = self._column(name).decoder
            if decoder is not None:
                decoder.locate()

    def read(self, names: Sequence[str], rows: RowSelection) -> list[Values]:
        """Columns of rows of the window, in the types of the table."""
        return [self._columns[name].read(rows) for name in names]

    def hold(self, name: str, rows: RowSelection, values: Values) -> None:
        """Keeps values of the window that will be read again."""
        self._columns[name].hold(rows, values)

    def release(self) -> None:
        """A window is done: lets go of what is held of it."""
        for column in self._columns.values():
            column.release()

    def early_stop(self, ahead: RowSelection, names: Iterable[str]) -> None:
        """Counts the pages of some columns that would have been read if the scan had gone on."""
        if not ahead.selects_any():
            return
        seen = self.access.selection.difference(ahead)
        pages = 0
        for chunk in self.chunks(names):
            table = chunk.load_pages(self.index_file)
            if table is not None:
                first_rows = table.locations.first_rows
                pages += int((ahead.page_mask(first_rows) & ~seen.page_mask(first_rows)).sum())
        self.context.metrics.add(pages_pruned_early_stop=pages)

    def _column(self, name: str) -> Column:
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = self._file.column(name, self.access.row_group)
        return column

    def _note_filter_pages(self) -> None:
        """Counts the pages that the page index decided about."""
        for step in self._plan.row_filter.steps:
            if not self._known.is_decided(step.index):
                self.note_pages(step.conjunct.columns)

    # ---- filter ----------------------------------------------------------------------------

    def filter(self, rows: RowSelection, decided: frozenset[int] = frozenset()) -> RowSelection:
        """The rows of a window that meet every conjunct.

        Args:
            rows: Rows of the window.
            decided: Steps that all of them are known to meet.
        """
        assert self._chain is not None
        learns = self._known.is_kept
        return self._chain.run(rows, decided, self._passed.note_first_step if learns else None)

    def test(self, name: str, tree: Predicate, rows: RowSelection) -> RowSelection | None:
        """The rows whose column meets a condition, tested by kernels; None if they cannot.

        The values of those rows are held.
        """
        return self._columns[name].test(rows, tree, None, is_held=True)
