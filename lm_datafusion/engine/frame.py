"""`LateDataFrame`: DataFusion's DataFrame, whose readers are chosen when it runs.

In: a frame as DataFusion planned it. Out: the same rows, from the readers that suit its tables.

Methods that derive a frame give such frames again. Methods that run it ask the session what to run
instead. All other methods are DataFusion's own, over DataFusion's own plan.

Invariant: a choice is made each time a frame runs, so a frame sees the files of that time, as
DataFusion's frames do.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import datafusion

from lm_datafusion.forks import cached_property

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lm_datafusion.options import ScanOptions

_Frame = datafusion.DataFrame
_DERIVING = (
    "__getitem__",
    "alias",
    "select",
    "drop",
    "window",
    "filter",
    "with_column",
    "with_columns",
    "with_column_renamed",
    "aggregate",
    "sort",
    "cast",
    "limit",
    "head",
    "tail",
    "distinct",
    "join",
    "join_on",
    "repartition",
    "repartition_by_hash",
    "union",
    "intersect",
    "except_all",
    "union_by_name",
    "distinct_on",
    "sort_by",
    "unnest_columns",
    "fill_null",
    "fill_nan",
)
_RUNNING = (
    "__repr__",
    "_repr_html_",
    "collect",
    "collect_column",
    "cache",
    "collect_partitioned",
    "show",
    "write_csv",
    "write_parquet",
    "write_parquet_with_options",
    "write_json",
    "write_table",
    "execute_stream",
    "execute_stream_partitioned",
    "to_arrow_table",
    "to_polars",
    "count",
    "__arrow_c_stream__",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A query as the user gave it.

    Attributes:
        text: SQL.
        param_values: Scalars for its placeholders, by name.
        named_params: Texts for its placeholders, by name.
    """

    text: str
    param_values: dict[str, Any] | None = None
    named_params: dict[str, Any] | None = None

    @property
    def has_params(self) -> bool:
        """Whether the text alone is not the whole query."""
        return bool(self.param_values or self.named_params)

    def planned(
        self,
        context: datafusion.SessionContext,
        text: str | None = None,
        checks: datafusion.SQLOptions | None = None,
    ) -> datafusion.DataFrame:
        """The query, or another text with its values, as a session plans it."""
        given = self.text if text is None else text
        return context.sql(given, checks, self.param_values, **(self.named_params or {}))


class Server(Protocol):
    """Chooses what runs when a frame runs."""

    def plan(self, frame: LateDataFrame) -> datafusion.DataFrame:
        """The frame that would run instead; its rows, names and types are the same."""

    def run(self, frame: LateDataFrame, action: Callable[[_Frame], Any], method: str) -> Any:
        """What an action gives on the frame that runs instead.

        Args:
            frame: What the user made.
            action: What is done with a frame.
            method: Its name.
        """


class LateDataFrame(datafusion.DataFrame):
    """A DataFrame of a session that chooses readers.

    Args:
        native: The frame as DataFusion planned it; or what plans it, if a plan that is kept may
            serve instead.
        server: Chooses what runs.
        options: How its tables are scanned; None to follow tables and session.
        statement: The query it came from; None for one that was put together by methods.
        version: The version of the catalog it was planned in; None if that is not known.
        source: The frame of `read_parquet` that it was made of, if there is exactly one.
    """

    def __init__(
        self,
        native: datafusion.DataFrame | Callable[[], datafusion.DataFrame],
        server: Server,
        *,
        options: ScanOptions | None = None,
        statement: Statement | None = None,
        version: int | None = None,
        source: datafusion.DataFrame | None = None,
    ) -> None:
        if isinstance(native, _Frame):
            super().__init__(native.df)
        else:
            self._plan = native
        self._server = server
        self.scan_options = options
        self.statement = statement
        self.version = version
        self.source = source

    @cached_property
    def df(self) -> Any:
        """What DataFusion's methods work on; planned when the first of them is called."""
        return self._plan().df

    @property
    def native(self) -> datafusion.DataFrame:
        """The frame as DataFusion planned it."""
        return datafusion.DataFrame(self.df)

    def _derived(self, made: datafusion.DataFrame, others: Iterable[Any]) -> LateDataFrame:
        """A frame made of this one and others: of the same version, and of one source at most."""
        frames = [self, *(other for other in others if isinstance(other, _Frame))]
        versions = {getattr(frame, "version", None) for frame in frames}
        sources = {id(s): s for f in frames if (s := getattr(f, "source", None)) is not None}
        return LateDataFrame(
            made,
            self._server,
            options=self.scan_options,
            version=self.version if len(versions) == 1 else None,
            source=next(iter(sources.values())) if len(sources) == 1 else None,
        )

    def execution_plan(self) -> datafusion.ExecutionPlan:
        """The plan that would run."""
        return self._server.plan(self).execution_plan()

    def to_pandas(self) -> Any:
        """The rows, as a pandas DataFrame."""
        return self.to_arrow_table().to_pandas()

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows, as dicts."""
        return self.to_arrow_table().to_pylist()

    def to_pydict(self) -> dict[str, list[Any]]:
        """The columns, as lists."""
        return self.to_arrow_table().to_pydict()


def _deriving(name: str) -> Callable[..., Any]:
    method = getattr(datafusion.DataFrame, name)

    @functools.wraps(method)
    def derive(self: LateDataFrame, *arguments: Any, **options: Any) -> Any:
        made = method(self, *arguments, **options)
        if type(made) is not datafusion.DataFrame:
            return made
        return self._derived(made, [*arguments, *options.values()])

    return derive


def _running(name: str) -> Callable[..., Any]:
    method = getattr(datafusion.DataFrame, name)

    @functools.wraps(method)
    def run(self: LateDataFrame, *arguments: Any, **options: Any) -> Any:
        return self._server.run(self, lambda frame: method(frame, *arguments, **options), name)

    return run


for _name in _DERIVING:
    setattr(LateDataFrame, _name, _deriving(_name))
for _name in _RUNNING:
    setattr(LateDataFrame, _name, _running(_name))
