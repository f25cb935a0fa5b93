"""Plans a scan: a `ScanRequest` on a `Table` becomes a `ReadPlan`.

In: a `Table` and a `ScanRequest`. Out: a plan with the row groups that statistics cannot rule out.

1. Conjuncts are bound to the table's schema; wrong names and types are reported here, before any
   row is read.
2. Footers are loaded (or come from the cache), and each file's columns are found by name.
3. Files are pruned by partition values before they are opened, row groups by statistics.
4. The filter chain is ordered by expected cost.

A part of an earlier plan is reused if it was pruned by the same conjuncts; only the versions and
columns of its files are looked up again.

Invariant: planning reads footers only; the tasks of a plan refer to the file versions at planning
time.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lm_datafusion.errors import (
    ColumnNotFoundError,
    FileChangedError,
    OptionError,
    UnsupportedFeatureError,
)
from lm_datafusion.formats.cache import FACTS
from lm_datafusion.plan import (
    FilePlan,
    FilterStep,
    ReadPlan,
    RowFilter,
    RowGroupTask,
    plan_row_filter,
)
from lm_datafusion.plan.selectivity import estimate_selectivity
from lm_datafusion.predicate.conjunct import bind_conjuncts
from lm_datafusion.scan.keys.best_keys import best_keys
from lm_datafusion.scan.keys.sort_values import has_sort_values
from lm_datafusion.scan.keys.spans import proven_order, spans_of, why_unknown
from lm_datafusion.scan.memory.footer_answers import ANSWERS, question
from lm_datafusion.scan.pruning.conjunction import Conjunction
from lm_datafusion.scan.pruning.file_pruning import judge_constants, plan_tasks
from lm_datafusion.scan.pruning.prune import PruningContext
from lm_datafusion.storage import LazyFile, MeteredFile, Traffic

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from lm_datafusion.formats.protocol import FileFacts
    from lm_datafusion.metrics import ScanMetrics
    from lm_datafusion.options import ScanOptions
    from lm_datafusion.plan import FirstRows, PlanPart, ScanRequest, Table, TableFile
    from lm_datafusion.predicate.conjunct import BoundConjunct, Conjunct
    from lm_datafusion.scan.keys.spans import Span
    from lm_datafusion.storage import FileVersion, Storage

# Footers of a store that are requested together.
FOOTERS_AT_ONCE = 128


def plan_scan(
    table: Table,
    request: ScanRequest,
    options: ScanOptions,
    metrics: ScanMetrics,
    part: PlanPart | None = None,
    bound: tuple[BoundConjunct, ...] | None = None,
) -> ReadPlan:
    """Plans a scan.

    Args:
        table: What to read from.
        request: What is wanted.
        options: How to scan.
        metrics: Counts what planning sees and prunes.
        part: The row groups to read, if not all.
        bound: The conjuncts of the request, if they are already bound.

    Raises:
        ColumnNotFoundError: The table does not have a column.
        SqlError: DataFusion rejects a conjunct.
        StorageError: A file cannot be read, or has changed since the part was planned.
        CorruptFileError: A file is damaged.
    """
    conjuncts = bind_request(table, request) if bound is None else bound
    keys = _key_columns(request.first, table.schema)
    needed = dict.fromkeys(
        [*request.columns, *(name for conjunct in conjuncts for name in conjunct.columns), *keys]
    )
    # Metadata may be bytes; DataFusion, which evaluates over this schema, accepts text only.
    schema = pa.schema([table.schema.field(name).remove_metadata() for name in needed])
    files = _load_files(table, conjuncts, schema, options, metrics, part)
    if part is not None and part.is_pruned_by(conjuncts):
        tasks, steps = _tasks_of_part(part, files), part.row_filter
        _count_part(part, files, metrics)
    else:
        tasks = plan_tasks(files, None if part is None else part.row_groups)
        tasks = tasks if part is None else _with_ranges(tasks, part, metrics)
        steps = _row_filter(files[0]) if files and conjuncts else RowFilter(steps=())
    spans: list[Span] = []
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
        row_filter=steps,
        tasks=tuple(tasks),
        options=options,
        is_reverse=request.is_reverse,
        limit=request.limit,
        first=request.first,
    )


def _load_files(
    table: Table,
    conjuncts: tuple[BoundConjunct, ...],
    schema: pa.Schema,
    options: ScanOptions,
    metrics: ScanMetrics,
    part: PlanPart | None,
) -> list[PruningContext]:
    """The current files, without those that partition values rule out."""
    planned = None if part is None else part.versions
    answers = _partition_answers(table.files, conjuncts, schema, metrics)
    decided, names = frozenset(answers), schema.names
    conjunction = Conjunction(conjuncts, schema)
    chosen = []
    for index in range(len(table.files)):
        if planned is not None and index not in planned:
            continue
        if not all(answer[index] for answer in answers.values()):
            metrics.add(files=1, files_pruned=1)
            continue
        chosen.append(index)
    paths = [table.files[index].path for index in chosen]
    files = []
    found = load_all_facts(table.storage, paths, options, metrics)
    for index, facts in zip(chosen, found, strict=True):
        file = table.files[index]
        wanted = file.version if planned is None else planned[index]
        if wanted is not None and wanted != facts.version:
            raise FileChangedError(f"{file.path} changed after it was planned for")
        context = PruningContext(
            facts=facts,
            file_plan=_file_plan(index, file, facts, names, schema),
            conjunction=conjunction,
            options=options,
            metrics=metrics,
            decided=decided,
        )
        files.append(context)
    return files


def _tasks_of_part(part: PlanPart, files: Sequence[PruningContext]) -> list[RowGroupTask]:
    """The tasks of a part, with the columns of another request."""
    plans = {file.file_plan.index: file.file_plan for file in files}
    return [task.with_file(plans[task.file.index]) for task in part.tasks]


def _with_ranges(
    tasks: list[RowGroupTask], part: PlanPart, metrics: ScanMetrics
) -> list[RowGroupTask]:
    """Restricts tasks of whole row groups to the row ranges of a part."""
    if all(task.rows is None for task in part.tasks):
        return tasks
    ranges: dict[tuple[int, int], list[RowGroupTask]] = {}
    for task in part.tasks:
        ranges.setdefault((task.file.index, task.access.row_group), []).append(task)
    counted = sum(parts[0].access.row_count for parts in ranges.values())
    metrics.add(
        row_groups_total=sum(not task.is_part for task in part.tasks) - len(ranges),
        rows_total=sum(task.row_count for task in part.tasks) - counted,
    )
    return [
        dataclasses.replace(task, rows=cut.rows, is_part=cut.is_part)
        for task in tasks
        for cut in ranges[task.file.index, task.access.row_group]
    ]


def _count_part(part: PlanPart, files: Sequence[PruningContext], metrics: ScanMetrics) -> None:
    metrics.add(
        files=len(files),
        bytes_total=sum(file.facts.version.size_bytes for file in files),
        row_groups_total=sum(not task.is_part for task in part.tasks),
        rows_total=sum(task.row_count for task in part.tasks),
    )


def bind_request(table: Table, request: ScanRequest) -> tuple[BoundConjunct, ...]:
    """The conjuncts of a request, bound to the table.

    Opens no file: reports what is wrong with a request regardless of the files.
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
    tasks: list[RowGroupTask], first: FirstRows, files: Sequence[PruningContext]
) -> tuple[list[RowGroupTask], list[Span]]:
    """Tasks with the best key that each row group can hold, and the span of its keys."""
    found: list[RowGroupTask] = []
    spans: list[Span] = []
    for file in files:
        in_file = [task for task in tasks if task.file is file.file_plan]
        if not file.options.prune_statistics:
            found += in_file
            continue
        keyed, spanned = _with_keys_of_file(in_file, first, file)
        found += keyed
        spans += spanned
    return found, spans


def _with_keys_of_file(
    tasks: list[RowGroupTask], first: FirstRows, context: PruningContext
) -> tuple[list[RowGroupTask], list[Span]]:
    row_groups = [task.access.row_group for task in tasks]
    statistics = context.facts.row_group_statistics(row_groups, context.file_plan.constants)
    data_type = context.schema.field(first.column).type
    found = best_keys(statistics, first, data_type, context.metrics)
    tasks = [dataclasses.replace(task, best=best) for task, best in zip(tasks, found, strict=True)]
    return tasks, spans_of(statistics, first.column, data_type, [""] * len(tasks))


def _order_text(first: FirstRows, spans: Sequence[Span]) -> str:
    """What the bounds of row groups say about the order; pages are checked later."""
    if not spans:
        return ""
    known = proven_order(first.column, "row groups", spans)
    return why_unknown(first.column, spans) if known is None else known.reason


def _mechanism(request: ScanRequest) -> str:
    """How the scan works, unless it returns all rows in file order."""
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
    """The tasks up to the one that is certain to hold the last row of the limit.

    If rows may come in any order, row groups that match as a whole come first.
    """
    if request.is_any_order:
        tasks = sorted(tasks, key=lambda task: not task.access.is_fully_matched)
    missing = request.limit or 0
    for index, task in enumerate(tasks):
        if missing <= 0:
            return tasks[:index]
        if task.access.is_fully_matched:
            missing -= task.rows_left
    return tasks


def _without_repeats(conjuncts: Sequence[Conjunct]) -> list[Conjunct]:
    """Each conjunct once: an engine may push down what the dataset already applies."""
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
    """By conjunct: whether it holds in each file, if partitions decide it; opens no file."""
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
    """Raises unless every name refers to exactly one column."""
    for name in names:
        found = schema.get_all_field_indices(name)
        if not found:
            raise ColumnNotFoundError(name, schema.names)
        if len(found) > 1:
            raise OptionError(f'{len(found)} columns are named "{name}"; a name must be unique')


def is_known(storage: Storage, path: str) -> bool:
    """Whether the facts of the current version of a file are cached."""
    return FACTS.get(storage.load_version(path)) is not None


def load_facts(
    storage: Storage, path: str, options: ScanOptions, metrics: ScanMetrics | None = None
) -> FileFacts:
    """The facts of the current version of a file."""
    version = storage.load_version(path)
    facts = FACTS.get(version)
    if facts is not None:
        return facts
    with LazyFile(storage, version) as file, file.blamed():
        counted = (
            file
            if metrics is None
            else MeteredFile(file, lambda count: metrics.add(bytes_metadata=count))
        )
        return FACTS.load(counted, limit_bytes=options.metadata_cache_bytes)


def load_all_facts(
    storage: Storage, paths: Sequence[str], options: ScanOptions, metrics: ScanMetrics | None = None
) -> list[FileFacts]:
    """The facts of the current versions of files; of a store, many footers are read at once."""
    if not storage.is_remote:
        return [load_facts(storage, path, options, metrics) for path in paths]
    traffic = Traffic()
    versions = storage.load_versions(paths, traffic)
    # Held here: what is loaded may evict others from the cache.
    found = {version: facts for version in versions if (facts := FACTS.get(version)) is not None}
    unknown = [version for version in dict.fromkeys(versions) if version not in found]
    for start in range(0, len(unknown), FOOTERS_AT_ONCE):
        part = unknown[start : start + FOOTERS_AT_ONCE]
        found |= _fetch_facts(storage, part, options, traffic)
    if metrics is not None:
        metrics.add(bytes_metadata=traffic.bytes_fetched, **traffic.counts())
    return [found[version] for version in versions]


def _fetch_facts(
    storage: Storage, versions: Iterable[FileVersion], options: ScanOptions, traffic: Traffic
) -> dict[FileVersion, FileFacts]:
    """The ends of all files in one round; then what is missing of a footer, file by file."""
    with contextlib.ExitStack() as opened:
        files = [opened.enter_context(LazyFile(storage, version)) for version in versions]
        with traffic.waiting():
            tails = [file.fetch_tail() for file in files]
            for tail in tails:
                tail.keep()
        found = {
            file.version: FACTS.load(file, limit_bytes=options.metadata_cache_bytes)
            for file in files
        }
        for file in files:
            traffic.add(file.traffic)
    return found


def _file_plan(
    index: int, file: TableFile, facts: FileFacts, names: Sequence[str], schema: pa.Schema
) -> FilePlan:
    columns: dict[str, int] = {}
    constants: dict[str, pa.Scalar] = {}
    for name in names:
        found = facts.column_indices.get(name, ())
        if name in file.partition:
            constants[name] = file.partition[name]
        elif len(found) > 1:
            raise OptionError(f'{file.path}: {len(found)} columns are named "{name}"')
        elif found:
            columns[name] = found[0]
        else:
            constants[name] = pa.scalar(None, schema.field(name).type)
    return FilePlan(index=index, version=facts.version, columns=columns, constants=constants)


def _row_filter(file: PruningContext) -> RowFilter:
    """The filter chain, estimated from the first file."""
    steps = [
        FilterStep(
            index=index,
            conjunct=conjunct,
            bytes_per_row=bytes_per_row,
            selectivity=selectivity,
        )
        for index, (conjunct, (bytes_per_row, selectivity)) in enumerate(
            zip(file.conjuncts, _estimates(file).tolist(), strict=True)
        )
    ]
    return plan_row_filter(steps, reorder=file.options.reorder_filters)


def _estimates(file: PruningContext) -> npt.NDArray[np.float64]:
    """By conjunct: bytes per row of its columns, and the share of rows it may keep."""
    asked = None
    if not file.file_plan.constants:
        asked = question("estimates", (file.facts.version,), file.conjunction.lasting_keys)
    known = ANSWERS.find(asked)
    if known is None:
        known = np.array([[_bytes_per_row(c, file), _selectivity(c, file)] for c in file.conjuncts])
        ANSWERS.keep(asked, known)
    return known


def _selectivity(conjunct: BoundConjunct, file: PruningContext) -> float:
    try:
        return estimate_selectivity(conjunct.tree, file.statistics)
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
            total += sum(chunk.uncompressed_bytes for chunk in chunks)
    return total / facts.row_count(0)
