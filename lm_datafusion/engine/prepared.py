"""Statements that run again: plans that are ready to run, over the row groups that can matter.

In: the frame that serves a statement. Out: a `PreparedPlan`, which needs no planning.

DataFusion plans a statement anew each time, cuts all files of a table into as many parts as there
are partitions, and rules row groups out when it opens them; what is left is often in one part, and
then one core works. A plan is serialised once, and its scans get only the row groups that survive
our pruning, each as a part of its own, so that partitions share them. So do scans of all row groups
whose columns are unevenly spread: DataFusion cuts files by the bytes of all columns, and text that
is read alone may be mostly in one part.

Only plans that come back from their serialised form as they were are used, of nodes that are known
to. Filters that DataFusion changes while it runs do not: such plans are not prepared. Which reader
suits them can still be tried (`can_be_tried`).

Invariant: a prepared plan gives the rows that the frame gives, as long as its files stay the same.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from datafusion import ExecutionPlan

from lm_datafusion.engine.choice import weight_per_row
from lm_datafusion.engine.parquet_scan import (
    FileRange,
    group_count,
    is_parquet_scan,
    leaves_of,
    listed_files,
    over_ranges,
    without_statistics,
)
from lm_datafusion.engine.plan_scans import to_conjuncts
from lm_datafusion.engine.protobuf import replaced
from lm_datafusion.engine.tables import as_exact_table
from lm_datafusion.engine.trial import ReadyPlan
from lm_datafusion.errors import LateError
from lm_datafusion.scan import load_facts
from lm_datafusion.scan.survivors import find_survivors
from lm_datafusion.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from datafusion import DataFrame, SessionContext

    from lm_datafusion.engine.routing import RoutedReference
    from lm_datafusion.engine.run_reports import RunReports
    from lm_datafusion.scan.survivors import Survivor

_NODE = re.compile(r"^ *(\w+)", re.MULTILINE)
# Nodes that come back from their serialised form as they were.
_NODES = frozenset(
    {
        "AggregateExec",
        "CoalesceBatchesExec",
        "CoalescePartitionsExec",
        "CooperativeExec",
        "DataSourceExec",
        "FilterExec",
        "GlobalLimitExec",
        "LocalLimitExec",
        "PlaceholderRowExec",
        "ProjectionExec",
        "RepartitionExec",
        "SortExec",
        "SortPreservingMergeExec",
    }
)
# What a serialised plan loses: half floats become floats, and literals lose their metadata.
_LOST = ("Float16", "FieldMetadata")
_LIMITS = {"GlobalLimitExec", "LocalLimitExec"}
_SORTED = {"SortExec", "SortPreservingMergeExec"}
# Nodes that may stop after some rows of those they pass on, and how they and scans say so.
_PASSING = {"CoalesceBatchesExec", "CoalescePartitionsExec", "FilterExec"}
_STOPS = re.compile(r"\bfetch=\d+$")
_SCAN_STOPS = re.compile(r"\}, (?:[^{}]*, )?limit=\d+,")
# A scan of more parts spends its time opening them.
MOST_PARTS = 512
# The share of row groups up to which a scan gets parts of its own.
_NARROW = 0.5
# How much heavier than their mean the heaviest of DataFusion's parts may be, about.
_UNEVEN = 1.1


@dataclass(slots=True, eq=False, kw_only=True)
class PreparedPlan(ReadyPlan):
    """A plan that needs no planning; `serialised` is all of it."""

    serialised: bytes

    def _collect(self, context: SessionContext, run: RunReports) -> list[pa.RecordBatch]:  # noqa: ARG002
        plan = ExecutionPlan.from_bytes(context, self.serialised)
        return [batch.to_pyarrow() for batch in context.execute(plan, 0)]


def prepare(
    context: SessionContext, frame: DataFrame, references: tuple[RoutedReference, ...]
) -> PreparedPlan | None:
    """The plan of a frame, made ready; None for one that is not to be prepared.

    Args:
        context: The session.
        frame: What serves the statement; its tables are in the catalog.
        references: The tables it reads: all of them.
    """
    try:
        plan = frame.execution_plan()
        if not _can_be_prepared(plan):
            return None
        serialised = plan.to_bytes(context)
        again = ExecutionPlan.from_bytes(context, serialised)
        if again.display_indent() != plan.display_indent() or _loses_types(frame):
            return None
        for leaf in leaves_of(plan):
            if is_parquet_scan(leaf):
                old = leaf.to_bytes(context)
                new = _narrowed(old, _reference_of(old, references))
                serialised = replaced(serialised, old, new)
    except (ValueError, LateError):
        return None
    except Exception:  # noqa: BLE001 DataFusion says in classes of its own that it cannot
        return None
    return PreparedPlan(references=references, serialised=serialised)


def _loses_types(frame: DataFrame) -> bool:
    """Whether a frame has values that do not come back from a serialised plan as they were."""
    printed = frame.optimized_logical_plan().display_indent_schema()
    return any(word in printed for word in _LOST)


def can_be_tried(plan: ExecutionPlan) -> bool:
    """Whether a plan gives the same rows by whichever of DataFusion's readers.

    Which rows a LIMIT without an order takes should not depend on how often it was asked for.
    """
    lines = plan.display_indent().splitlines()
    nodes = [match[1] if (match := _NODE.match(line)) else "" for line in lines]
    has_order = not {"AggregateExec", "SortExec", "PlaceholderRowExec"}.isdisjoint(nodes)
    is_any = any(
        (node in _LIMITS and after not in _SORTED)
        or (node in _PASSING and _STOPS.search(line))
        or (node == "DataSourceExec" and _SCAN_STOPS.search(line))
        for node, after, line in zip(nodes, [*nodes[1:], ""], lines, strict=True)
    )
    return has_order and not is_any and set(nodes) <= _NODES


def _can_be_prepared(plan: ExecutionPlan) -> bool:
    is_one = plan.partition_count == 1
    return is_one and can_be_tried(plan) and all(map(_can_be_cut_loose, leaves_of(plan)))


def _can_be_cut_loose(leaf: ExecutionPlan) -> bool:
    """Whether a leaf reads files, or nothing, whatever else runs and in whatever order."""
    said = leaf.display()
    if not is_parquet_scan(leaf):
        return said.startswith("PlaceholderRowExec")
    bonds = ("DynamicFilter", "output_ordering", "limit=", "sort_order_for_reorder")
    return not any(bond in said for bond in bonds)


def _reference_of(leaf: bytes, references: tuple[RoutedReference, ...]) -> RoutedReference | None:
    """The reference that a scan serves; None if that is not sure."""
    files = set(listed_files(leaf) or ())
    found = [r for r in references if set(r.table.files) == files]
    if not found:
        raise ValueError("a scan of other files")
    return found[0] if len(found) == 1 else None


def _narrowed(leaf: bytes, reference: RoutedReference | None) -> bytes:
    """A scan of the row groups that can matter, in parts that partitions can share."""
    if reference is None:
        return without_statistics(leaf)
    try:
        total = _row_group_count(reference)
        if total > MOST_PARTS and not reference.filters:
            return without_statistics(leaf)
        survivors = _survivors(reference)
        weights = [_weight(survivor, reference) for survivor in survivors]
    except LateError:
        return without_statistics(leaf)
    partitions = group_count(leaf)
    # What is left of a table that is mostly ruled out is in few of DataFusion's own parts.
    is_uneven = len(survivors) <= _NARROW * total or _unevenness(weights, partitions) > _UNEVEN
    if len(survivors) > MOST_PARTS or not is_uneven:
        return without_statistics(leaf)
    parts = [FileRange(s.path, s.start, s.start + 1) for s in survivors]
    edges = _even_edges(weights, partitions)
    return over_ranges(leaf, [parts[a:b] for a, b in itertools.pairwise(edges)])


def _survivors(reference: RoutedReference) -> list[Survivor]:
    table, options = reference.table, reference.route.options
    names = {reference.own_name or table.name[-1], *table.printed_names}
    conjuncts = to_conjuncts(reference.filters, names, table.schema)
    return find_survivors(as_exact_table(table, options), conjuncts, options)


def _weight(survivor: Survivor, reference: RoutedReference) -> float:
    """What decoding the rows left of a row group weighs."""
    facts = load_facts(LocalStorage(), survivor.path, reference.route.options)
    weight = weight_per_row(facts, survivor.row_group, reference.columns)
    return survivor.rows_left * sum(weight.values())


def _row_group_count(reference: RoutedReference) -> int:
    options = reference.route.options
    return sum(
        load_facts(LocalStorage(), file.path, options).num_row_groups
        for file in reference.table.files
    )


def _unevenness(weights: Sequence[float], partitions: int) -> float:
    """The weight of the heaviest of as many parts of the same length, over their mean.

    That is near to what DataFusion makes of files, which it cuts by bytes of all columns.
    """
    total = sum(weights)
    if not total:
        return 1.0
    edges = [len(weights) * place // partitions for place in range(partitions + 1)]
    return max(sum(weights[a:b]) for a, b in itertools.pairwise(edges)) / (total / partitions)


def _even_edges(weights: Sequence[float], partitions: int) -> list[int]:
    """Where to cut a sequence into parts that weigh about the same."""
    sums = np.cumsum([0.0, *weights])
    wanted = sums[-1] * np.arange(1, partitions) / partitions
    edges = np.abs(sums[:, None] - wanted).argmin(axis=0)
    # Whatever weights are: a row group belongs to one part.
    return [0, *np.maximum.accumulate(edges).tolist(), len(weights)]
