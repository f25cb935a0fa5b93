"""`FileReader`: selected rows of one file as record batches, whatever the format.

In: a path; then row groups, a row selection, columns. Out: record batches of those rows, and the
row selections that statistics, page bounds and bloom filters leave of a condition.

A reader is a value: `with_` methods return changed copies, and nothing is read before it is needed.
A row selection is over the rows of the chosen row groups, in the order in which they are chosen.

`ParquetReader` and `OrcReader` give the methods names in the words of their format.

Invariant: a selection from a condition has every row that meets it; it may have others. Iterating
gives exactly the selected rows, all of one version of the file.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pyarrow as pa

from lm_datafusion.errors import ColumnNotFoundError, CorruptFileError, OptionError
from lm_datafusion.formats.cache import FACTS
from lm_datafusion.options import ScanOptions
from lm_datafusion.predicate.kinds import without_unions
from lm_datafusion.scan.pruning.selected_rows import SelectedRows
from lm_datafusion.selection import RowSelection
from lm_datafusion.sql import parse_condition
from lm_datafusion.storage import LazyFile, LocalStorage

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from lm_datafusion.formats.protocol import FileFacts
    from lm_datafusion.storage import FileVersion, Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReader:
    """Rows of one version of a file.

    Attributes:
        version: The file.
        storage: Where it is.
        options: How it is read.
        file_schema: All columns of the file.
        condition_schema: The columns that conditions may name: DataFusion has no unions.
        row_group_rows: The rows of each row group of the file.
        row_groups: The chosen row groups.
        columns: The chosen columns, by their position in `file_schema`.
        row_selection: Over the rows of the chosen row groups; None for all of them.
    """

    version: FileVersion
    storage: Storage
    options: ScanOptions
    file_schema: pa.Schema
    condition_schema: pa.Schema
    row_group_rows: tuple[int, ...]
    row_groups: tuple[int, ...]
    columns: tuple[int, ...]
    row_selection: RowSelection | None = None

    # The format, and what it calls a row group.
    _format: ClassVar[str] = ""
    _noun: ClassVar[str] = "row group"

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], options: ScanOptions | None, storage: Storage | None
    ) -> Self:
        """A reader of all rows and columns of a file.

        Raises:
            FileMissingError: There is no such file.
            CorruptFileError: It is no file of the format.
            UnsupportedFeatureError: It is encrypted, or not a table.
        """
        options = options or ScanOptions()
        storage = storage or LocalStorage()
        version = storage.load_version(str(path))
        with LazyFile(storage, version) as file:
            facts = FACTS.load(file, limit_bytes=options.metadata_cache_bytes)
        if facts.format_name != cls._format:
            raise CorruptFileError(
                f"the format is {facts.format_name}, not {cls._format}", path=str(path)
            )
        counts = tuple(facts.row_counts.tolist())
        schema = facts.schema
        return cls(
            version=version,
            storage=storage,
            options=options,
            file_schema=schema,
            condition_schema=without_unions(schema),
            row_group_rows=counts,
            row_groups=tuple(range(len(counts))),
            columns=tuple(range(len(schema))),
        )

    @property
    def schema(self) -> pa.Schema:
        """The chosen columns."""
        chosen = [self.file_schema.field(index) for index in self.columns]
        return pa.schema(chosen, self.file_schema.metadata)

    @property
    def total_rows(self) -> int:
        """Rows of the chosen row groups, selected or not."""
        return sum(self.row_group_rows[index] for index in self.row_groups)

    def with_row_selection(self, selection: RowSelection) -> Self:
        """Only some rows of the chosen row groups (stripes).

        Args:
            selection: Over the rows of the chosen row groups; rows behind its end are not selected.
                That it is not too long is checked when rows are read, so that row groups may also
                be chosen later.
        """
        return self._replaced(row_selection=selection)

    def with_columns(self, columns: Sequence[str]) -> Self:
        """Only some top-level columns, in the given order.

        Raises:
            ColumnNotFoundError: There is no such column.
            OptionError: There are two columns of that name.
        """
        return self._replaced(columns=tuple(map(self._column, columns)))

    def scan_ranges(self) -> list[tuple[int, int]]:
        """The byte ranges of what holds selected rows: `(offset, length)`, as they are fetched.

        Neighbours are not coalesced. In ORC, a run that crosses the last border of a row group may
        take a little more.
        """
        found = []
        with self._opened() as file:
            facts = self._facts(file)
            facts.check_readable(self.columns)
            for index, selection in self._selections():
                if selection.selects_any() and self.columns:
                    found += facts.plan_row_ranges(index, self.columns, selection, file)
            file.check_read()
        return [(wanted.offset, wanted.length) for wanted in found]

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The selected rows, in batches of at most `options.batch_rows` rows.

        Raises:
            OptionError: The selection covers more rows than the chosen row groups have.
            CorruptFileError: The file is damaged.
            UnsupportedFeatureError: A column is encrypted, or PyArrow cannot read it.
            FileChangedError: The file is no longer the one that the reader was made for.
        """
        selections = self._selections()
        with self._opened() as file, file.blamed():
            facts = self._facts(file)
            facts.check_readable(self.columns)
            for index, selection in selections:
                if not selection.selects_any():
                    continue
                for batch in self._row_group_batches(facts, file, index, selection):
                    file.check_read()
                    for start in range(0, batch.num_rows, self.options.batch_rows):
                        yield batch.slice(start, self.options.batch_rows)
        self._trim()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self.to_batches()

    def to_table(self) -> pa.Table:
        """The selected rows as a table."""
        return pa.Table.from_batches(self.to_batches(), self.schema)

    def _with_row_groups(self, row_groups: Sequence[int]) -> Self:
        count, noun = len(self.row_group_rows), self._noun
        unknown = [index for index in row_groups if not 0 <= index < count]
        if unknown:
            raise OptionError(f"no {noun} {unknown[0]} among {count}")
        if len(set(row_groups)) < len(row_groups):
            raise OptionError(f"a {noun} is chosen twice")
        return self._replaced(row_groups=tuple(row_groups))

    def _left_by_statistics(self, predicate: str) -> list[int]:
        """The chosen row groups in which a condition may hold, by their statistics."""
        conjuncts = parse_condition(predicate, self.condition_schema)
        with self._opened() as file:
            facts = self._facts(file)
            left = SelectedRows(facts, self.condition_schema, conjuncts, self.options)
            file.check_read()
        return [index for index in self.row_groups if left.has_any(index)]

    def _left_by_indexes(self, predicate: str) -> RowSelection:
        """The rows of the chosen row groups for which a condition may hold, by all metadata."""
        conjuncts = parse_condition(predicate, self.condition_schema)
        with self._opened() as file:
            facts = self._facts(file)
            left = SelectedRows(facts, self.condition_schema, conjuncts, self.options)
            parts = [left.load(index, file) for index in self.row_groups]
            file.check_read()
        self._trim()
        return RowSelection.concat(parts)

    def _row_group_batches(
        self, facts: FileFacts, file: LazyFile, index: int, selection: RowSelection
    ) -> Iterator[pa.RecordBatch]:
        if not self.columns:
            rows = pa.record_batch([pa.nulls(selection.row_count)], names=["rows"])
            return iter([rows.select([]).replace_schema_metadata(self.schema.metadata)])
        return facts.read_rows(index, self.columns, selection, file)

    def _selections(self) -> list[tuple[int, RowSelection]]:
        """Each chosen row group with the selection of its rows."""
        total, selection, counts = self.total_rows, self.row_selection, self.row_group_rows
        if selection is None:
            return [(index, RowSelection.all(counts[index])) for index in self.row_groups]
        if selection.total_rows > total:
            raise OptionError(
                f"the selection covers {selection.total_rows} rows, the {self._noun}s have {total}"
            )
        rest = RowSelection.none(total - selection.total_rows)
        selection = RowSelection.concat([selection, rest])
        found, start = [], 0
        for index in self.row_groups:
            stop = start + counts[index]
            found.append((index, selection.slice(start, stop)))
            start = stop
        return found

    def _column(self, name: str) -> int:
        indexes = self.file_schema.get_all_field_indices(name)
        if not indexes:
            raise ColumnNotFoundError(name, self.file_schema.names, where=self.version.path)
        if len(indexes) > 1:
            raise OptionError(f'{self.version.path} has {len(indexes)} columns named "{name}"')
        return int(indexes[0])

    def _replaced(self, **changes: Any) -> Self:
        return dataclasses.replace(self, **changes)

    def _opened(self) -> LazyFile:
        return LazyFile(self.storage, self.version)

    def _facts(self, file: LazyFile) -> FileFacts:
        return FACTS.load(file, limit_bytes=self.options.metadata_cache_bytes)

    def _trim(self) -> None:
        """Facts have grown by what was read."""
        FACTS.trim([self.version], limit_bytes=self.options.metadata_cache_bytes)
