"""`LateDataset`: a `pyarrow.dataset.Dataset` with late materialization.

In: paths. Out: scanners, fragments, tables.

DataFusion (`register_dataset`), DuckDB (a variable in SQL), Polars (`scan_pyarrow_dataset`) and
pandas accept it like any PyArrow dataset. PyArrow functions that read a dataset in C++ get
PyArrow's own reader over the same files (`pyarrow_files`).

Invariant: every reader returns the same rows. PyArrow's reader never gets a dataset whose filter,
limit or order only we can apply.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from lm_datafusion.dataset.discovery import check_one_format, load_table_files, paths_of
from lm_datafusion.dataset.extent import Extent, chosen_extent
from lm_datafusion.dataset.fragment import LateFragment, tuned
from lm_datafusion.dataset.pyarrow_files import PyArrowFiles
from lm_datafusion.dataset.scanner import LateScanner, conjuncts_of, pruning_conjuncts
from lm_datafusion.dataset.schema import unify_schemas, with_string_type
from lm_datafusion.dataset.verbs import ScanVerbs
from lm_datafusion.metrics import ScanMetrics
from lm_datafusion.options import ScanOptions
from lm_datafusion.plan import PlanPart, ScanRequest, Table
from lm_datafusion.predicate.conjunct import bind_conjuncts, check_expressions
from lm_datafusion.scan import (
    can_split,
    find_order,
    load_all_facts,
    plan_scan,
    split_tasks,
    worth_workers,
)
from lm_datafusion.scan.exit import stop_at_exit
from lm_datafusion.storage import find_storage

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, MutableSequence, Sequence

    from lm_datafusion.dataset.verbs import Columns, Filter, OrderBy
    from lm_datafusion.metrics import ScanReport
    from lm_datafusion.plan import ClaimedOrder, KnownOrder, RowGroupTask, TableFile
    from lm_datafusion.predicate.conjunct import Conjunct
    from lm_datafusion.storage import Storage

# Reports that a dataset keeps, of about 2 KB each.
REPORTS_KEPT = 64


def dataset(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    schema: pa.Schema | None = None,
    options: ScanOptions | None = None,
    storage: Any = None,
) -> LateDataset:
    """Opens Parquet or ORC files as a dataset with late materialization.

    Args:
        source: A file, a folder (`year=2024` in folder names becomes a column), a glob such as
            `logs/*.parquet`, or a list of these; or URLs: `s3://bucket/logs/*.parquet`, `az://`,
            `gs://`, `https://`, `file://`.
        schema: The columns and types to read. By default the footers of all files are read and
            their schemas unified.
        options: How to scan; see `ScanOptions`.
        storage: An obstore store for such URLs or for keys of it; by default obstore finds
            credentials in the environment.

    Returns:
        A `pyarrow.dataset.Dataset`.

    Raises:
        FileMissingError: The source does not exist (also a `FileNotFoundError`).
        CorruptFileError: A file is neither Parquet nor ORC, or is truncated (also a `ValueError`).
        OptionError: There are files of both formats.
        SchemaClashError: The columns of files are incompatible (also a `ValueError`).
    """
    options = options or ScanOptions()
    found, paths = find_storage(paths_of(source), storage, options)
    files = load_table_files(paths, found, schema)
    if schema is None:
        schema = _load_schema(files, found, options)
    return LateDataset(Table(storage=found, files=files, schema=schema), options=options)


def _load_schema(files: tuple[TableFile, ...], storage: Storage, options: ScanOptions) -> pa.Schema:
    """The unified schema of all files; partition values replace stored columns."""
    schemas = []
    every = load_all_facts(storage, [file.path for file in files], options)
    check_one_format((facts.format_name, facts.version.path) for facts in every)
    for file, facts in zip(files, every, strict=True):
        stored = facts.schema
        fields = [field for field in stored if field.name not in file.partition]
        partition = [pa.field(name, value.type) for name, value in file.partition.items()]
        schemas.append((file.path, pa.schema([*fields, *partition], metadata=stored.metadata)))
    return with_string_type(unify_schemas(schemas), options.string_type)


class LateDataset(ScanVerbs, PyArrowFiles):
    """Files of one schema and format. Make one with `dataset`."""

    def __init__(
        self,
        table: Table,
        *,
        options: ScanOptions,
        conjuncts: tuple[Conjunct, ...] = (),
        extent: Extent | None = None,
        reports: MutableSequence[ScanReport] | None = None,
    ) -> None:
        super().__init__(table, conjuncts, extent or Extent())
        self._options = options
        self._reports = deque(maxlen=REPORTS_KEPT) if reports is None else reports

    @property
    def schema(self) -> pa.Schema:
        """Columns and types."""
        return self._table.schema

    @property
    def partition_expression(self) -> pc.Expression:
        """Always true: the dataset is the whole table."""
        return pc.scalar(True)

    @property
    def files(self) -> list[str]:
        """The paths of the files."""
        return [file.path for file in self._table.files]

    @property
    def options(self) -> ScanOptions:
        """How the dataset scans."""
        return self._options

    def scan_reports(self) -> list[ScanReport]:
        """Reports of the last scans of this dataset and its fragments, oldest first."""
        return list(self._reports)

    def scanner(  # noqa: PLR0913 PyArrow's arguments and ours
        self,
        columns: Columns = None,
        filter: Filter = None,  # noqa: A002 PyArrow's name
        *,
        batch_size: int | None = None,
        use_threads: bool = True,
        reverse: bool = False,
        limit: int | None = None,
        order_by: OrderBy = None,
        null_placement: str = "at_end",
        **_tuning: Any,
    ) -> LateScanner:
        """A scanner over the dataset.

        Args:
            columns: Names of columns, or new names with PyArrow expressions; all by default.
            filter: A PyArrow expression (with PyArrow's meaning) or a SQL condition (with
                DataFusion's).
            batch_size: The most rows per batch.
            use_threads: Whether to scan on more than one thread.
            reverse: Rows from the last to the first: files, row groups and pages in reverse.
            limit: The most rows to return; reading stops once they are found.
            order_by: The `limit` keeps the first rows by these columns, in DataFusion's sort
                order: a name, or pairs of a name and `"ascending"` or `"descending"`. Pages that
                cannot hold one of those rows are not read.
            null_placement: Where nulls go in `order_by`: `"at_start"` or `"at_end"`.
            **_tuning: Options of PyArrow's own reader, without effect.

        Raises:
            ColumnNotFoundError: A column does not exist (also a `KeyError`).
            SqlError: The SQL is not a condition (also a `ValueError`).
        """
        return LateScanner(
            self._table,
            columns=columns,
            conjuncts=self._conjuncts + conjuncts_of(filter, self._table.schema),
            options=tuned(self._options, batch_size=batch_size, use_threads=use_threads),
            on_report=self._reports.append,
            extent=chosen_extent(
                self._extent,
                reverse=reverse,
                limit=limit,
                order_by=order_by,
                null_placement=null_placement,
            ),
        )

    def get_fragments(self, filter: Filter = None) -> Iterator[LateFragment]:  # noqa: A002 PyArrow's name
        """Balanced groups of the row groups that statistics leave, one per scan thread.

        If there are fewer row groups than threads, large ones are split into ranges of rows.

        A filter here only prunes; it must be passed to the fragment's scanner too. Whether that
        scanner has DataFusion's or PyArrow's semantics is not known yet, so conditions on which
        they differ prune nothing. A dataset with a limit or first rows (see `with_extent`) is one
        fragment: a part alone cannot know which rows are among them.
        """
        stop_at_exit()
        conjuncts = self._conjuncts + pruning_conjuncts(filter, self._table.schema)
        request = ScanRequest(conjuncts=conjuncts)
        metrics = ScanMetrics()
        plan = plan_scan(self._table, request, self._options, metrics)
        pruned = _pruned(metrics.report(), plan.tasks)
        is_whole = self._extent.is_whole
        step = -1 if self._extent.is_reverse else 1
        options = self._options.with_changes(threads=1) if is_whole else self._options
        count = worth_workers(plan, self._options.worker_count) if is_whole else 1
        tasks = plan.tasks
        if len(tasks) < count and can_split(self.schema):
            tasks = split_tasks(tasks, count)
        for group in _balanced(tasks[::step], count):
            yield LateFragment(
                self._table,
                PlanPart(tasks=tuple(group[::step]), row_filter=plan.row_filter),
                conjuncts=self._conjuncts,
                options=options,
                on_report=self._reports.append,
                pruned=pruned,
                extent=self._extent,
            )
            pruned = {}

    def filter(self, expression: Filter) -> LateDataset:
        """A dataset of the matching rows; filters accumulate."""
        added = conjuncts_of(expression, self._table.schema)
        # Bound here only to report errors early.
        check_expressions(bind_conjuncts(added, self._table.schema), self._table.schema)
        return self._copy(conjuncts=self._conjuncts + added, reports=self._reports)

    @property
    def table(self) -> Table:
        """The files and their schema."""
        return self._table

    @property
    def extent(self) -> Extent:
        """Which of the matching rows it returns, and in which order."""
        return self._extent

    @property
    def conjuncts(self) -> tuple[Conjunct, ...]:
        """The conjuncts that every row of the dataset meets."""
        return self._conjuncts

    def find_order(
        self, column: str, *, declared: ClaimedOrder | None = None, with_pages: bool = True
    ) -> KnownOrder:
        """How a column orders the rows, as proven by bounds in the files.

        Args:
            column: Its name.
            declared: The declared order of each file; reported separately from a proven order.
            with_pages: Whether to read page indexes too, not only footers.
        """
        return find_order(self._table, column, self._options, declared, with_pages=with_pages)

    def with_conjuncts(self, conjuncts: tuple[Conjunct, ...]) -> LateDataset:
        """A dataset of the rows that also meet these conjuncts."""
        return self._copy(conjuncts=self._conjuncts + conjuncts)

    def with_extent(self, extent: Extent) -> LateDataset:
        """A dataset of some of the rows that meet all conjuncts, including those of a scanner."""
        return self._copy(extent=extent)

    def pinned(self) -> LateDataset:
        """The same rows; a scan raises `FileChangedError` if a file has changed since."""
        return self._copy(table=self._table.pinned(), reports=self._reports)

    def with_reports(self, reports: MutableSequence[ScanReport]) -> LateDataset:
        """The same dataset; reports of its scans are added to `reports`."""
        return self._copy(reports=reports)

    def report_to(self, reports: MutableSequence[ScanReport]) -> None:
        """Adds reports of future scans to `reports`."""
        self._reports = reports

    def with_options(self, **changes: Any) -> LateDataset:
        """The same files with some options changed."""
        return self._copy(options=self._options.with_changes(**changes))

    def replace_schema(self, schema: pa.Schema) -> LateDataset:
        """The same files read with another schema: columns by name, types by cast."""
        table = Table(storage=self._table.storage, files=self._table.files, schema=schema)
        copy = self._copy(table=table)
        if copy.is_whole_table:
            # PyArrow makes unions of such copies without calling them first.
            copy.open_to_pyarrow()
        return copy

    def _copy(self, *, table: Table | None = None, **changes: Any) -> LateDataset:
        current: dict[str, Any] = {
            "options": self._options,
            "conjuncts": self._conjuncts,
            "extent": self._extent,
        }
        return LateDataset(table or self._table, **(current | changes))

    def sort_by(self, sorting: Any, **options: Any) -> ds.InMemoryDataset:
        """The dataset in memory, sorted."""
        return ds.InMemoryDataset(self.to_table().sort_by(sorting, **options))

    def join(self, right_dataset: ds.Dataset, *arguments: Any, **options: Any) -> Any:
        """The dataset in memory, joined; arguments as for PyArrow's `Dataset.join`."""
        return _in_memory(self).join(_in_memory(right_dataset), *arguments, **options)

    def join_asof(self, right_dataset: ds.Dataset, *arguments: Any, **options: Any) -> Any:
        """The dataset in memory, joined as of; arguments as for PyArrow's `join_asof`."""
        return _in_memory(self).join_asof(_in_memory(right_dataset), *arguments, **options)

    def _late_scanner(self, columns: Columns, filter: Filter, **tuning: Any) -> LateScanner:  # noqa: A002
        return self.scanner(columns, filter, **tuning)

    def _get_fragments(self, filter: Filter) -> Iterator[LateFragment]:  # noqa: A002
        return self.get_fragments(filter)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_dataset, (self._table, self._options, self._conjuncts, self._extent)

    def __repr__(self) -> str:
        filters = " AND ".join(map(str, self._conjuncts))
        where = f" WHERE {filters}" if filters else ""
        return f"<LateDataset of {len(self._table.files)} files, {len(self.schema)} columns{where}>"


def _in_memory(source: ds.Dataset) -> ds.Dataset:
    return ds.InMemoryDataset(source.to_table()) if isinstance(source, LateDataset) else source


def _pruned(report: ScanReport, tasks: Sequence[RowGroupTask]) -> dict[str, int]:
    """Counters of what planning ruled out, which no fragment sees."""
    paths = {task.file.version.path for task in tasks}
    return {
        "files": report.files - len(paths),
        "files_pruned": report.files_pruned,
        "row_groups_total": report.row_groups_total - len(tasks),
        "row_groups_pruned_statistics": report.row_groups_pruned_statistics,
        "row_groups_pruned_condition_cache": report.row_groups_pruned_condition_cache,
        "condition_cache_hits": report.condition_cache_hits,
        "condition_cache_rows": report.condition_cache_rows,
        "rows_total": report.rows_total - sum(task.access.row_count for task in tasks),
    }


def _balanced(tasks: Sequence[RowGroupTask], count: int) -> list[list[RowGroupTask]]:
    """Adjacent tasks in at most `count` groups with about equal rows; at least one group."""
    counts = [task.row_count for task in tasks]
    total = sum(counts)
    groups: list[list[RowGroupTask]] = [[]]
    done = 0
    for task, row_count in zip(tasks, counts, strict=True):
        if groups[-1] and len(groups) < count and done >= total * len(groups) / count:
            groups.append([])
        groups[-1].append(task)
        done += row_count
    return groups


def _restore_dataset(
    table: Table, options: ScanOptions, conjuncts: tuple[Conjunct, ...], extent: Extent
) -> LateDataset:
    return LateDataset(table, options=options, conjuncts=conjuncts, extent=extent)
