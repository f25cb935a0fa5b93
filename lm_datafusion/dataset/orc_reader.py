"""`OrcReader`: selected rows of an ORC file as record batches.

In: a path; then stripes, a row selection, columns. Out: record batches of those rows, and the row
selections that statistics of stripes, row indexes and bloom filters leave of a condition.

    reader = lm.orc_reader("hits.orc")
    selection = reader.row_selection_from_row_index("status = 503")
    for batch in reader.with_row_selection(selection).with_columns(["url"]):
        ...

A reader is a value: `with_` methods return changed copies, and nothing is read before it is needed.
A row selection is over the rows of the chosen stripes, in the order in which they are chosen.

Invariant: a selection from a condition has every row that meets it; it may have others. Iterating
gives exactly the selected rows, all of one version of the file.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lm_datafusion.errors import ColumnNotFoundError, OptionError
from lm_datafusion.formats.orc.cache import ORC_FACTS
from lm_datafusion.formats.orc.decode import decode_schema
from lm_datafusion.formats.orc.read import plan_row_ranges, read_rows
from lm_datafusion.options import ScanOptions
from lm_datafusion.scan.pruning.orc import prune_row_groups, prune_stripes
from lm_datafusion.selection import RowSelection
from lm_datafusion.sql import parse_condition
from lm_datafusion.storage import LazyFile, LocalStorage

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from lm_datafusion.formats.orc.facts import OrcFacts
    from lm_datafusion.storage import FileVersion, Storage


def orc_reader(
    path: str | os.PathLike[str],
    *,
    options: ScanOptions | None = None,
    storage: Storage | None = None,
) -> OrcReader:
    """A reader of all rows and columns of an ORC file.

    Args:
        path: The file.
        options: `batch_rows`, `metadata_cache_bytes` and the options of pruning are used.
        storage: Where the file is; the local file system by default.

    Raises:
        FileMissingError: There is no such file.
        CorruptFileError: It is no ORC file.
        UnsupportedFeatureError: It is not a table.
    """
    options = options or ScanOptions()
    storage = storage or LocalStorage()
    version = storage.load_version(str(path))
    with LazyFile(storage, version) as file:
        facts = ORC_FACTS.load(file, limit_bytes=options.metadata_cache_bytes)
    names = facts.tail.types.names
    schema = decode_schema(facts, range(len(names)))
    return OrcReader(
        version=version,
        storage=storage,
        options=options,
        file_schema=schema,
        condition_schema=pa.schema([field for field in schema if not _has_union(field.type)]),
        stripe_rows=tuple(stripe.row_count for stripe in facts.tail.stripes),
        stripes=tuple(range(len(facts.tail.stripes))),
        columns=tuple(range(len(names))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OrcReader:
    """Rows of one version of an ORC file.

    Attributes:
        version: The file.
        storage: Where it is.
        options: How it is read.
        file_schema: All columns of the file.
        condition_schema: The columns that conditions may name: DataFusion has no unions.
        stripe_rows: The rows of each stripe of the file.
        stripes: The chosen stripes.
        columns: The chosen columns, by their place in `file_schema`.
        row_selection: Over the rows of the chosen stripes; None for all of them.
    """

    version: FileVersion
    storage: Storage
    options: ScanOptions
    file_schema: pa.Schema
    condition_schema: pa.Schema
    stripe_rows: tuple[int, ...]
    stripes: tuple[int, ...]
    columns: tuple[int, ...]
    row_selection: RowSelection | None = None

    @property
    def schema(self) -> pa.Schema:
        """The chosen columns."""
        chosen = [self.file_schema.field(index) for index in self.columns]
        return pa.schema(chosen, self.file_schema.metadata)

    @property
    def total_rows(self) -> int:
        """Rows of the chosen stripes, selected or not."""
        return sum(self.stripe_rows[index] for index in self.stripes)

    def with_stripes(self, stripes: Sequence[int]) -> OrcReader:
        """Only some stripes, in the given order.

        Raises:
            OptionError: There is no such stripe, or one is given twice.
        """
        unknown = [index for index in stripes if not 0 <= index < len(self.stripe_rows)]
        if unknown:
            raise OptionError(f"no stripe {unknown[0]} among {len(self.stripe_rows)}")
        if len(set(stripes)) < len(stripes):
            raise OptionError("a stripe is chosen twice")
        return dataclasses.replace(self, stripes=tuple(stripes))

    def with_row_selection(self, selection: RowSelection) -> OrcReader:
        """Only some rows of the chosen stripes.

        Args:
            selection: Over the rows of the chosen stripes; rows behind its end are not selected.
                That it is not too long is checked when rows are read, so that stripes may also be
                chosen later.
        """
        return dataclasses.replace(self, row_selection=selection)

    def with_columns(self, columns: Sequence[str]) -> OrcReader:
        """Only some top-level columns, in the given order.

        Raises:
            ColumnNotFoundError: There is no such column.
            OptionError: There are two columns of that name.
        """
        return dataclasses.replace(self, columns=tuple(map(self._column, columns)))

    def stripes_from_statistics(self, predicate: str) -> list[int]:
        """The chosen stripes in which a condition may hold, by their statistics.

        Args:
            predicate: A SQL condition in DataFusion's dialect.

        Raises:
            SqlError: It is not a condition.
            ColumnNotFoundError: It names a column that does not exist.
        """
        conjuncts = parse_condition(predicate, self.condition_schema)
        with self._opened() as file:
            left = prune_stripes(
                self._facts(file), file, self.condition_schema, conjuncts, self.options
            )
            file.check_read()
        return [index for index in self.stripes if left[index]]

    def row_selection_from_row_index(self, predicate: str) -> RowSelection:
        """The row groups in which a condition may hold: all their rows.

        Statistics of stripes are asked first, then row indexes and bloom filters of the stripes
        left. A selection set before does not matter: intersect with it.

        Args:
            predicate: A SQL condition in DataFusion's dialect.

        Returns:
            A selection over the rows of the chosen stripes.

        Raises:
            SqlError: It is not a condition.
            ColumnNotFoundError: It names a column that does not exist.
        """
        conjuncts = parse_condition(predicate, self.condition_schema)
        with self._opened() as file:
            facts, schema, options = self._facts(file), self.condition_schema, self.options
            left = prune_stripes(facts, file, schema, conjuncts, options)
            parts = [
                prune_row_groups(facts, file, schema, conjuncts, options, stripe=index)
                if left[index]
                else RowSelection.none(self.stripe_rows[index])
                for index in self.stripes
            ]
            file.check_read()
        ORC_FACTS.shrink(options.metadata_cache_bytes)
        return RowSelection.concat(parts)

    def scan_ranges(self) -> list[tuple[int, int]]:
        """The byte ranges of the row groups with selected rows: `(offset, length)`, as fetched.

        Neighbours are not coalesced. A run that crosses the last border of a row group may take a
        little more.
        """
        found = []
        with self._opened() as file:
            facts = self._facts(file)
            facts.check_readable(self.columns)
            for index, selection in self._selections():
                if selection.selects_any() and self.columns:
                    stripe = facts.load_stripe(file, index)
                    found += plan_row_ranges(facts, file, stripe, self.columns, selection)
            file.check_read()
        return [(wanted.offset, wanted.length) for wanted in found]

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The selected rows, in batches of at most `options.batch_rows` rows.

        Raises:
            OptionError: The selection covers more rows than the chosen stripes have.
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
                for batch in self._stripe_batches(facts, file, index, selection):
                    file.check_read()
                    for start in range(0, batch.num_rows, self.options.batch_rows):
                        yield batch.slice(start, self.options.batch_rows)
        ORC_FACTS.shrink(self.options.metadata_cache_bytes)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self.to_batches()

    def to_table(self) -> pa.Table:
        """The selected rows as a table."""
        return pa.Table.from_batches(self.to_batches(), self.schema)

    def _stripe_batches(
        self, facts: OrcFacts, file: LazyFile, index: int, selection: RowSelection
    ) -> Iterator[pa.RecordBatch]:
        if not self.columns:
            rows = pa.record_batch([pa.nulls(selection.row_count)], names=["rows"])
            return iter([rows.select([]).replace_schema_metadata(self.schema.metadata)])
        stripe = facts.load_stripe(file, index)
        return read_rows(facts, file, stripe, self.columns, selection)

    def _selections(self) -> list[tuple[int, RowSelection]]:
        """Each chosen stripe with the selection of its rows."""
        total, selection = self.total_rows, self.row_selection
        if selection is None:
            return [(index, RowSelection.all(self.stripe_rows[index])) for index in self.stripes]
        if selection.total_rows > total:
            raise OptionError(
                f"the selection covers {selection.total_rows} rows, the stripes have {total}"
            )
        rest = RowSelection.none(total - selection.total_rows)
        selection = RowSelection.concat([selection, rest])
        found, start = [], 0
        for index in self.stripes:
            stop = start + self.stripe_rows[index]
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

    def _opened(self) -> LazyFile:
        return LazyFile(self.storage, self.version)

    def _facts(self, file: LazyFile) -> OrcFacts:
        return ORC_FACTS.load(file, limit_bytes=self.options.metadata_cache_bytes)


def _has_union(data_type: pa.DataType) -> bool:
    if pa.types.is_union(data_type):
        return True
    return any(_has_union(data_type.field(i).type) for i in range(data_type.num_fields))
