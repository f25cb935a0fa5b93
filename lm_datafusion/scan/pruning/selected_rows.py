"""What metadata of one file leaves of a condition, without a plan of a scan.

In: conjuncts, and the facts of a file. Out: the row groups that statistics leave, or the rows of
row groups that page bounds and bloom filters leave as well.

Dictionaries are not asked, and neither is what earlier scans found: the answer depends on indexes
of the file alone.

Invariant: pruning fails open. Metadata that cannot be read, or does not fit a conjunct, leaves
everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lm_datafusion.metrics import ScanMetrics
from lm_datafusion.plan import FilePlan
from lm_datafusion.predicate.conjunct import bind_conjuncts
from lm_datafusion.scan.pruning.conjunction import Conjunction
from lm_datafusion.scan.pruning.file_pruning import plan_tasks
from lm_datafusion.scan.pruning.prune import PruningContext, prune_row_group
from lm_datafusion.selection import RowSelection

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lm_datafusion.formats.protocol import FileFacts
    from lm_datafusion.options import ScanOptions
    from lm_datafusion.plan import RowGroupAccess
    from lm_datafusion.predicate.conjunct import Conjunct
    from lm_datafusion.storage import OpenFile


class SelectedRows:
    """The rows of a file that metadata leaves.

    Args:
        facts: The file.
        schema: The columns that conjuncts may name.
        conjuncts: The condition.
        options: Which metadata is asked.

    Raises:
        SqlError: DataFusion rejects a conjunct.
    """

    def __init__(
        self,
        facts: FileFacts,
        schema: pa.Schema,
        conjuncts: Sequence[Conjunct],
        options: ScanOptions,
    ) -> None:
        columns = {name: facts.column_indices[name][0] for name in schema.names}
        bound = bind_conjuncts(conjuncts, schema)
        self._facts = facts
        self._context = PruningContext(
            facts=facts,
            file_plan=FilePlan(index=0, version=facts.version, columns=columns, constants={}),
            conjunction=Conjunction(bound, schema),
            options=options.with_changes(prune_dictionary=False, condition_cache_bytes=0),
            metrics=ScanMetrics(),
        )
        self._left: dict[int, RowGroupAccess] = {
            task.access.row_group: task.access for task in plan_tasks([self._context])
        }

    def has_any(self, row_group: int) -> bool:
        """Whether statistics leave a row group."""
        return row_group in self._left

    def load(self, row_group: int, file: OpenFile) -> RowSelection:
        """The rows of a row group that indexes and filters leave."""
        access = self._left.get(row_group)
        if access is None:
            return RowSelection.none(self._facts.row_count(row_group))
        return prune_row_group(access, self._context, file, {}).selection
