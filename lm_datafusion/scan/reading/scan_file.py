"""One file of a scan: the state shared by the readers of its row groups.

In: a plan, one of its files, the facts of the file. Out: columns of its row groups.

Invariant: the cached state depends on the file and the plan alone, so threads may share it. Two
threads may both compute it, which does no harm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lm_datafusion.scan.reading.columns import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lm_datafusion.formats.protocol import FileColumn
    from lm_datafusion.scan.pruning.prune import PruningContext
    from lm_datafusion.storage import LazyFile, OpenFile


class ScanFile:
    """A file, open for reading.

    Args:
        context: What pruning needs of it.
        file: Where pages come from.
        index_file: The same, for reads that count as metadata.
    """

    def __init__(self, context: PruningContext, file: LazyFile, index_file: OpenFile) -> None:
        self.context = context
        self.file = file
        self.index_file = index_file
        self._columns: dict[str, FileColumn | None] = {}

    def column(self, name: str, row_groups: Sequence[int]) -> Column:
        """A column of some row groups, in the table's type; reads nothing."""
        if name not in self._columns:
            self._columns[name] = self._make_column(name)
        stored = self._columns[name]
        plan, data_type = self.context.file_plan, self.context.schema.field(name).type
        if stored is None:
            return Column(name, data_type, constant=plan.constants.get(name))
        return Column(name, data_type, decoder=stored.open(row_groups), path=plan.version.path)

    def decoding(self, row_group: int) -> tuple[object, ...]:
        """How the scanned columns are decoded: row groups that are read as one must agree."""
        facts = self.context.facts
        return tuple(
            [
                facts.decoding(row_group, column)
                for column in self.context.file_plan.columns.values()
            ]
        )

    def _make_column(self, name: str) -> FileColumn | None:
        """A stored column; None if the file does not store it."""
        index = self.context.file_plan.columns.get(name)
        if index is None:
            return None
        return self.context.facts.open_column(
            index,
            self.context.schema.field(name).type,
            (self.file, self.index_file),
            self.context.metrics,
            verify_checksums=self.context.options.verify_checksums,
        )
