"""Which reader serves a table, where the user leaves it open.

In: what a plan asks of a table, and the sizes in the footer of its first file. Out: a path and its
reason.

DataFusion's own reader is the rule: where the columns of the filter are most of what is read, to
read them first saves nothing and costs a second look (about 20 of ClickBench's 43 queries get
slower so). The exceptions are queries that read much besides:

- the first rows of an order, where bounds tell which pages can hold them: our own scan;
- the first rows of an order, or some groups, which are found first and read then
  (`engine.two_phases`);
- filters of which the first ones drop most rows, before the others and the rest are decoded:
  DataFusion's reader, with filter pushdown.

A statement that runs again is measured, and the fastest reader goes on
(`engine.prepared`): then this is only the first guess.

Weights are of decoding, which is what takes time on local files: a value costs as much as five of
its stored, uncompressed bytes (4.5 ns and 0.9 ns where `SELECT *` of ClickBench's 105 columns was
measured against the two columns of its filter and order).

Invariant: a choice is about speed only; every path gives the same rows.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from lm_datafusion.engine.any_rows import AnyRows
from lm_datafusion.engine.first_groups import FirstGroups
from lm_datafusion.engine.plan_scans import (
    common_filters,
    is_named,
    scanned_columns,
    to_conjuncts,
)
from lm_datafusion.engine.tables import as_exact_table
from lm_datafusion.engine.top_k import TopK
from lm_datafusion.errors import LateError
from lm_datafusion.metrics import ScanMetrics
from lm_datafusion.plan import ScanRequest
from lm_datafusion.scan import (
    cached_share,
    known_steps,
    load_facts,
    plan_scan,
    sample_seconds,
    sample_steps,
)
from lm_datafusion.scan.planning.visit_estimate import estimate_visits
from lm_datafusion.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from datafusion import Expr

    from lm_datafusion.engine.plan_scans import PlannedScan
    from lm_datafusion.engine.tables import ParquetTable
    from lm_datafusion.engine.two_phases import TwoPhases
    from lm_datafusion.formats.parquet.footer import FileFacts
    from lm_datafusion.options import AccessPath, ScanOptions
    from lm_datafusion.plan import FirstRows, ReadPlan
    from lm_datafusion.scan.planning.visit_estimate import VisitEstimate

VALUE_WEIGHT = 5.0
# To find the group of a row costs as much as so many bytes (1.1 s of CPU for 10 million rows of
# ClickBench's Q17, of which 15 bytes a row are decoding).
GROUP_WEIGHT = 100.0
# What a second query costs in any case: some milliseconds.
SECOND_QUERY_WEIGHT = 10_000_000
# Our own scan decodes with PyArrow, which takes about so many times as long as DataFusion's
# reader, and Python takes a few milliseconds for each row group.
LATE_WEIGHT = 3.0
ROW_GROUP_WEIGHT = 5_000_000
# The share of DataFusion's time that our scan may take: then a wrong guess costs no more.
WALK_PAYS = 0.3
# How many times the columns that have to be read for every row the others have to weigh, for a
# second pass over the file to be worth a thought.
WIDE = 4.0
# To filter a row and order what is left, besides decoding it (40 ns a row where two columns of
# whole numbers were read with filter pushdown, for the first rows of an order).
LOOK_WEIGHT = 25.0
# How many times as long as two passes over some columns one pass over all of them has to be
# expected to take: what is expected was seen to be up to twice as long as it is.
TWO_PASSES_PAY = 2.0
# What is left after statistics may weigh so much without a second look: about 20 ms on one core.
SECOND_LOOK_WEIGHT = 20_000_000
# A filter that statistics answer for all but this share of rows is on a column in some order, and
# then the page index leaves little that does not match.
CLUSTERED = 0.5
# The share of rows up to which to fetch those that are known to pass is faster than to read all.
KNOWN_PAYS = 0.05
# The share of values up to which a filter inside the reader pays: it looks at rows one by one.
PUSHDOWN_PAYS = 0.4
# A limit up to which a scan is expected to stop soon.
FEW_ROWS = 10_000
# A table may weigh so much without a thought: about 0.2 s on one core.
SMALL_WEIGHT = 200_000_000
# Two row groups are scanned to know what a scan of all would cost: they have to be a small part.
FEWEST_ROW_GROUPS = 16
PUSHDOWN_BUG = "filter pushdown under a join loses rows in DataFusion 55"
DELTA_BUG = "DataFusion 55 cannot skip values in delta-encoded pages of some writers"


@dataclass(frozen=True, slots=True)
class Weights:
    """What decoding a row costs: of columns read for every row, and of the others."""

    narrow: float
    rest: float

    @property
    def ratio(self) -> float:
        """How many times the others weigh."""
        return self.rest / max(self.narrow, 1.0)


class Choice(NamedTuple):
    """A path and why.

    Attributes:
        path: Which reader.
        reason: Why.
        first: On our own path: only these rows are wanted.
        is_for_once: Whether to choose anew the next time.
    """

    path: AccessPath
    reason: str
    first: FirstRows | None = None
    is_for_once: bool = False


def choose_path(
    table: ParquetTable,
    scans: list[PlannedScan],
    wanted: TwoPhases | AnyRows | None,
    options: ScanOptions,
    *,
    can_push: bool,
) -> Choice:
    """A path and why.

    Args:
        table: The table.
        scans: What the plan asks of it.
        wanted: The whole query, if it can be read in two phases, or any of its rows will do.
        options: How to read footers.
        can_push: Whether DataFusion's reader may be given filters here.
    """
    columns = scanned_columns(scans)
    if isinstance(wanted, TopK):
        walk = _walk(table, columns, scans, wanted, options)
        if walk is not None:
            return walk
    if isinstance(wanted, TopK | FirstGroups):
        reason = _why_two_phases(table, columns, wanted, options)
        if reason:
            return Choice("row_fetch", reason)
    filters = common_filters(scans)
    if not filters:
        return Choice("native", "no filter to apply early")
    some = wanted if isinstance(wanted, AnyRows) else None
    return _by_filters(table, columns, filters, options, some, can_push=can_push)


def _by_filters(
    table: ParquetTable,
    columns: Collection[str],
    filters: Sequence[Expr],
    options: ScanOptions,
    some: AnyRows | None,
    *,
    can_push: bool,
) -> Choice:
    """Which reader suits a table with these filters."""
    weight = _weights(table, columns, columns, options).narrow
    if _row_count(table, options) * weight < SMALL_WEIGHT:
        return Choice("native", "the table is small")
    conjuncts = to_conjuncts(filters, table.printed_names, table.schema)
    plan = plan_scan(table.as_table(), ScanRequest(conjuncts=conjuncts), options, ScanMetrics())
    if len(conjuncts) == len(filters):
        choice = _by_known_rows(plan, weight, can_learn=some is None)
        if choice is not None:
            return choice
    said = " ".join(map(str, filters))
    is_one = len(filters) == 1 or some is not None
    if is_one and all(is_named(column, said) for column in columns):
        return Choice("native", "no column besides those of the filter")
    if not can_push:
        return Choice("native", PUSHDOWN_BUG)
    if has_delta_pages(table, columns, options):
        return Choice("native", DELTA_BUG)
    if some is not None and some.row_count <= FEW_ROWS:
        # A filter that passes much stops any reader soon; one that passes little makes it go far,
        # and then what is read besides the filter's columns is what counts.
        what = f"any {some.row_count:,} rows will do, and the other columns are read for those only"
        return Choice("native_pushdown", what)
    return _pushed_or_not(table, columns, plan, weight)


def _by_known_rows(plan: ReadPlan, weight: float, *, can_learn: bool) -> Choice | None:
    """Our own scan, if the condition cache knows the rows, or is to know them from now on.

    Args:
        plan: With all conditions.
        weight: What decoding a row weighs.
        can_learn: Whether a scan would see all rows.
    """
    options = plan.options
    rows = sum(task.access.row_count for task in plan.tasks)
    if not options.condition_cache_bytes or rows * weight < SMALL_WEIGHT:
        return None
    known = cached_share(plan)
    if known.row_groups_known < known.row_groups:
        may_learn = can_learn and options.remember_conditions
        if not may_learn or _share_kept(plan) > KNOWN_PAYS:
            return None
        reason = "its conditions are evaluated by our own scan, to be known from then on"
        return Choice("late", reason, is_for_once=True)
    if known.rows_known > KNOWN_PAYS * rows:
        return None
    return Choice("late", f"its conditions are known: at most {known.rows_known:,} rows pass")


def _share_kept(plan: ReadPlan) -> float:
    """The share of rows that pass all conditions, as far as some pages tell."""
    found = known_steps(plan)
    if len(found) < len(plan.row_filter.steps):
        found = found | sample_steps(plan)
    return math.prod(
        found[step.index].kept_share if step.index in found else step.selectivity
        for step in plan.row_filter.steps
    )


def late_seconds(
    table: ParquetTable, columns: Collection[str], filters: Sequence[Expr], options: ScanOptions
) -> float:
    """How long our own scan would take, measured on a part; infinitely long where it cannot pay.

    It can for tables that take a while and filters that leave little.

    Args:
        table: The table.
        columns: What is read of it.
        filters: What its rows have to meet.
        options: How it would be scanned.
    """
    conjuncts = to_conjuncts(filters, table.printed_names, table.schema)
    if not filters or len(conjuncts) < len(filters):
        return math.inf
    request = ScanRequest(conjuncts=conjuncts, columns=tuple(columns))
    plan = plan_scan(table.as_table(), request, options, ScanMetrics())
    rows = sum(task.access.row_count for task in plan.tasks)
    weight = _weights(table, columns, columns, options).narrow
    is_small = rows * weight < SMALL_WEIGHT or len(plan.tasks) < FEWEST_ROW_GROUPS
    if is_small or _share_kept(plan) > KNOWN_PAYS:
        return math.inf
    return sample_seconds(plan) / min(options.worker_count, len(plan.tasks))


def _pushed_or_not(
    table: ParquetTable, columns: Collection[str], plan: ReadPlan, weight: float
) -> Choice:
    """DataFusion's reader with filter pushdown, or without."""
    options = plan.options
    rows = sum(task.access.row_count for task in plan.tasks)
    if rows * weight < SECOND_LOOK_WEIGHT:
        return Choice("native", f"statistics leave {rows:,} rows only")
    if rows <= CLUSTERED * _row_count(table, options) and _has_page_index(table, plan, options):
        return Choice("native", f"statistics leave {rows:,} rows, and of those pages go next")
    share, said = _share_decoded(table, columns, plan, rows * weight)
    what = f"with filter pushdown {said} of the values would be decoded"
    if share > PUSHDOWN_PAYS:
        return Choice("native", f"{what}: too many to look at rows one by one")
    return Choice("native_pushdown", what)


def _share_decoded(
    table: ParquetTable, columns: Collection[str], plan: ReadPlan, weight: float
) -> tuple[float, str]:
    """The share of values that filter pushdown would decode, and that in words.

    Where what a filter drops decides, and nobody has measured it, a few pages are read.

    Args:
        table: The table.
        columns: What is read of it.
        plan: With all conditions.
        weight: What decoding all of it weighs.
    """
    known = {index: found.kept_share for index, found in known_steps(plan).items()}
    places = [step.index for step in plan.row_filter.steps]
    least, most = (
        _share_left(table, columns, plan, dict.fromkeys(places, kept) | known)
        for kept in (0.0, 1.0)
    )
    if least > PUSHDOWN_PAYS:
        return least, f"at least {least:.0%}"
    if most <= PUSHDOWN_PAYS:
        return most, f"at most {most:.0%}"
    if weight >= SMALL_WEIGHT:
        known |= {index: found.kept_share for index, found in sample_steps(plan).items()}
    guessed = {step.index: step.selectivity for step in plan.row_filter.steps}
    share = _share_left(table, columns, plan, guessed | known)
    return share, f"{'as measured' if known else 'at a guess'} about {share:.0%}"


def _share_left(
    table: ParquetTable, columns: Collection[str], plan: ReadPlan, kept: Mapping[int, float]
) -> float:
    """The share of values decoded if every filter step keeps its share of rows."""
    left, weight, seen = 1.0, 0.0, set[str]()
    weights = _column_weights(table, columns, plan.options)
    for step in plan.row_filter.steps:
        fresh = {name for name in step.conjunct.columns if name not in seen}
        weight += left * sum(weights.get(name, 0.0) for name in fresh)
        seen |= fresh
        left *= kept[step.index]
    weight += left * sum(value for name, value in weights.items() if name not in seen)
    return weight / max(sum(weights.values()), 1.0)


def _has_page_index(table: ParquetTable, plan: ReadPlan, options: ScanOptions) -> bool:
    """Whether the filter's columns have one, in the first file."""
    facts = load_facts(LocalStorage(), table.files[0].path, options)
    names = {name for step in plan.row_filter.steps for name in step.conjunct.columns}
    columns = [facts.schema.get_field_index(name) for name in names]
    return bool(facts.num_row_groups) and all(
        column >= 0 and chunk.metadata.has_column_index
        for column in columns
        for chunk in facts.chunks_of(0, max(column, 0))
    )


def has_delta_pages(table: ParquetTable, columns: Collection[str], options: ScanOptions) -> bool:
    """Whether a column has pages in a delta encoding, in the first row group of the first file."""
    facts = load_facts(LocalStorage(), table.files[0].path, options)
    places = [facts.schema.get_field_index(name) for name in columns]
    return bool(facts.num_row_groups) and any(
        encoding.startswith("DELTA_")
        for place in places
        if place >= 0
        for chunk in facts.chunks_of(0, place)
        for encoding in chunk.metadata.encodings
    )


def _row_count(table: ParquetTable, options: ScanOptions) -> int:
    return sum(
        load_facts(LocalStorage(), file.path, options).metadata.num_rows for file in table.files
    )


def _why_two_phases(
    table: ParquetTable, columns: Collection[str], phases: TwoPhases, options: ScanOptions
) -> str:
    """Why two phases pay; nothing if they do not."""
    if isinstance(phases, FirstGroups):
        weights = _weights(table, columns, (), options)
        if _row_count(table, options) * (weights.rest + GROUP_WEIGHT) < SMALL_WEIGHT:
            return ""
        return f"any {phases.row_count} groups will do, so rows of others need not be grouped"
    if not _may_take_two_phases(table, columns, phases, options):
        return ""
    weights = _weights(table, columns, {phases.key, *phases.filter_columns}, options, copied=True)
    one_pass = weights.narrow + weights.rest + LOOK_WEIGHT
    times = one_pass / (2 * (weights.narrow + LOOK_WEIGHT))
    if times < TWO_PASSES_PAY:
        return ""
    return (
        f"the columns besides those of filter and order weigh {weights.ratio:.1f} times as"
        " much as those, and are needed for the first rows only: to read all of all rows would"
        f" take about {times:.1f} times as long"
    )


def _may_take_two_phases(
    table: ParquetTable, columns: Collection[str], top_k: TopK, options: ScanOptions
) -> bool:
    """Whether the first rows of an order are wide, and two phases are possible."""
    weights = _weights(table, columns, {top_k.key, *top_k.filter_columns}, options)
    is_small = _row_count(table, options) * weights.rest < SECOND_QUERY_WEIGHT
    return weights.ratio >= WIDE and not is_small and top_k.can_list_keys


def _walk(
    table: ParquetTable,
    columns: Collection[str],
    scans: list[PlannedScan],
    top_k: TopK,
    options: ScanOptions,
) -> Choice | None:
    """Our own scan, if bounds lead it to the first rows; it gives up where they led it astray."""
    weights = _weights(table, columns, {top_k.key, *top_k.filter_columns}, options)
    if _row_count(table, options) * (weights.narrow + weights.rest) < SECOND_LOOK_WEIGHT:
        return None
    estimate = estimate_first_rows(table, scans, top_k, options)
    if estimate is None:
        return None
    # Where two phases may pay, the others are read for few rows in any case.
    has_phases = _may_take_two_phases(table, columns, top_k, options)
    others = 0.0 if has_phases else weights.rest
    most = WALK_PAYS * estimate.rows_by_row_groups * (weights.narrow + others)
    most -= ROW_GROUP_WEIGHT * estimate.row_groups + LATE_WEIGHT * top_k.row_count * weights.rest
    most_rows = int(most / (LATE_WEIGHT * max(weights.narrow, 1.0)))
    if estimate.rows_by_pages > most_rows:
        return None
    reason = (
        f"bounds of {top_k.key} lead to the first rows: about {estimate.rows_by_pages:,} rows in"
        f" pages to look at, of {estimate.rows_by_row_groups:,} in row groups"
    )
    # Those that tie with the last are fetched, too: they may be many.
    most_found = max(most, 0.0) / (LATE_WEIGHT * max(weights.rest, 1.0))
    first = dataclasses.replace(
        top_k.first,
        most_rows_seen=most_rows,
        most_rows_found=top_k.row_count + int(most_found),
    )
    return Choice("late", reason, first)


def estimate_first_rows(
    table: ParquetTable, scans: list[PlannedScan], top_k: TopK, options: ScanOptions
) -> VisitEstimate | None:
    """What our own scan would look at for the first rows; None where bounds do not help."""
    try:
        conjuncts = to_conjuncts(common_filters(scans), table.printed_names, table.schema)
        return estimate_visits(as_exact_table(table, options), conjuncts, top_k.first, options)
    except LateError:
        return None


def _weights(
    table: ParquetTable,
    columns: Collection[str],
    narrow: Collection[str],
    options: ScanOptions,
    *,
    copied: bool = False,
) -> Weights:
    """What columns weigh; `copied`: as if numbers were stored as they are, and merely copied."""
    weights = _column_weights(table, columns, options)
    if copied:
        numbers = [n for n in weights if pa.types.is_primitive(table.schema.field(n).type)]
        weights |= {name: min(weights[name], VALUE_WEIGHT) for name in numbers}
    inside = sum(weight for name, weight in weights.items() if name in narrow)
    return Weights(inside, sum(weights.values()) - inside)


def _column_weights(
    table: ParquetTable, columns: Collection[str], options: ScanOptions
) -> dict[str, float]:
    """As the first row group of the first file has them."""
    facts = load_facts(LocalStorage(), table.files[0].path, options)
    return weight_per_row(facts, 0, columns) if facts.num_row_groups else {}


def weight_per_row(facts: FileFacts, row_group: int, columns: Iterable[str]) -> dict[str, float]:
    """What decoding one row of each column weighs."""
    rows = facts.row_count(row_group)
    if not rows:
        return dict.fromkeys(columns, 0.0)
    weights = {}
    for name in columns:
        column = facts.schema.get_field_index(name)
        # A file may lack a column of its table.
        chunks = facts.chunks_of(row_group, column) if column >= 0 else []
        size = sum(chunk.metadata.total_uncompressed_size for chunk in chunks)
        # A size is whatever the footer says, even less than nothing.
        weights[name] = VALUE_WEIGHT * len(chunks) + max(0, size) / rows
    return weights
