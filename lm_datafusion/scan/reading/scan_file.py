"""One file of a scan: what the readers of its row groups share.

In: a plan, a file of it, its facts. Out: columns of its row groups.

Invariant: what is kept depends on the file and the plan alone, so that threads may share it; two of
them may both make it, which does no harm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lm_datafusion.formats.parquet.decode import FileColumn
from lm_datafusion.scan.reading.columns import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lm_datafusion.scan.pruning.prune import PruningContext
    from lm_datafusion.storage import OpenFile


class ScanFile:
    """A file, open for reading.

    Args:
        context: What pruning needs of it.
        file: Where pages come from.
        index_file: The same for what counts as metadata.
    """

    def __init__(self, context: PruningContext, file: OpenFile, index_file: OpenFile) -> None:
        self.context = context
        self.file = file
        self.index_file = index_file
        self._columns: dict[str, FileColumn | None] = {}

    def column(self, name: str, row_groups: Sequence[int]) -> Column:
        """A column of some row groups, in the type of the table; reads nothing."""
        if name not in self._columns:
            self._columns[name] = self._make_column(name)
        stored = self._columns[name]
        plan = self.context.file_plan
        if stored is None:
            data_type = self.context.schema.field(name).type
            return Column(name, data_type, constant=plan.constants.get(name))
        return Column(name, stored.given, decoder=stored.open(row_groups), path=plan.version.path)

    def decoding(self, row_group: int) -> tuple[object, ...]:
        """How the columns in play are decoded: those of row groups read as one have to agree."""
        facts = self.context.facts
        return tuple(
            [
                (chunk.codec, chunk.kernel_pages is None)
                for column in self.context.file_plan.columns.values()
                for chunk in facts.chunks_of(row_group, column)
            ]
        )

    def _make_column(self, name: str) -> FileColumn | None:
        """A column that the file stores; None for one that it does not."""
        index = self.context.file_plan.columns.get(name)
        if index is None:
            return None
        return FileColumn(
            self.context.facts,
            index,
            self.context.schema.field(name).type,
            (self.file, self.index_file),
            self.context.metrics,
        )
