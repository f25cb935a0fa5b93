"""A request for rows of a table becomes a `ReadPlan`.

In: a `Table` and a `ScanRequest`. Out: a plan with the row groups that statistics left over.

1. Conjuncts are bound to the table's schema; errors in names and types come out here, before any
   row is read.
2. Footers are loaded (or come from the cache), and each file's columns are found by name.
3. Files are pruned by partition values before they are opened, row groups by statistics.
4. The filter chain is ordered by expected cost.

Invariant: planning reads footers only.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pyarrow as pa

from lm_datafusion.errors import (
    ColumnNotFoundError,
    FileChangedError,
    OptionError,
    UnsupportedFeatureError,
)
from lm_datafusion.formats.parquet.cache import FACTS
from lm_datafusion.formats.parquet.statistics import RowGroupStatistics
from lm_datafusion.plan import FilePlan, FilterStep, ReadPlan, RowFilter, plan_row_filter
from lm_datafusion.plan.selectivity import estimate_selectivity
from lm_datafusion.predicate.conjunct import bind_conjuncts
from lm_datafusion.scan.best_keys import best_keys
from lm_datafusion.scan.file_pruning import FilePruning, judge_constants, plan_tasks
from lm_datafusion.scan.prune import PruningContext
from lm_datafusion.scan.sort_values import has_sort_values
from lm_datafusion.scan.spans import proven_order, spans_of, why_unknown
from lm_datafusion.storage import MeteredFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lm_datafusion.formats.parquet.footer import FileFacts
    from lm_datafusion.metrics import ScanMetrics
    from lm_datafusion.options import ScanOptions
    from lm_datafusion.plan import FilePart, FirstRows, RowGroupTask, ScanRequest, Table, TableFile
    from lm_datafusion.predicate.conjunct import BoundConjunct, Conjunct
    from lm_datafusion.scan.spans import Span
    from lm_datafusion.storage import Storage

    # By the place of a file in the table, for a path may be there twice.
    FileParts = Mapping[int, FilePart]


def plan_scan(
    table: Table,
    request: ScanRequest,
    options: ScanOptions,
    metrics: ScanMetrics,
    only: FileParts | None = None,
    bound: tuple[BoundConjunct, ...] | None = None,
) -> ReadPlan:
    """Plans a scan.

    Args:
        table: What to read from.
        request: What is wanted.
        options: How to scan.
        metrics: Counts what planning sees and prunes.
        only: The row groups that are wanted, if not all are.
        bound: The conjuncts of the request, if somebody has bound them already.

    Raises:
        ColumnNotFoundError: A column that the table does not have.
        SqlError: A conjunct that DataFusion rejects.
        StorageError: A file that cannot be read, or is not the one that parts are wanted of.
        CorruptFileError: A file that is no Parquet file.
    """
    conjuncts = bind_request(table, request) if bound is None else bound
    keys = _key_columns(request.first, table.schema)
    needed = dict.fromkeys(
        [*request.columns, *(name for conjunct in conjuncts for name in conjunct.columns), *keys]
    )
    # Metadata may be bytes, and DataFusion, which evaluates over this schema, takes text only.
    schema = pa.schema([table.schema.field(name).remove_metadata() for name in needed])
    files: list[FilePruning] = []
    steps: RowFilter | None = None
    spans: list[Span] = []
    answers = _partition_answers(table.files, conjuncts, schema, metrics)
    for place, file in enumerate(table.files):
        part = None if only is None else only.get(place)
        if only is not None and part is None:
            continue
        if not all(answer[place] for answer in answers.values()):
            metrics.add(files=1, files_pruned=1)
            continue
        facts = load_facts(table.storage, file.path, options, metrics)
        if part is not None and part.version != facts.version:
            raise FileChangedError(f"{file.path} changed after it was planned for")
        context = PruningContext(
            facts=facts,
            file_plan=_file_plan(place, file, facts, schema),
            conjuncts=conjuncts,
            schema=schema,
            options=options,
            metrics=metrics,
            decided=frozenset(answers),
        )
        files.append(FilePruning(context, None if part is None else part.row_groups))
        if steps is None and conjuncts:
            steps = _row_filter(conjuncts, context)
    tasks = plan_tasks(files)
    if request.first is not None:
        tasks, spans = _with_best_keys(tasks, request.first, files)
    if request.is_reverse:
        tasks.reverse()
    if request.limit is not None and request.first is None:
        needed_tasks = _enough_tasks(tasks, request)
        metrics.add(row_groups_pruned_early_stop=len(tasks) - len(needed_tasks))
        tasks = needed_tasks
    if request.first is not None and not request.first.row_count:
        tasks = []
    metrics.mechanism = _mechanism(request)
    metrics.order = "" if request.first is None else _order_text(request.first, spans)
    return ReadPlan(
        storage=table.storage,
        schema=pa.schema(
            [table.schema.field(name) for name in request.columns], metadata=table.schema.metadata
        ),
        filter_schema=schema,
        row_filter=steps or RowFilter(steps=()),
        tasks=tuple(tasks),
        options=options,
        is_reverse=request.is_reverse,
        limit=request.limit,
        first=request.first,
    )


def bind_request(table: Table, request: ScanRequest) -> tuple[BoundConjunct, ...]:
    """The conjuncts of a request, bound to the table.

    Opens no file: what is wrong with a request, whatever the files hold, comes out here.
    """
    check_columns(request.columns, table.schema)
    _key_columns(request.first, table.schema)
    return bind_conjuncts(_without_repeats(request.conjuncts), table.schema)


def _key_columns(first: FirstRows | None, schema: pa.Schema) -> list[str]:
    if first is None:
        return []
    check_columns([first.column], schema)
    data_type = schema.field(first.column).type
    if not has_sort_values(data_type):
        raise UnsupportedFeatureError(f'column "{first.column}": no order of {data_type} values')
    return [first.column]


def _with_best_keys(
    tasks: list[RowGroupTask], first: FirstRows, files: Sequence[FilePruning]
) -> tuple[list[RowGroupTask], list[Span]]:
    """Tasks with the best key that each row group can hold, and the keys each spans."""
    found: list[RowGroupTask] = []
    spans: list[Span] = []
    for file in files:
        own = [task for task in tasks if task.file is file.context.file_plan]
        if not file.context.options.prune_statistics:
            found += own
            continue
        keyed, spanned = _with_keys_of_file(own, first, file.context)
        found += keyed
        spans += spanned
    return found, spans


def _with_keys_of_file(
    tasks: list[RowGroupTask], first: FirstRows, context: PruningContext
) -> tuple[list[RowGroupTask], list[Span]]:
    row_groups = [task.access.row_group for task in tasks]
    statistics = RowGroupStatistics(context.facts, row_groups, context.file_plan.constants)
    data_type = context.schema.field(first.column).type
    found = best_keys(statistics, first, data_type, context.metrics)
    tasks = [dataclasses.replace(task, best=best) for task, best in zip(tasks, found, strict=True)]
    return tasks, spans_of(statistics, first.column, data_type, [""] * len(tasks))


def _order_text(first: FirstRows, spans: Sequence[Span]) -> str:
    """What the bounds of row groups say of the order; pages are looked at later, one by one."""
    if not spans:
        return ""
    known = proven_order(first.column, "row groups", spans)
    return why_unknown(first.column, spans) if known is None else known.reason


def _mechanism(request: ScanRequest) -> str:
    """How a scan goes that does not take all rows in the order of the files."""
    if request.first is not None:
        return (
            f"first {request.first.row_count:,} rows by {request.first}: pages in the order of"
            " the best key they can hold"
        )
    direction = "pages from the last to the first" if request.is_reverse else ""
    if request.limit is None:
        return direction
    stop = f"stops after {request.limit:,} rows"
    if request.is_any_order:
        stop += ", row groups that match as a whole first"
    return f"{direction}, {stop}" if direction else stop


def _enough_tasks(tasks: list[RowGroupTask], request: ScanRequest) -> list[RowGroupTask]:
    """The tasks up to the one that surely holds the last row of a limit.

    Where rows may come in any order, row groups that match as a whole come first.
    """
    if request.is_any_order:
        tasks = sorted(tasks, key=lambda task: not task.access.is_fully_matched)
    missing = request.limit or 0
    for place, task in enumerate(tasks):
        if missing <= 0:
            return tasks[:place]
        if task.access.is_fully_matched:
            missing -= task.access.selection.row_count
    return tasks


def _without_repeats(conjuncts: Sequence[Conjunct]) -> list[Conjunct]:
    """Each conjunct once: an engine may push what the dataset applies already."""
    kept: dict[object, Conjunct] = {}
    for conjunct in conjuncts:
        is_plain = conjunct.expression is None and not conjunct.is_volatile
        kept.setdefault(conjunct.text if is_plain else id(conjunct), conjunct)
    return list(kept.values())


def _partition_answers(
    files: Sequence[TableFile],
    conjuncts: Sequence[BoundConjunct],
    schema: pa.Schema,
    metrics: ScanMetrics,
) -> dict[int, list[bool]]:
    """By conjunct: whether it holds in each file, where folders alone tell; no file is opened."""
    partitions = [file.partition for file in files]
    if not any(partitions):
        return {}
    found = {}
    for index, conjunct in enumerate(conjuncts):
        answers = judge_constants(conjunct, partitions, schema, metrics)
        if answers is not None:
            found[index] = answers
    return found


def check_columns(names: Sequence[str], schema: pa.Schema) -> None:
    """Raises unless every name is exactly one column."""
    for name in names:
        found = schema.get_all_field_indices(name)
        if not found:
            raise ColumnNotFoundError(name, schema.names)
        if len(found) > 1:
            raise OptionError(f'{len(found)} columns are named "{name}"; a name must be unique')


def load_facts(
    storage: Storage, path: str, options: ScanOptions, metrics: ScanMetrics | None = None
) -> FileFacts:
    """The facts of a file as it is now."""
    version = storage.load_version(path)
    facts = FACTS.get(version)
    if facts is not None:
        return facts
    with storage.open(version) as file:
        counted = (
            file
            if metrics is None
            else MeteredFile(file, lambda count: metrics.add(bytes_metadata=count))
        )
        return FACTS.load(counted, limit_bytes=options.metadata_cache_bytes)


def _file_plan(place: int, file: TableFile, facts: FileFacts, schema: pa.Schema) -> FilePlan:
    columns: dict[str, int] = {}
    constants: dict[str, pa.Scalar] = {}
    for field in schema:
        if field.name in file.partition:
            constants[field.name] = file.partition[field.name]
            continue
        found = facts.schema.get_all_field_indices(field.name)
        if len(found) > 1:
            raise OptionError(f'{file.path}: {len(found)} columns are named "{field.name}"')
        if found:
            columns[field.name] = found[0]
        else:
            constants[field.name] = pa.scalar(None, field.type)
    return FilePlan(place=place, version=facts.version, columns=columns, constants=constants)


def _row_filter(conjuncts: Sequence[BoundConjunct], context: PruningContext) -> RowFilter:
    facts = context.facts
    statistics = RowGroupStatistics(facts, range(facts.num_row_groups), context.file_plan.constants)
    steps = [
        FilterStep(
            index=index,
            conjunct=conjunct,
            bytes_per_row=_bytes_per_row(conjunct, context),
            selectivity=_selectivity(conjunct, statistics),
        )
        for index, conjunct in enumerate(conjuncts)
    ]
    return plan_row_filter(steps, reorder=context.options.reorder_filters)


def _selectivity(conjunct: BoundConjunct, statistics: RowGroupStatistics) -> float:
    try:
        return estimate_selectivity(conjunct.tree, statistics)
    except Exception:  # noqa: BLE001 a guess must not stop a scan
        return 0.5


def _bytes_per_row(conjunct: BoundConjunct, context: PruningContext) -> float:
    """Uncompressed bytes of a conjunct's columns per row, in the first row group."""
    facts = context.facts
    if not facts.num_row_groups or not facts.row_count(0):
        return 0.0
    total = 0
    for name in conjunct.columns:
        column = context.file_plan.columns.get(name)
        if column is not None:
            chunks = facts.chunks_of(0, column)
            total += sum(chunk.metadata.total_uncompressed_size for chunk in chunks)
    return total / facts.row_count(0)
