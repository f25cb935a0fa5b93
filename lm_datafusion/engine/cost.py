"""What it costs DataFusion's reader, and ours, to read a table.

In: what a query asks of a table; sizes from footers; shares of rows that filters keep. Out:
processor seconds, comparable between paths.

A reader decompresses pages, decodes values and hands them over. DataFusion's reader does all
three for every row of every column in the row groups that statistics leave. Ours tests the columns
of filters in their pages, decompresses the other columns, and decodes and hands over only the rows
that pass.

The constants are nanoseconds on one core, fitted to what `python -m tests.benchmark.bench_costs`
prints; those per statement and per row group to ClickBench's short queries (19, 36 to 42). What
counts is their ratio.

Both readers prune by the page index and bloom filters; how many rows that leaves is known once our
scan has run. Shares come from earlier scans. Where the choice depends on a share that no scan has
measured, and the query is long enough, a few pages are read.

Invariant: a cost is about speed only; every path gives the same rows.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from lm_datafusion.metrics import ScanMetrics
from lm_datafusion.plan import ScanRequest
from lm_datafusion.scan import (
    cached_share,
    expected_rows,
    is_known,
    known_steps,
    load_facts,
    plan_scan,
    sample_steps,
)
from lm_datafusion.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lm_datafusion.engine.query import TableUse
    from lm_datafusion.plan import ReadPlan

_NS = 1e-9
# Decoding a value and handing it over, and the same per byte of it.
VALUE_NS = 5.0
TEXT_NS = 12.0
BYTE_NS = 0.3
# Decompressing a page, per byte that comes out.
DECOMPRESS_NS = 0.8
# Testing a value in its page, without decoding it.
TEST_NS = 3.0
# Turning a row that passes into a position to read other columns at.
SELECT_NS = 9.0
# What our scan takes per statement and per row group, in Python, and what DataFusion's takes per
# row group: page index, bloom filters, decoders.
STATEMENT_S = 2e-3
ROW_GROUP_S = 0.1e-3
NATIVE_ROW_GROUP_S = 0.2e-3
# The share of DataFusion's cost that ours may have: an estimate is not exact.
PAYS = 0.8
# Below this cost a query that runs for the first time is DataFusion's.
SHORT_S = 0.1
# Below these costs a few pages are not worth reading to know the cost better, for they take 10 to
# 30 ms: of a query that runs for the first time, and of one that runs again.
SAMPLE_S = 0.1
SAMPLE_AGAIN_S = 5e-3


class ColumnSize(NamedTuple):
    """Decoding the values of a row, whatever their length, and their uncompressed bytes."""

    values_ns: float
    bytes_per_row: float

    @property
    def decode_ns(self) -> float:
        """Decoding one row, once its pages are decompressed."""
        return self.values_ns + BYTE_NS * self.bytes_per_row

    @property
    def decompress_ns(self) -> float:
        """Decompressing the pages, per row."""
        return DECOMPRESS_NS * self.bytes_per_row


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanCost:
    """What reading a table costs.

    Attributes:
        native_s: DataFusion's reader.
        late_s: Ours.
        rows: Rows that pruning leaves, as far as it is known.
        kept_share: The share of those that are expected to pass.
        is_guess: Whether rows or share were never measured.
    """

    native_s: float
    late_s: float
    rows: int
    kept_share: float
    is_guess: bool = False


def scan_cost(use: TableUse, *, may_sample: bool = True, is_new: bool = True) -> ScanCost:
    """Estimates a scan of one table.

    Args:
        use: What is asked of it.
        may_sample: Whether a few pages may be read.
        is_new: Whether the query has not run before.

    Raises:
        LateError: A file cannot be read by us.
    """
    request = ScanRequest(conjuncts=use.conjuncts, columns=use.columns)
    table = use.table.as_exact_table(use.options)
    plan = plan_scan(table, request, use.options, ScanMetrics())
    sizes = column_sizes(use, {*use.columns, *use.filter_columns})
    measured = {index: found.kept_share for index, found in known_steps(plan).items()}
    unmeasured = {s.index: s.selectivity for s in plan.row_filter.steps if s.index not in measured}
    cost = _cost(use, plan, sizes, unmeasured | measured)
    # The choice may be the same whatever the shares that nobody has measured.
    extremes = (_cost(use, plan, sizes, dict.fromkeys(unmeasured, s) | measured) for s in (0.0, 1))
    is_settled = not unmeasured or not plan.tasks
    if is_settled or len({c.late_s <= PAYS * c.native_s for c in extremes}) == 1:
        return cost
    if may_sample and cost.native_s >= (SAMPLE_S if is_new else SAMPLE_AGAIN_S):
        measured |= {index: found.kept_share for index, found in sample_steps(plan).items()}
        return _cost(use, plan, sizes, unmeasured | measured)
    return dataclasses.replace(cost, is_guess=True)


def is_short(use: TableUse) -> bool:
    """Whether DataFusion reads a table so fast that planning our own scan for it would show.

    Planning reads every footer. One tells roughly what the whole table would cost. A table whose
    footers are known is planned in no time, so it does not count as short.

    Raises:
        LateError: The file cannot be read by us.
    """
    files = use.table.files
    if use.table.is_remote or is_known(LocalStorage(), files[-1].path):
        return False
    facts = load_facts(LocalStorage(), files[0].path, use.options)
    rows = facts.row_counts.sum() * use.table.size_bytes / max(files[0].size, 1)
    sizes = column_sizes(use, {*use.columns, *use.filter_columns})
    return bool(rows * row_ns(sizes.values()) * _NS < SHORT_S)


def column_sizes(use: TableUse, names: Iterable[str]) -> dict[str, ColumnSize]:
    """Sizes of columns, as the first row group of the first file has them."""
    facts = load_facts(use.table.as_table().storage, use.table.files[0].path, use.options)
    if not facts.num_row_groups or not facts.row_count(0):
        return dict.fromkeys(names, ColumnSize(0.0, 0.0))
    sizes = {}
    for name in names:
        column = facts.schema.get_field_index(name)
        chunks = facts.chunks_of(0, column) if column >= 0 else []
        size = sum(chunk.uncompressed_bytes for chunk in chunks)
        values_ns = sum(TEXT_NS if chunk.is_text else VALUE_NS for chunk in chunks)
        # A size is whatever the footer says, even negative.
        sizes[name] = ColumnSize(values_ns, max(0, size) / facts.row_count(0))
    return sizes


def fixed_s(row_groups: int) -> float:
    """What our scan takes in Python, however few rows there are."""
    return STATEMENT_S + ROW_GROUP_S * row_groups


def row_ns(sizes: Iterable[ColumnSize]) -> float:
    """Decompressing and decoding one row of some columns."""
    return sum(size.decompress_ns + size.decode_ns for size in sizes)


def _cost(
    use: TableUse, plan: ReadPlan, sizes: Mapping[str, ColumnSize], kept: Mapping[int, float]
) -> ScanCost:
    """The cost if every filter step keeps its share of rows."""
    found, known, steps = expected_rows(plan), cached_share(plan), plan.row_filter.steps
    rows = sum(task.access.row_count for task in plan.tasks) if found is None else found
    late_ns, share, tested = 0.0, 1.0, set[str]()
    if steps and plan.tasks and known.row_groups_known == known.row_groups:
        share = known.rows_known / max(rows, 1)
    else:
        for step in steps:
            for name in step.conjunct.columns:
                late_ns += rows * share * TEST_NS
                late_ns += 0.0 if name in tested else rows * sizes[name].decompress_ns
            tested.update(step.conjunct.columns)
            share *= kept[step.index]
    for name in use.columns:
        late_ns += rows * sizes[name].decompress_ns if share and name not in tested else 0.0
        late_ns += rows * share * sizes[name].decode_ns
    late_ns += rows * share * SELECT_NS if tested else 0.0
    return ScanCost(
        native_s=NATIVE_ROW_GROUP_S * len(plan.tasks) + rows * row_ns(sizes.values()) * _NS,
        late_s=fixed_s(len(plan.tasks)) + late_ns * _NS,
        rows=rows,
        kept_share=share,
        is_guess=found is None,
    )
