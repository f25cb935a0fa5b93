"""Everything a scan needs, frozen and picklable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from lm_datafusion.options import ScanOptions
    from lm_datafusion.plan.access_plan import RowGroupAccess
    from lm_datafusion.plan.ordering import BestKey, FirstRows
    from lm_datafusion.plan.row_filter import RowFilter
    from lm_datafusion.storage import FileVersion, Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlan:
    """One file: which of its columns are which of the table's, and what it does not store.

    Attributes:
        place: Its place among the files of the table.
        version: The file the plan was made for.
        columns: Table column to top-level column of the file.
        constants: Table columns with one value for the whole file: partitions, and null for
            columns the file does not have.
    """

    place: int
    version: FileVersion
    columns: Mapping[str, int]
    constants: Mapping[str, pa.Scalar]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """Some row groups of one version of a file."""

    version: FileVersion
    row_groups: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroupTask:
    """One row group to scan.

    Attributes:
        file: The file it is in.
        access: The rows left of it.
        best: The best sort key it can hold, where first rows of an order are wanted.
        is_part: Whether another task has rows of the same row group, and counts its pages.
    """

    file: FilePlan
    access: RowGroupAccess
    best: BestKey | None = None
    is_part: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """The row groups left after pruning by statistics, and what to do in each.

    Attributes:
        storage: Where the files are.
        schema: The result: columns and types, in order.
        filter_schema: Columns and types that conjuncts are bound to.
        row_filter: The filter chain.
        tasks: Row groups, in the order of the result.
        options: How to scan.
        is_reverse: Whether rows come from the last to the first.
        limit: After how many rows the scan stops.
        first: Of the rows that match, those that can be among the first of an order.
    """

    storage: Storage
    schema: pa.Schema
    filter_schema: pa.Schema
    row_filter: RowFilter
    tasks: tuple[RowGroupTask, ...]
    options: ScanOptions
    is_reverse: bool = False
    limit: int | None = None
    first: FirstRows | None = None
